"""``geotrain topology import``: DataCenters and WanLinks out of public measurements."""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml

from geotrain.api import measurements
from geotrain.api.labels import API_VERSION
from geotrain.api.measurements import Route, Routes
from geotrain.api.v1alpha1 import DataCenter, WanLink
from geotrain.cli import membership
from geotrain.cli.manifests import GPUS
from geotrain.cli.texts import text_of
from geotrain.errors import InputError
from geotrain.model.topology import MessageRates
from geotrain.units import format_bytes, format_rate, parse_duration

Manifest = dict[str, Any]

app: Final = typer.Typer(no_args_is_help=True, help="Make and look at topologies.")


class Format(StrEnum):
    """Whose measurements."""

    AZURE = "azure"
    SKYPLANE = "skyplane"
    SAILOR = "sailor"


@dataclass(frozen=True, slots=True)
class Link:
    """What holds for every link, as text; '' leaves it to the measurements."""

    capacity: str = ""
    per_pod_capacity: str = ""
    round_trip_time: str = ""
    tcp_window: str = ""
    cost_per_gigabyte: float | None = None


@app.callback()
def _group() -> None:
    """Topologies are manifests of DataCenters and WanLinks, for geotrain plan --topology."""


@app.command("import")
def import_(
    form: Annotated[Format, typer.Argument(metavar="FORMAT", help="azure, skyplane or sailor.")],
    files: Annotated[list[Path], typer.Argument(help="Their files; several are put together.")],
    regions: Annotated[
        str, typer.Option(help="Regions that become data centres, by comma: 'East US,West US'.")
    ],
    gpus: Annotated[
        str, typer.Option(help="GPUs of each, or of some: '64' or 'East US=64,West US=32'.")
    ] = "8",
    capacity: Annotated[
        str, typer.Option(help="Rate of every pair, like 5G; absent: what was measured.")
    ] = "",
    per_pod_capacity: Annotated[
        str, typer.Option(help="Rate of one pod pair, like 5G; absent: what was measured.")
    ] = "",
    round_trip_time: Annotated[
        str, typer.Option(help="Round trip of pairs for which none was measured, like 30ms.")
    ] = "",
    tcp_window: Annotated[
        str,
        typer.Option(help="Most bytes in flight of one connection, like 1536Ki; absent: no limit."),
    ] = "",
    cost_per_gigabyte: Annotated[
        float | None, typer.Option(min=0, help="Price of 10⁹ bytes; absent: as published, or 0.")
    ] = None,
    accelerator: Annotated[
        str, typer.Option(help="GPU model; of sailor also which of its fits, like A100-40.")
    ] = "",
    cost_per_gpu_hour: Annotated[float, typer.Option(min=0, help="Price of a GPU.")] = 0.0,
    gpus_per_node: Annotated[int, typer.Option(min=1, help="Sailor: which of its fits.")] = 4,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write; - prints.")] = Path(
        "-"
    ),
) -> None:
    """Make a topology from public measurements; geotrain plan --topology reads it."""
    names = region_names(regions)
    _require_duration(round_trip_time)
    routes = measurements.merged(
        route for path in files for route in _routes(form, path, accelerator, gpus_per_node)
    )
    wanted = Link(capacity, per_pod_capacity, round_trip_time, tcp_window, cost_per_gigabyte)
    centers = [
        _center(name, routes.get((label, label)), label, count, accelerator, cost_per_gpu_hour)
        for (label, name), count in zip(names.items(), gpu_counts(gpus, names), strict=True)
    ]
    links = list(link_manifests(names, routes, wanted))
    sources = " ".join(path.name for path in files)
    head = f"# Made from {sources} by geotrain topology import {form}.\n"
    _write(output, head + _yaml([*centers, *links]))


def region_names(text: str) -> dict[str, str]:
    """Region → name of its data centre. Raises InputError where two would have one name."""
    regions = [part.strip() for part in text.split(",") if part.strip()]
    if not regions:
        raise InputError("--regions: name at least one region")
    names: dict[str, str] = {}
    for region in regions:
        name = re.sub("[^a-z0-9]+", "-", region.lower()).strip("-")
        if name in names.values():
            raise InputError(f"--regions: {region!r} would be the second data centre {name!r}")
        names[region] = name
    return names


def gpu_counts(text: str, names: Mapping[str, str]) -> list[int]:
    """GPUs of every region in order. Raises InputError where one has none or is unknown."""
    parts = [part.strip() for part in text.split(",")]
    pairs = [part.rpartition("=") for part in parts]
    if len(parts) == 1 and not pairs[0][1]:
        return [_count(text)] * len(names)
    counts = {region.strip(): _count(count) for region, _, count in pairs}
    for region in [*counts, *names]:
        if region not in names:
            raise InputError(f"--gpus: {region!r} is not among --regions")
        if region not in counts:
            raise InputError(f"--gpus: give those of {region!r} too, like '{region}=8'")
    return [counts[region] for region in names]


def _count(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text.strip(), re.ASCII):
        raise InputError(f"--gpus: {text!r} is no count; write '64' or 'REGION=64,REGION=32'")
    return int(text)


def link_manifests(names: Mapping[str, str], routes: Routes, wanted: Link) -> Iterator[Manifest]:
    """The links between every two regions, one for both directions where they are alike."""
    _require_known(names, routes)
    for one, other in combinations(names, 2):
        there = _spec(names, routes, wanted, one, other)
        back = _spec(names, routes, wanted, other, one)
        alike = {**back, "from": there["from"], "to": there["to"]} == there
        for spec in [there] if alike else [{**s, "symmetric": False} for s in (there, back)]:
            manifest = {
                "apiVersion": API_VERSION,
                "kind": "WanLink",
                "metadata": {"name": f"{spec['from']}-to-{spec['to']}"},
                "spec": spec,
            }
            WanLink.from_manifest(manifest)  # refuses what an option said wrong
            yield manifest


def _require_known(names: Mapping[str, str], routes: Routes) -> None:
    known = sorted({end for ends in routes for end in ends})
    for region in names:
        if region not in known and len(names) > 1:
            near = difflib.get_close_matches(region, known, n=3, cutoff=0.4) or known[:3]
            like = f"; there is {', '.join(near)}" if near else ""
            raise InputError(f"region {region!r} is not in the measurements{like}")


def _spec(
    names: Mapping[str, str], routes: Routes, wanted: Link, source: str, target: str
) -> Manifest:
    nothing = Route(source, target)
    there, back = routes.get((source, target), nothing), routes.get((target, source), nothing)
    round_trip = there.round_trip or back.round_trip
    fast = there if there.rate else back
    rate = fast.rate
    price = wanted.cost_per_gigabyte
    if price is None:
        price = there.cost_per_gigabyte if there.cost_per_gigabyte is not None else 0.0
    time = f"{round(round_trip * 1e6)}us" if round_trip else wanted.round_trip_time
    if not time:
        raise InputError(
            f"no round trip was measured between {source} and {target}; give --round-trip-time"
        )
    if not (wanted.capacity or rate):
        raise InputError(f"no rate was measured from {source} to {target}; give --capacity")
    measured = str(round(rate)) if rate else ""
    optional = {
        "perPodCapacity": wanted.per_pod_capacity or measured,
        "messageRates": _points(fast.message_rates),
        "tcpWindow": wanted.tcp_window,
        "costPerGigabyte": price,
    }
    return {
        "from": names[source],
        "to": names[target],
        "capacity": wanted.capacity or measured,
        "roundTripTime": time,
        **{key: value for key, value in optional.items() if value},
    }


def _points(rates: MessageRates | None) -> list[Manifest]:
    if rates is None:
        return []
    return [
        {"size": format_bytes(round(size)), "rate": format_rate(rate)}
        for size, rate in zip(rates.sizes, rates.rates, strict=True)
    ]


def _center(
    name: str, inside: Route | None, region: str, gpus: int, accelerator: str, price: float
) -> Manifest:
    wishes = membership.Wishes(name, accelerator=accelerator, cost_per_gpu_hour=price)
    manifest = membership.data_center_manifest(wishes)
    if inside is not None and inside.rate:
        manifest["spec"]["network"] = {"podRate": format_rate(inside.rate)}
    manifest["metadata"]["annotations"] = {GPUS: str(gpus), "geotrain.io/region": region}
    DataCenter.from_manifest(manifest)
    return manifest


def _routes(form: Format, path: Path, accelerator: str, gpus: int) -> Iterator[Route]:
    text, place = text_of(path), str(path)
    if form == Format.AZURE:
        return measurements.azure(text, place)
    if form == Format.SKYPLANE:
        return measurements.skyplane(text, place)
    return measurements.sailor(text, place, accelerator, gpus)


def _yaml(manifests: list[Manifest]) -> str:
    return yaml.safe_dump_all(manifests, sort_keys=False, default_flow_style=None, width=100)


def _require_duration(text: str) -> None:
    try:
        parse_duration(text or "0s")
    except ValueError as error:
        raise InputError(f"--round-trip-time: {error}") from error


def _write(path: Path, text: str) -> None:
    if str(path) == "-":
        typer.echo(text, nl=False)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error
