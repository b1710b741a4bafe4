"""Calibrations as documents: what training reaches of an accelerator's data sheet, with its source.

    {"accelerator": "A100", "source": "vTrain, data/ground_truth_multi.csv", "licence": "MIT",
     "matrixShare": 0.805, "memoryShare": 0.649, "overhead": "403us", "contention": 0.1095,
     "nodeGpus": 8, "fixed": "10ms", "linkRates": [{"size": "1Mi", "rate": "158G"}],
     "calibratedOn": "every second row, from the second on",
     "residual": {"rows": 37, "median": 0.028, "p90": 0.119}}

``geotrain calibrate`` writes them and a plan reads them; those beside this module are what plans
count with where nothing is given. ``alsoFor`` names accelerators that nobody measured and that
count with these constants, without an error bar.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError

from geotrain.api.profiles import Amount, Time, reader
from geotrain.api.v1alpha1.fields import NO_FLAG, Positive, Share, SpecModel
from geotrain.api.v1alpha1.resource import explain
from geotrain.errors import InputError
from geotrain.model.topology import MessageRates
from geotrain.planning.costs import accelerators
from geotrain.planning.costs.accelerators import ACCELERATORS, Accelerator
from geotrain.planning.costs.calibrations import Calibration, Device, Residual
from geotrain.planning.costs.tiers import scaled
from geotrain.units import BitsPerSecond, format_bytes, parse_rate

Error = Annotated[float, Field(ge=0, allow_inf_nan=False), NO_FLAG]
Speed = Annotated[BitsPerSecond, reader(parse_rate, '"400G"')]


class LinkRateDocument(SpecModel):
    """What a message reaches of the links inside a node."""

    size: Amount
    """Bytes of the message."""
    rate: Speed
    """Bit/s of one device in one direction."""


class ResidualDocument(SpecModel):
    """Absolute relative errors on rows that did not calibrate."""

    rows: Positive
    """How many rows."""
    median: Error
    """Half of them are off by no more."""
    p90: Error
    """Nine tenths of them are off by no more."""


class CalibrationDocument(SpecModel):
    """Constants of one accelerator in one kind of cluster."""

    accelerator: Annotated[str, Field(min_length=1, max_length=63)]
    """What was measured."""
    also_for: tuple[str, ...] = ()
    """Accelerators that nobody measured and that count with the same shares."""
    source: Annotated[str, Field(min_length=1, max_length=1024)]
    """Where the measurements are from."""
    licence: Annotated[str, Field(min_length=1, max_length=128)]
    """Under which licence they are published."""
    matrix_share: Share
    """Share of the peak that matrix products reach."""
    memory_share: Share
    """Share of the memory's rate that the kernels between them reach."""
    overhead: Time = 0.0
    """What one layer's kernels lose for each pass."""
    contention: Error = 0.0
    """How much longer stages take for each halving of a node among tensor groups of a pipeline."""
    node_gpus: Positive = 8
    """Devices of a node."""
    fixed: Time = 0.0
    """Spent once an iteration."""
    link_rates: tuple[LinkRateDocument, ...] = ()
    """What messages reach inside a node, the smallest first (default: the A100's, scaled by the
    data sheets)."""
    calibrated_on: Annotated[str, Field(max_length=1024)] = ""
    """Which rows the constants were fitted to."""
    residual: ResidualDocument | None = None
    """The error on the others."""


def read(content: Mapping[str, Any]) -> Calibration:
    """Read a calibration. Raises InputError that names every wrong field."""
    return _calibration(_document(content))


def _document(content: Mapping[str, Any]) -> CalibrationDocument:
    try:
        return CalibrationDocument.model_validate(dict(content))
    except ValidationError as error:
        raise InputError(f"the calibration is wrong: {explain(error)}") from error


def _calibration(read: CalibrationDocument) -> Calibration:
    measured = accelerators.named(read.accelerator, "the calibration is wrong: accelerator")
    residual = read.residual
    try:
        return Calibration(
            accelerator=measured.name,
            source=read.source,
            licence=read.licence,
            matrix_share=read.matrix_share,
            memory_share=read.memory_share,
            overhead=read.overhead,
            contention=read.contention,
            node=read.node_gpus,
            fixed=read.fixed,
            link_rates=_link_rates(read, measured),
            residual=None
            if residual is None
            else Residual(residual.rows, residual.median, residual.p90),
        )
    except ValueError as error:
        raise InputError(f"the calibration is wrong: {error}") from error


def _link_rates(read: CalibrationDocument, one: Accelerator) -> MessageRates:
    if not read.link_rates:
        return links_of(one)
    return MessageRates(
        tuple(float(point.size) for point in read.link_rates),
        tuple(point.rate for point in read.link_rates),
    )


def document(calibration: Calibration, calibrated_on: str) -> dict[str, Any]:
    """A calibration as ``read`` takes it; constants to six digits."""
    found: dict[str, Any] = {
        "accelerator": calibration.accelerator,
        "source": calibration.source,
        "licence": calibration.licence,
        "matrixShare": _rounded(calibration.matrix_share),
        "memoryShare": _rounded(calibration.memory_share),
        "overhead": f"{calibration.overhead * 1e6:.6g}us",
        "contention": _rounded(calibration.contention),
        "nodeGpus": calibration.node,
        "fixed": f"{calibration.fixed * 1e3:.6g}ms",
        "calibratedOn": calibrated_on,
    }
    rates = calibration.link_rates
    if rates is not None and rates != links_of(ACCELERATORS[calibration.accelerator]):
        points = zip(rates.sizes, rates.rates, strict=True)
        found["linkRates"] = [
            {"size": format_bytes(round(size)), "rate": str(round(rate))} for size, rate in points
        ]
    if calibration.residual is not None:
        one = calibration.residual
        found["residual"] = {
            "rows": one.rows, "median": _rounded(one.median), "p90": _rounded(one.p90),
        }  # fmt: skip
    return found


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


_FILES: Final = ("a100.json", "h200.json")


@cache
def packaged() -> tuple[CalibrationDocument, ...]:
    """The calibrations that come with geotrain."""
    place = resources.files(__name__)
    return tuple(
        _document(json.loads((place / name).read_text(encoding="utf-8"))) for name in _FILES
    )


@cache
def links_of(one: Accelerator) -> MessageRates:
    """What messages reach inside a node: measured on the A100's NVLink, scaled by data sheets."""
    measured = next(each for each in packaged() if each.link_rates)
    rates = MessageRates(
        tuple(float(point.size) for point in measured.link_rates),
        tuple(point.rate for point in measured.link_rates),
    )
    return scaled(rates, one.link / ACCELERATORS[measured.accelerator].link)


@cache
def usual(one: Accelerator) -> Device:
    """An accelerator with the constants that come with geotrain.

    Those of another accelerator hold without their residual and with the links of this one.
    """
    for read in packaged():
        if accelerators.known(read.accelerator) is one:
            return Device(one, _calibration(read))
    read = next(each for each in packaged() if one.name in each.also_for)
    found = _calibration(read.model_copy(update={"link_rates": (), "residual": None}))
    return Device(one, replace(found, link_rates=links_of(one)))


def device(one: Accelerator, given: Calibration | None = None) -> Device:
    """An accelerator as training reaches it: by ``given`` where that is of this accelerator."""
    if given is not None and given.accelerator == one.name:
        return Device(one, given)
    return usual(one)
