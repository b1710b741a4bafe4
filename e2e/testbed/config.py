"""The test bed's description: reads ``bed.yaml`` and the table of round-trip times. Pure."""

import csv
import io
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from geotrain.errors import InputError
from geotrain.units import BitsPerSecond, Bytes, Seconds, parse_duration, parse_rate

HERE = Path(__file__).parent
BED = HERE / "bed.yaml"


@dataclass(frozen=True)
class DataCenter:
    """One cluster of one node, which plays a data centre."""

    name: str
    region: str
    pod_subnet: str
    service_subnet: str
    hub: bool = False

    @property
    def node(self) -> str:
        """The name that kind gives the node, its container and its host."""
        return f"{self.name}-control-plane"


@dataclass(frozen=True)
class Wan:
    """What lies between two data centres; rates are for each direction."""

    pair_rate: BitsPerSecond
    pod_rate: BitsPerSecond
    window: Bytes
    mtu: Bytes
    round_trips: Mapping[frozenset[str], Seconds]

    def round_trip(self, one: str, other: str) -> Seconds:
        """The round-trip time between two data centres."""
        return self.round_trips[frozenset((one, other))]


@dataclass(frozen=True)
class Bed:
    """The whole test bed."""

    data_centers: tuple[DataCenter, ...]
    wan: Wan
    gpu_resource: str
    gpus: int
    sample_every: Seconds
    minimum_idle: float

    @property
    def hub(self) -> DataCenter:
        """The data centre whose cluster holds geotrain's resources."""
        return next(dc for dc in self.data_centers if dc.hub)

    def others(self, name: str) -> tuple[DataCenter, ...]:
        """Every data centre but ``name``."""
        return tuple(dc for dc in self.data_centers if dc.name != name)

    def __getitem__(self, name: str) -> DataCenter:
        return next(dc for dc in self.data_centers if dc.name == name)


def load(path: Path = BED) -> Bed:
    """Reads a description and the files that it names.

    Raises:
        InputError: something is missing or contradictory; says what.
    """
    document = yaml.safe_load(path.read_text())
    table = (path.parent / document["wan"]["roundTripTimes"]).read_text()
    return parse(document, table)


def parse(document: Mapping[str, Any], round_trip_table: str) -> Bed:
    """Builds a bed from the parsed YAML and the text of the table of round-trip times (ms)."""
    try:
        data_centers = tuple(
            DataCenter(
                name=name,
                region=each["region"],
                pod_subnet=each["podSubnet"],
                service_subnet=each["serviceSubnet"],
                hub=each.get("hub", False),
            )
            for name, each in document["dataCenters"].items()
        )
        wan = document["wan"]
        bed = Bed(
            data_centers=data_centers,
            wan=Wan(
                pair_rate=parse_rate(wan["pairRate"]),
                pod_rate=parse_rate(wan["podRate"]),
                window=int(wan["window"]),
                mtu=int(wan["mtu"]),
                round_trips=round_trips(data_centers, round_trip_table),
            ),
            gpu_resource=document["gpus"]["resource"],
            gpus=int(document["gpus"]["count"]),
            sample_every=parse_duration(document["cpu"]["sampleEvery"]),
            minimum_idle=float(document["cpu"]["minimumIdle"]),
        )
    except KeyError as missing:
        raise InputError(f"the test bed's description lacks {missing}") from missing
    _check(bed)
    return bed


def round_trips(data_centers: tuple[DataCenter, ...], table: str) -> dict[frozenset[str], Seconds]:
    """Each pair's round-trip time: the mean of the table's two directions, which differ a little.

    Raises:
        InputError: the table has no entry for a pair.
    """
    rows = {row["Source"]: row for row in csv.DictReader(io.StringIO(table))}
    times = {}
    for a in data_centers:
        for b in data_centers:
            if a.name < b.name:
                both = [rows.get(x, {}).get(y) for x, y in _directions(a.region, b.region)]
                known = [float(value) for value in both if value]
                if not known:
                    raise InputError(f"no round-trip time between {a.region} and {b.region}")
                times[frozenset((a.name, b.name))] = sum(known) / len(known) / 1e3
    return times


def _directions(one: str, other: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return (one, other), (other, one)


def _check(bed: Bed) -> None:
    hubs = [dc.name for dc in bed.data_centers if dc.hub]
    if len(hubs) != 1:
        raise InputError(f"exactly one data centre must be the hub, not {hubs or 'none'}")
    subnets = [
        (dc.name, ipaddress.ip_network(subnet))
        for dc in bed.data_centers
        for subnet in (dc.pod_subnet, dc.service_subnet)
    ]
    for i, (name, subnet) in enumerate(subnets):
        for other, taken in subnets[:i]:
            if subnet.overlaps(taken):
                raise InputError(f"subnet {subnet} of {name} overlaps {taken} of {other}")
    if bed.wan.pod_rate > bed.wan.pair_rate:
        raise InputError("wan.podRate must not exceed wan.pairRate")
