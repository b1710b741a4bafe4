"""What is given and has no part in planning: told, never passed over in silence."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from geotrain.api.v1alpha1 import DataCenter, WanLink
from geotrain.cli.tables import Prose, Style


@dataclass(frozen=True, slots=True)
class DroppedLink:
    """A WanLink, or its direction from ``source`` to ``target``, that nothing is planned with."""

    name: str
    source: str
    target: str
    why: str

    @property
    def sentence(self) -> str:
        """For people."""
        return f"WanLink {self.name} ({self.source} to {self.target}) is left out: {self.why}"

    @property
    def document(self) -> dict[str, str]:
        """For programs."""
        return {"name": self.name, "from": self.source, "to": self.target, "why": self.why}


@dataclass(frozen=True, slots=True)
class Unused:
    """Links that are left out, and sentences on all else."""

    links: tuple[DroppedLink, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """On everything."""
        return (*self.notes, *(each.sentence for each in self.links))

    @property
    def blocks(self) -> Iterator[Prose]:
        """For people."""
        return (Prose(said, Style.WARNING, lead="note: ") for said in self.sentences)

    @property
    def document(self) -> dict[str, object]:
        """For programs."""
        return {
            "droppedLinks": [each.document for each in self.links],
            "notes": list(self.notes),
        }


def dropped_links(
    centers: Iterable[DataCenter], links: Sequence[WanLink]
) -> tuple[DroppedLink, ...]:
    """What of the links ``convert.topology`` leaves out: unknown ends, and second descriptions."""
    known = sorted(center.name for center in centers)
    ordered = sorted(links, key=lambda link: link.name)
    unknown = [each for link in ordered for each in _unknown(link, known)]
    lost = {each.name for each in unknown}
    return (*unknown, *_described_twice([link for link in ordered if link.name not in lost]))


def _unknown(link: WanLink, known: Sequence[str]) -> Iterator[DroppedLink]:
    ends = link.spec.source, link.spec.target
    missing = [end for end in ends if end not in known]
    if missing:
        near = difflib.get_close_matches(missing[0], known, n=1)
        there = f"did you mean {near[0]}?" if near else f"known: {', '.join(known) or 'none'}"
        what = " and no ".join(repr(end) for end in missing)
        yield DroppedLink(link.name, *ends, f"there is no DataCenter {what}; {there}")


def _described_twice(links: Sequence[WanLink]) -> Iterator[DroppedLink]:
    """Of several links from one data centre to another the first by name counts.

    The way back of a symmetric link may be described by itself: it goes before that of the other.
    """
    first: dict[tuple[str, str], str] = {}
    for link in links:
        ends = link.spec.source, link.spec.target
        other = first.setdefault(ends, link.name)
        if other != link.name:
            yield DroppedLink(link.name, *ends, f"WanLink {other} describes this direction")
