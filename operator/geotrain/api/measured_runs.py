"""Measured iterations as CSV: what ``geotrain calibrate`` reads, one row a run in one data centre.

    layers,hiddenSize,heads,sequenceLength,vocabularySize,microBatch,globalBatch,tensor,data,pipeline,iterationSeconds

may be followed by columns that are usual where they are left out or blank: ``keyValueHeads``,
``feedForward``, ``gated``, ``attention`` (Fused, Unfused), ``recompute`` (none, attention,
selective, full), ``sequenceParallel``, ``gradientBytes``, ``optimizerBytes``, ``sends``
(Overlapped, Blocking) and ``chunks`` (stages of a device, interleaved). vTrain's table
(data/ground_truth_multi.csv) is read as it is published; its trainer recomputes in full, with
attention that is not fused.
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, ValidationError

from geotrain.api.v1alpha1.fields import SpecModel
from geotrain.api.v1alpha1.resource import explain
from geotrain.errors import InputError
from geotrain.planning.costs.layers import Training
from geotrain.planning.costs.memory import Recompute, StateBytes
from geotrain.planning.costs.shapes import Shape
from geotrain.planning.explore.fitting import Run
from geotrain.planning.explore.layouts import Degrees, Layout, Placement

MOST_ROWS: Final = 10_000


def _cell(read: Callable[[str], Any], otherwise: str = "no number") -> BeforeValidator:
    """What a cell says; of what cannot be read the error says that it is ``otherwise``."""

    def value(text: Any) -> Any:
        try:
            return read(text.strip()) if isinstance(text, str) else text
        except ValueError as error:
            raise ValueError(f"{text!r} is {otherwise}") from error

    return BeforeValidator(value)


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


Count = Annotated[int, _cell(int), Field(ge=1, le=10**9)]
Seconds = Annotated[float, _cell(float), Field(gt=0, le=10**6, allow_inf_nan=False)]
Yes = Annotated[bool, _cell(_flag, "neither true nor false")]


class RunRow(SpecModel):
    """One run."""

    layers: Annotated[int, _cell(int), Field(ge=1, le=10_000)]
    """Transformer layers."""
    hidden_size: Count
    """Width of a layer."""
    heads: Count
    """Attention heads."""
    sequence_length: Count
    """Tokens of a sample."""
    vocabulary_size: Count
    """Entries of the vocabulary."""
    micro_batch: Count
    """Samples of a micro-batch."""
    global_batch: Count
    """Samples of an iteration."""
    tensor: Count
    """Tensor degree."""
    data: Count
    """Data degree."""
    pipeline: Count
    """Stages."""
    iteration_seconds: Seconds
    """What an iteration took."""
    key_value_heads: Count | None = None
    """Heads of keys and values."""
    feed_forward: Count | None = None
    """Width of the feed-forward part."""
    gated: Yes | None = None
    """Whether it has a gate (default: where feedForward is given)."""
    attention: Literal["Fused", "Unfused"] = "Fused"
    """Kind of attention."""
    recompute: Recompute = Recompute.NOTHING
    """What the backward computes again."""
    sequence_parallel: Yes = False
    """Whether the tensor group splits norms too."""
    gradient_bytes: Annotated[int, _cell(int), Field(ge=1, le=4)] = 2
    """Bytes of a gradient."""
    optimizer_bytes: Annotated[int, _cell(int), Field(ge=0, le=64)] = 12
    """Bytes of optimizer state for each weight."""
    sends: Literal["Overlapped", "Blocking"] = "Overlapped"
    """Whether a GPU computes while it sends."""
    chunks: Count = 1
    """Stages of one device."""

    def run(self) -> Run:
        """The row as the planner sees it. Raises ValueError with what is impossible."""
        return Run(
            Shape(
                self.layers,
                self.hidden_size,
                self.heads,
                self.sequence_length,
                self.vocabulary_size,
                self.micro_batch,
                feed_forward=self.feed_forward or 0,
                kv_heads=self.key_value_heads or 0,
                gated=self.feed_forward is not None if self.gated is None else self.gated,
                fused=self.attention == "Fused",
            ),
            Layout(
                Degrees(self.tensor, 1, self.data, self.pipeline),
                Placement(("tensor", "context", "data", "pipeline")),
                "Interleaved" if self.chunks > 1 else "OneFOneB",
                self.chunks,
                self.micro_batch,
                self.recompute,
                "tcp",
            ),
            Training(
                sequence_parallel=self.sequence_parallel,
                state=StateBytes(
                    gradient=float(self.gradient_bytes), optimizer=float(self.optimizer_bytes)
                ),
                blocking=self.sends == "Blocking",
            ),
            self.global_batch,
            self.iteration_seconds,
        )


_VTRAIN: Final = {
    "global batch": "globalBatch",
    "micro batch": "microBatch",
    "hidden size": "hiddenSize",
    "attention heads": "heads",
    "# layers": "layers",
    "sequence length": "sequenceLength",
    "tensor parallelism": "tensor",
    "data parallelism": "data",
    "pipeline parallelism": "pipeline",
    "iteration time (ms)": "iterationSeconds",
}
_VTRAINS: Final = {
    "vocabularySize": "51200",
    "attention": "Unfused",
    "recompute": "full",
    "gradientBytes": "2",
}
"""What vTrain's table does not say: its models are GPT-2's vocabulary, padded, on Megatron-LM."""


def runs(text: str, place: str) -> tuple[Run, ...]:
    """Every row of a table. Raises InputError with the row and what is wrong."""
    found = tuple(_runs(text, place))
    if not found:
        raise InputError(f"{place} has no row below its heads")
    if len(found) > MOST_ROWS:
        raise InputError(f"{place} has {len(found)} rows, more than {MOST_ROWS}")
    return found


def _runs(text: str, place: str) -> Iterator[Run]:
    rows = csv.reader(io.StringIO(text), strict=True)
    heads: Sequence[str] = ()
    try:
        for number, cells in enumerate(rows, 1):
            where = f"{place} line {number}"
            if not any(cells):
                continue
            if not heads:
                heads = [cell.strip() for cell in cells]
            elif len(cells) != len(heads):
                raise InputError(f"{where}: {len(cells)} cells under {len(heads)} heads")
            else:
                yield _run(dict(zip(heads, cells, strict=True)), where)
    except csv.Error as error:
        raise InputError(f"{place} is not CSV: {error}") from error


def _run(cells: Mapping[str, str], where: str) -> Run:
    if "iteration time (ms)" in cells:
        cells = _of_vtrain(cells, where)
    given = {name: value for name, value in cells.items() if value.strip()}
    try:
        return RunRow.model_validate(given, by_alias=True, by_name=False).run()
    except ValidationError as error:
        raise InputError(f"{where}: {explain(error)}") from error
    except ValueError as error:
        raise InputError(f"{where}: {error}") from error


def _of_vtrain(cells: Mapping[str, str], where: str) -> dict[str, str]:
    found = {_VTRAIN[name]: value for name, value in cells.items() if name in _VTRAIN}
    try:
        found["iterationSeconds"] = repr(float(found["iterationSeconds"]) / 1e3)
    except ValueError as error:
        time = found["iterationSeconds"]
        raise InputError(f"{where}: iteration time {time!r} is no number of ms") from error
    return {**_VTRAINS, **found}
