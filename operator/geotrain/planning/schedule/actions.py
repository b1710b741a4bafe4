"""Actions and orders as text: ``2F0`` is stage 2, forward, micro-batch 0.

The table form is the CSV of ``torch.distributed.pipelining`` (``_load_csv``/``_dump_csv``): one
row a rank, one cell a step, an empty cell is a step in which the rank waits, and
``(0F7;7B3)OVERLAP_F_B`` is a pair that runs overlapped. Older PyTorch wrote ``B`` for the
input-gradient half and ``BW`` for the whole backward; a table without ``I`` that has ``BW``, or
``B`` and ``W`` of one micro-batch, is read and written back that way (``Table.legacy``).

PyTorch's runtime adds cells about sharded parameters and about sends that it waits for
(``1UNSHARD``, ``1REDUCE_GRAD``, ``1WAIT_SEND_F0``, …). They say nothing of the order of compute and
messages, and are read as steps in which the rank waits.
"""

import re
from dataclasses import dataclass

from geotrain.errors import InputError
from geotrain.model.plan import Action, Kind, Order

Cell = tuple[Action, ...]
"""What a rank does in one step: nothing, one action, or a pair that runs overlapped."""

COMPUTE = (Kind.FORWARD, Kind.BACKWARD, Kind.INPUT_GRADIENT, Kind.WEIGHT_GRADIENT)

_ACTION = re.compile(r"([0-9]{1,6})(SEND_F|RECV_F|SEND_B|RECV_B|BW|[FBIW])([0-9]{1,6})")
_ASIDE = re.compile(r"[0-9]{1,6}((UN|RE)SHARD|(WAIT_)?REDUCE_GRAD|WAIT_SEND_[FB][0-9]{1,6})")
_OVERLAP = re.compile(r"\(([^();]+);([^();]+)\)OVERLAP_F_B")
_WHOLE_BACKWARD = "BW"
_TO_LEGACY = {Kind.INPUT_GRADIENT: "B", Kind.BACKWARD: _WHOLE_BACKWARD}


@dataclass(frozen=True, slots=True)
class Table:
    """A schedule as written: a row for each rank, a cell for each step."""

    rows: tuple[tuple[Cell, ...], ...]
    legacy: bool = False


def parse_action(text: str, place: str = "action", *, legacy: bool = False) -> Action:
    """Read ``2F0``. Raises InputError, which names ``place``, where the text is no action."""
    match = _ACTION.fullmatch(text.strip())
    if not match:
        raise InputError(f"{place}: {text.strip()!r} is no action; write one like 2F0 or 2SEND_F0")
    stage, word, micro_batch = match.groups()
    if word == _WHOLE_BACKWARD:
        kind = Kind.BACKWARD
    elif legacy and word == Kind.BACKWARD:
        kind = Kind.INPUT_GRADIENT
    else:
        kind = Kind(word)
    return Action(int(stage), kind, int(micro_batch))


def parse_table(text: str) -> Table:
    """Read a schedule. Raises InputError with the line and column of the first bad cell."""
    cells = [line.split(",") for line in text.splitlines()]
    found = (each for row in cells for cell in row for each in _ACTION.findall(cell))
    words = {(int(stage), word, int(number)) for stage, word, number in found}
    legacy = not any(word == Kind.INPUT_GRADIENT for _, word, _ in words) and any(
        word == _WHOLE_BACKWARD or (word == Kind.BACKWARD and (stage, "W", number) in words)
        for stage, word, number in words
    )
    rows = tuple(
        tuple(
            _parse_cell(cell, f"line {line} cell {column}", legacy)
            for column, cell in enumerate(row, start=1)
        )
        for line, row in enumerate(cells, start=1)
    )
    if not any(cell for row in rows for cell in row):
        raise InputError("the schedule is empty; give one row a stage, like 0F0,0B0")
    return Table(rows, legacy)


def format_table(table: Table) -> str:
    """Write a schedule so that ``parse_table`` gives it back."""
    return "".join(
        ",".join(_format_cell(cell, table.legacy) for cell in row) + "\n" for row in table.rows
    )


def read_order(text: str) -> Order:
    """Read a schedule with a row for each rank; overlapped pairs run one after the other.

    Where no row holds several stages, row N must hold stage N; else each stage must be on one
    row. Micro-batches count from 0 too. Raises InputError, with the line, where it is not so.
    """
    rows = [tuple(action for cell in row for action in cell) for row in parse_table(text).rows]
    if all(len({action.stage for action in row}) < 2 for row in rows):
        _require_stage_rows(rows)
    else:
        _require_whole_stages(rows)
    _require_numbering("micro-batch", {action.micro_batch for row in rows for action in row})
    return tuple(rows)


def _require_stage_rows(rows: list[Cell]) -> None:
    for stage, row in enumerate(rows):
        stray = next((action for action in row if action.stage != stage), None)
        if stray is not None:
            raise InputError(
                f"line {stage + 1}: {stray} belongs to stage {stray.stage}, but line {stage + 1} "
                f"is stage {stage}; give one row a stage, in order"
            )


def _require_whole_stages(rows: list[Cell]) -> None:
    owners: dict[int, int] = {}
    for line, row in enumerate(rows, start=1):
        for action in row:
            owner = owners.setdefault(action.stage, line)
            if owner != line:
                raise InputError(
                    f"line {line}: {action} belongs to stage {action.stage}, which line {owner} "
                    "runs; give each stage one row"
                )
    _require_numbering("stage", set(owners))


def _require_numbering(what: str, found: set[int]) -> None:
    missing = next(number for number in range(len(found) + 1) if number not in found)
    if missing < len(found):
        last = max(found)
        raise InputError(
            f"{what} {missing} is on no line, but {what} {last} is; number them from 0"
        )


def write_order(order: Order) -> str:
    """Write an order as CSV, one row a rank, without empty cells."""
    return format_table(Table(tuple(tuple((action,) for action in row) for row in order)))


def compute_only(order: Order) -> Order:
    """The same order without sends and receives."""
    return tuple(tuple(action for action in row if action.kind in COMPUTE) for row in order)


def _parse_cell(cell: str, place: str, legacy: bool) -> Cell:
    text = cell.strip()
    if not text or _ASIDE.fullmatch(text):
        return ()
    overlap = _OVERLAP.fullmatch(text)
    parts = overlap.groups() if overlap else (text,)
    return tuple(parse_action(part, place, legacy=legacy) for part in parts)


def _format_cell(cell: Cell, legacy: bool) -> str:
    words = [_format_action(action, legacy) for action in cell]
    return f"({';'.join(words)})OVERLAP_F_B" if len(words) > 1 else "".join(words)


def _format_action(action: Action, legacy: bool) -> str:
    if legacy and action.kind in _TO_LEGACY:
        return f"{action.stage}{_TO_LEGACY[action.kind]}{action.micro_batch}"
    return str(action)
