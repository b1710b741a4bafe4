"""The replay itself: maxima and sums over flat arrays, compiled where numba is, plain elsewhere.

A step is an action in a sequence in which everything comes after its causes. Three numbers say
all of it: ``before`` is the step that its device ran last, ``need`` the step whose message it waits
for, and ``code`` what it is. By code, ``tables`` say the rest: how long it takes, how long the
message that it needs is on its way after its last byte, which link carries what it makes (-1: it
makes no message for another device), and for how long.

``ends`` and ``sent`` hold a number a step: its end, and its message's last byte on the wire. Behind
the steps lie slots for what is there beforehand: in ``ends`` when each device is free, and last in
``sent`` one for what needs no message, minus infinity. ``state`` is these two and ``busy``: when
each link is free. Units: seconds.

``zip`` goes without ``strict``, which numba does not know.
"""

from typing import Any

NOTHING = float("-inf")
"""When what needs no message could have started."""


def replay_one(steps: Any, tables: Any, state: Any) -> None:
    """One lane. ``tables`` are by code (seconds, waits, links, spacing, occupancy)."""
    ends, sent, busy = state
    befores, needs, codes = steps
    seconds, waits, links, spacing, occupancy = tables
    for here, (before, need, code) in enumerate(zip(befores, needs, codes)):  # noqa: B905
        now = ends[before]
        arrival = sent[need] + waits[code]
        if arrival > now:
            now = arrival
        now += seconds[code]
        ends[here] = now
        link = links[code]
        if link >= 0:
            if busy[link] > now:
                now = busy[link]
            busy[link] = now + spacing[code]
            now += occupancy[code]
        sent[here] = now


def replay_lanes(steps: Any, tables: Any, own: Any, lanes: int, state: Any) -> None:
    """Replicas side by side, ``[step * lanes + lane]``.

    ``own[code]`` is 1 where each lane has a link of its own, and 0 where they take turns.
    """
    ends, sent, busy = state
    befores, needs, codes = steps
    seconds, waits, links, _, occupancy = tables
    here = 0
    for before, need, code in zip(befores, needs, codes):  # noqa: B905
        free, made, link = before * lanes, need * lanes, links[code] * lanes
        cost, wait, taken, step = seconds[code], waits[code], occupancy[code], own[code]
        for lane in range(lanes):
            now = ends[free + lane]
            arrival = sent[made + lane] + wait
            if arrival > now:
                now = arrival
            now += cost
            ends[here] = now
            if link >= 0:
                if busy[link] > now:
                    now = busy[link]
                now += taken
                busy[link] = now
                link += step
            sent[here] = now
            here += 1
