"""Orders of actions, what they cost, and exactly when each happens.

Patterns (``orders``), rules of the list scheduler (``lists``) and ``rounds`` make compute orders.
A search works on them as words of a job shop (``shop``, ``beam``, ``swaps``). ``lowering`` adds
messages, ``checks`` finds faults, and ``timeline`` replays with ``kernel`` under ``costs``;
``bubbles``, ``windows`` and ``render`` read the replay.
"""
