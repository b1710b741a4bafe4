"""Public measurements of wide-area paths, read as they are published: text in, routes out.

* Azure's table of round trips (Microsoft, "Azure network round-trip latency statistics"): one CSV
  with a row a source and a column a destination, median or P95 of the round trip in milliseconds.
  A direction that is blank takes the value of the way back.
* Skyplane's profiles (Jain et al., NSDI 2023): CSV lists of region pairs; ``throughput_received``
  in bit/s of 64 connections between two whole VMs, ``avg_rtt`` in milliseconds, ``cost`` in $/GB.
  Several files are told apart by their heads and put together.
* Sailor's fits for Google Cloud zones (eth-easl/sailor): JSON by zone, accelerator, GPUs of a node,
  and the same of the far side, down to ``[[a, b, c], most]``. A message of x MB (10⁶ bytes) is
  carried at ``a·log2(x)² + b·log2(x) + c`` GB/s (10⁹ bytes), as sailor/providers/gcp/
  model_networking.py and the planner read it, and ``most`` is the best that was reached, in bytes
  per second. Messages of 2¹⁶ to 2³⁰ bytes were measured (sailor/profiling/networking/run_all.py).
  A zone's fit with itself is between its nodes. The prices are JSON by zone and zone, in $/GB.
  There are no round trips.
"""

import csv
import io
import math
import reprlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, TypeVar

from geotrain.api import documents
from geotrain.errors import InputError
from geotrain.model.topology import MessageRates
from geotrain.units import BitsPerSecond, Seconds, format_bytes

_BITS: Final = 8
_SAILOR_SIZES: Final = tuple(2**power for power in range(16, 31))
_MEGABYTE: Final = 1e6
_GIGABYTE: Final = 1e9
_PREMIUM: Final = "PREMIUM"
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Route:
    """What is known of one direction between two regions; None: not measured.

    From a region to itself it is what holds inside.
    """

    source: str
    target: str
    round_trip: Seconds | None = None
    rate: BitsPerSecond | None = None
    cost_per_gigabyte: float | None = None
    message_rates: MessageRates | None = None


Routes = dict[tuple[str, str], Route]


def merged(routes: Iterable[Route]) -> Routes:
    """One route a direction: the first value of each kind counts."""
    found: Routes = {}
    for route in routes:
        known = found.setdefault((route.source, route.target), route)
        found[route.source, route.target] = replace(
            known,
            round_trip=_first(known.round_trip, route.round_trip),
            rate=_first(known.rate, route.rate),
            cost_per_gigabyte=_first(known.cost_per_gigabyte, route.cost_per_gigabyte),
            message_rates=_first(known.message_rates, route.message_rates),
        )
    return found


def azure(text: str, place: str) -> Iterator[Route]:
    """Azure's table. ``place`` names the text in an InputError."""
    rows = csv.reader(io.StringIO(text), strict=True)
    targets: list[str] = []
    for row, cells in _numbered(rows, place):
        if not targets:
            targets = cells
            if len(cells) < 2 or cells[0] != "Source":
                raise InputError(
                    f"{place} is no table of Azure's: the first cell must be 'Source', and names"
                    " of regions must follow"
                )
        elif len(cells) != len(targets):
            raise InputError(f"{row}: {len(cells)} cells under {len(targets)} heads")
        else:
            for target, cell in zip(targets[1:], cells[1:], strict=True):
                value = _number(cell, f"{row}, column {target!r}")
                if value is not None and target != cells[0]:
                    yield Route(cells[0], target, round_trip=value / 1e3)


def skyplane(text: str, place: str) -> Iterator[Route]:
    """One of Skyplane's profiles. Rows of the premium network tier go before the others."""
    rows = csv.reader(io.StringIO(text), strict=True)
    heads: list[str] = []
    found: list[tuple[bool, Route]] = []
    for row, cells in _numbered(rows, place):
        if not heads:
            heads = _skyplane_heads(cells, place)
        elif len(cells) != len(heads):
            raise InputError(f"{row}: {len(cells)} cells under {len(heads)} heads")
        else:
            fields = dict(zip(heads, cells, strict=True))
            tiers = {fields.get(f"{end}_tier", _PREMIUM) for end in ("src", "dst")}
            found.append((tiers != {_PREMIUM}, _skyplane_route(fields, row)))
    yield from (route for _, route in sorted(found, key=lambda entry: entry[0]))


def _skyplane_heads(cells: list[str], place: str) -> list[str]:
    same = {"src_region": "source", "src": "source", "dst_region": "target", "dest": "target"}
    heads = [same.get(cell, cell) for cell in cells]
    if not {"source", "target"}.issubset(heads):
        raise InputError(
            f"{place} is no profile of Skyplane's: the first line must name src_region and"
            " dst_region, or src and dest"
        )
    return heads


def _skyplane_route(fields: Mapping[str, str], row: str) -> Route:
    round_trip = _number(fields.get("avg_rtt", ""), f"{row}, column 'avg_rtt'")
    return Route(
        fields["source"],
        fields["target"],
        None if round_trip is None else round_trip / 1e3,
        _number(fields.get("throughput_received", ""), f"{row}, column 'throughput_received'"),
        _number(fields.get("cost", ""), f"{row}, column 'cost'"),
    )


def sailor(text: str, place: str, accelerator: str, gpus: int) -> Iterator[Route]:
    """Sailor's fits or prices, for nodes of ``gpus`` of one accelerator on both sides."""
    content = documents.json_document(text, place)
    for source, below in _items(content, place):
        for key, value in _items(below, f"{place}: {source}"):
            if isinstance(value, int | float):
                yield Route(source, key, cost_per_gigabyte=_price(value, f"{place}: {source}"))
            elif key == accelerator:
                where = f"{place}: {source}, {accelerator}"
                peers = _items(_items_of(value, where).get(str(gpus), {}), where)
                yield from _sailor_routes(source, dict(peers), accelerator, gpus, where)


def _sailor_routes(
    source: str,
    peers: Mapping[str, Any],
    accelerator: str,
    gpus: int,
    where: str,
) -> Iterator[Route]:
    for target, below in peers.items():
        fit = _items_of(_items_of(below, where).get(accelerator, {}), where).get(str(gpus))
        if fit is not None:
            most, points = _sailor_rates(fit, f"{where}, {target}")
            yield Route(source, target, rate=most, message_rates=points)


def _sailor_rates(fit: Any, where: str) -> tuple[BitsPerSecond, MessageRates]:
    """The best that was reached, and a fit at the sizes that were measured.

    Its parabola is held at its vertex, on the side where it would fall with larger messages, and
    begins where a message of twice the size never takes less time: near its zeros it says nothing.
    """
    try:
        coefficients, most = fit
        a, b, c = (float(number) for number in coefficients)
        best = float(most)
    except (TypeError, ValueError, OverflowError) as error:
        shown = reprlib.repr(fit)
        raise InputError(f"{where}: {shown} is no fit; write [[a, b, c], most]") from error
    if not all(map(math.isfinite, (a, b, c, best * _BITS))):
        raise InputError(f"{where}: {reprlib.repr(fit)} holds a number that is not finite")
    rates = [min(best, _parabola(a, b, c, size) * _GIGABYTE) for size in _SAILOR_SIZES]
    odd = [i for i, (rate, twice) in enumerate(pairwise(rates)) if rate <= 0 or twice > 2 * rate]
    begin = odd[-1] + 1 if odd else 0
    if rates[-1] <= 0:
        raise InputError(
            f"{where}: the fit gives {rates[-1]:g} bytes a second for messages of"
            f" {format_bytes(_SAILOR_SIZES[-1])}; a rate is above 0"
        )
    end = next(i for i, rate in enumerate(rates) if i >= begin and rate == rates[-1]) + 1
    sizes = tuple(map(float, _SAILOR_SIZES[begin:end]))
    return best * _BITS, MessageRates(sizes, tuple(rate * _BITS for rate in rates[begin:end]))


def _parabola(a: float, b: float, c: float, size: int) -> float:
    x = math.log2(size / _MEGABYTE)
    if a:
        x = min(x, -b / (2 * a)) if a < 0 else max(x, -b / (2 * a))
    return a * x * x + b * x + c


def _items_of(content: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(content, dict):
        raise InputError(f"{where}: {reprlib.repr(content)} is no JSON object")
    return content


def _items(content: Any, where: str) -> Iterable[tuple[str, Any]]:
    return _items_of(content, where).items()


def _price(value: float, where: str) -> float:
    if isinstance(value, bool) or not 0 <= value <= sys.float_info.max:
        raise InputError(f"{where}: {value} is no price; write 0 or more")
    return value


def _numbered(rows: Iterable[list[str]], place: str) -> Iterator[tuple[str, list[str]]]:
    """Rows that hold something, each with its place."""
    try:
        for number, cells in enumerate(rows, start=1):
            if any(cells):
                yield f"{place} line {number}", cells
    except csv.Error as error:
        raise InputError(f"{place} is not CSV: {error}") from error


def _number(text: str, where: str) -> float | None:
    """A measured value above 0, or 0 for a price; None where the cell is blank."""
    if not text.strip():
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"{where}: {text!r} is no measured value; write a number of 0 or more")
    return value


def _first(known: _Value | None, other: _Value | None) -> _Value | None:
    return other if known is None else known
