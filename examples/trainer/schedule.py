"""Reads a plan's CSV: a row a stage, a cell an action, as torch.distributed.pipelining writes it.

A cell is ``[stage]KIND[micro-batch]``: ``2F0`` is stage 2's forward of micro-batch 0; B is a whole
backward (older files say BW), I its input-gradient half and W its weight-gradient half. Empty cells
are bubbles. Sends and receives (``2SEND_F0``) may stand in a row and are left out here: a message
leaves when its action ends, and its receive is posted before that.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

FORWARD, BACKWARD, INPUT_GRADIENT, WEIGHT_GRADIENT = "F", "B", "I", "W"
_CELL = re.compile(r"(\d+)(SEND_F|RECV_F|SEND_B|RECV_B|BW|F|B|I|W)(\d+)")
_COMMUNICATION = ("SEND_F", "RECV_F", "SEND_B", "RECV_B")


class ScheduleError(Exception):
    """The CSV cannot be run; the message names the row and the cell."""


@dataclass(frozen=True)
class Action:
    """One computation of a stage for one micro-batch."""

    stage: int
    kind: str
    micro_batch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.micro_batch}"


@dataclass(frozen=True)
class Schedule:
    """What every stage computes, in order; index 0 is stage 0."""

    rows: tuple[tuple[Action, ...], ...]

    @classmethod
    def from_csv(cls, lines: Iterable[str], micro_batches: int) -> Schedule:
        """Read a plan of ``micro_batches`` a stage. Raises ScheduleError."""
        rows = tuple(
            tuple(_actions(stage, cells)) for stage, cells in enumerate(csv.reader(lines)) if cells
        )
        for stage, row in enumerate(rows):
            _check(stage, row, micro_batches)
        return cls(rows)

    def sent_forward(self, stage: int) -> list[int]:
        """Return the micro-batches that ``stage`` sends to the next one, in order."""
        return [a.micro_batch for a in self.rows[stage] if a.kind == FORWARD]

    def sent_backward(self, stage: int) -> list[int]:
        """Return the micro-batches whose gradients ``stage`` sends back, in order."""
        kinds = (BACKWARD, INPUT_GRADIENT)
        return [a.micro_batch for a in self.rows[stage] if a.kind in kinds]


def _actions(stage: int, cells: list[str]) -> Iterable[Action]:
    for column, cell in enumerate(text.strip() for text in cells):
        if not cell:
            continue
        match = _CELL.fullmatch(cell)
        if not match:
            raise ScheduleError(f"row {stage}, cell {column}: {cell!r} is no action such as 2F0")
        if int(match[1]) != stage:
            raise ScheduleError(f"row {stage}, cell {column}: {cell!r} belongs to another stage")
        if match[2] not in _COMMUNICATION:
            kind = BACKWARD if match[2] == "BW" else match[2]
            yield Action(stage, kind, int(match[3]))


def _check(stage: int, row: tuple[Action, ...], micro_batches: int) -> None:
    """Each micro-batch once forward, then once backward, whole or as I before W."""
    steps = dict.fromkeys(range(micro_batches), "")
    for action in row:
        if action.micro_batch not in steps:
            raise ScheduleError(f"row {stage}: {action} is beyond {micro_batches} micro-batches")
        steps[action.micro_batch] += action.kind
    for micro_batch, kinds in steps.items():
        if kinds not in ("FB", "FIW"):
            found = ", ".join(f"{stage}{kind}{micro_batch}" for kind in kinds) or "nothing"
            raise ScheduleError(
                f"row {stage}: micro-batch {micro_batch} has {found}; it needs F, then B or I and W"
            )


def one_f_one_b(stages: int, micro_batches: int) -> str:
    """Write the classic 1F1B order as a CSV, for runs without a plan."""
    rows = []
    for stage in range(stages):
        warm_up = min(stages - stage - 1, micro_batches)
        counts: Counter[str] = Counter()
        row = []
        for kind in ["F"] * warm_up + ["F", "B"] * (micro_batches - warm_up) + ["B"] * warm_up:
            row.append(f"{stage}{kind}{counts[kind]}")
            counts[kind] += 1
        rows.append(",".join(row))
    return "\n".join(rows) + "\n"
