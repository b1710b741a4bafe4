"""What ``geotrain explain`` says: facts in, sections out. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from geotrain.api.reasons import ConditionType
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob, PrefillPool, WanLink
from geotrain.cli.tables import Block, Column, Prose, Style, Table
from geotrain.planning.placement.attribution import Attribution


class Verdict(StrEnum):
    """How a statement is meant."""

    GOOD = "good"
    NOTE = "note"
    PROBLEM = "problem"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Statement:
    """One thing that is so. ``code`` is for programs, ``advice`` says what a person can do."""

    level: Verdict
    code: str
    sentence: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Figures:
    """A small table that belongs to a section."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Statements in the order in which a person should read them, and figures below them."""

    title: str
    findings: tuple[Statement, ...]
    figures: Figures | None = None


@dataclass(frozen=True, slots=True)
class Pod:
    """A rank's pod as its cluster shows it; ``trouble`` is why it does not run."""

    rank: int
    data_center: str
    phase: str
    node: str = ""
    trouble: str = ""
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a job. None: it may not be listed.

    ``reports`` are the sidecars' own, by rank; ``unseen`` says of data centres why their pods
    could not be looked at; ``parts`` is what an iteration is made of, where it was replayed.
    """

    job: GeoTrainingJob
    now: datetime
    centers: Sequence[DataCenter] | None = None
    links: Sequence[WanLink] | None = None
    pools: Sequence[PrefillPool] | None = None
    pods: Sequence[Pod] = ()
    reports: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    unseen: Mapping[str, str] = field(default_factory=dict)
    parts: Attribution | None = None

    def holds(self, kind: ConditionType) -> bool:
        """Whether a condition of the job is True."""
        found = self.job.status.condition(kind)
        return found is not None and found.status == "True"


_LEADS: Final = {
    Verdict.GOOD: ("yes  ", Style.GOOD),
    Verdict.PROBLEM: ("no   ", Style.BAD),
    Verdict.OPEN: ("-    ", Style.FAINT),
    Verdict.NOTE: ("*    ", Style.WARNING),
}
_INDENT: Final = 5


def blocks(headline: str, sections: Sequence[Section]) -> Iterator[Block]:
    """The sections for people."""
    yield Prose(headline, Style.TITLE)
    for section in sections:
        yield Table((), section.title)
        for each in section.findings:
            lead, style = _LEADS[each.level]
            yield Prose(each.sentence, style, lead, _INDENT)
            if each.advice:
                yield Prose(each.advice, Style.PLAIN, " " * _INDENT + "-> ", _INDENT + 3)
        if section.figures is not None:
            heads = [Column(head) for head in section.figures.heads]
            table = Table(heads, caption=section.figures.caption)
            for row in section.figures.rows:
                table.add(*row)
            yield Prose("")
            yield table


def document(facts: Facts, headline: str, sections: Sequence[Section]) -> dict[str, object]:
    """The sections for programs."""
    return {
        "namespace": facts.job.namespace,
        "name": facts.job.name,
        "phase": facts.job.status.phase,
        "summary": headline,
        "sections": [
            {
                "title": section.title,
                "findings": [
                    {
                        "level": each.level.value,
                        "code": each.code,
                        "sentence": each.sentence,
                        **({"advice": each.advice} if each.advice else {}),
                    }
                    for each in section.findings
                ],
                **({} if section.figures is None else {"figures": _figures(section.figures)}),
            }
            for section in sections
        ],
    }


def _figures(figures: Figures) -> list[dict[str, str]]:
    return [dict(zip(figures.heads, row, strict=True)) for row in figures.rows]
