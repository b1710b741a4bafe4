"""From the tree that is to the tree that should be; equal trees need no operation."""

from dataclasses import dataclass
from typing import TypeAlias

from geotrain.shaping.tree import HtbClass, Tree


@dataclass(frozen=True, slots=True)
class ReplaceQdisc:
    """Put an empty HTB at the root, whatever was there."""

    default: int


@dataclass(frozen=True, slots=True)
class DeleteQdisc:
    """Remove the root qdisc, and with it every class."""


@dataclass(frozen=True, slots=True)
class PutClass:
    """Add a class, or change it to this."""

    htb: HtbClass


@dataclass(frozen=True, slots=True)
class DeleteClass:
    """Remove a class."""

    minor: int


Operation: TypeAlias = ReplaceQdisc | DeleteQdisc | PutClass | DeleteClass


def diff(observed: Tree | None, desired: Tree | None) -> list[Operation]:
    """The operations that turn ``observed`` into ``desired``; None is no HTB at all.

    Children leave before their parents and come after them. A class cannot move to another
    parent, so it is removed and added.
    """
    if desired is None:
        return [] if observed is None else [DeleteQdisc()]
    if observed is None or observed.default != desired.default:
        return [ReplaceQdisc(desired.default), *(PutClass(c) for c in _downwards(desired))]
    have = {c.minor: c for c in observed.classes}
    want = {c.minor: c for c in desired.classes}
    gone = [c for c in reversed(_downwards(observed)) if _must_go(c, want.get(c.minor))]
    stays = have.keys() - {c.minor for c in gone}
    return [
        *(DeleteClass(c.minor) for c in gone),
        *(PutClass(c) for c in _downwards(desired) if c.minor not in stays or have[c.minor] != c),
    ]


def _must_go(had: HtbClass, wanted: HtbClass | None) -> bool:
    return wanted is None or wanted.parent != had.parent


def _downwards(tree: Tree) -> list[HtbClass]:
    """Parents before children; the tree has two levels below the qdisc."""
    return sorted(tree.classes, key=lambda c: (c.parent != 0, c.minor))
