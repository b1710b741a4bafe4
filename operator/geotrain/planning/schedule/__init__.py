"""Orders of actions, what they cost, and exactly when each happens.

A generator (``orders``, ``backward_first``) makes a compute order, ``lowering`` adds messages,
``checks`` finds faults, ``timeline`` replays it under ``costs``; ``bubbles``, ``windows`` and
``render`` read the replay.
"""
