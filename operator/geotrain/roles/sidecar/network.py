"""What the controller tells the sidecars of one data centre: ``network.json``, read strictly.

Times are seconds from the start of an iteration, rates bit/s.
"""

import ipaddress
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from geotrain.errors import InputError
from geotrain.shaping.windows import Turn
from geotrain.units import BitsPerSecond, Bytes, Seconds

T = TypeVar("T")
Interval = tuple[Seconds, Seconds]


@dataclass(frozen=True, slots=True)
class Peer:
    """A rank of the job: its DNS name, and where it runs what."""

    address: str
    data_center: str
    stage: int
    replica: int


@dataclass(frozen=True, slots=True)
class Flow:
    """Traffic of one rank to one of another data centre; ``mates`` lend their paths."""

    id: int
    source: int
    target: int
    mates: tuple[int, ...]
    connections: int
    rate: BitsPerSecond
    idle_rate: BitsPerSecond

    def leaves_through(self, rank: int) -> bool:
        """Whether bytes of this flow leave the data centre through the pod of ``rank``."""
        return rank == self.source or rank in self.mates


@dataclass(frozen=True, slots=True)
class Network:
    """The whole of ``network.json``.

    ``pod_rate`` of None: a pod may use all its interface has. ``window`` of None: nobody said what
    one TCP connection has in flight at most.
    """

    job: str
    data_center: str
    revision: str = ""
    period: Seconds = 0.0
    pod_rate: BitsPerSecond | None = None
    window: Bytes | None = None
    local_cidrs: tuple[str, ...] = ()
    remote_cidrs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ranks: Mapping[int, Peer] = field(default_factory=dict)
    first_action: Mapping[int, Seconds] = field(default_factory=dict)
    flows: tuple[Flow, ...] = ()
    windows: tuple[Turn, ...] = ()
    bubbles: Mapping[int, tuple[Interval, ...]] = field(default_factory=dict)

    def flow(self, source: int, target: int) -> Flow | None:
        """The flow from one rank to another."""
        return next((f for f in self.flows if (f.source, f.target) == (source, target)), None)

    def flows_through(self, rank: int) -> tuple[Flow, ...]:
        """The flows that need a class on the interface of ``rank``'s pod."""
        return tuple(f for f in self.flows if f.leaves_through(rank))

    def cell(self, flow: Flow) -> tuple[tuple[int, ...], int]:
        """What ``flow`` shares with those that take turns with it: their sources, their target.

        The target is its stage, or the rank itself where that is not known.
        """
        peer = self.ranks.get(flow.target)
        sources = tuple(sorted({flow.source, *flow.mates}))
        return sources, flow.target if peer is None else peer.stage

    def is_forward(self, flow: Flow) -> bool:
        """Whether it goes down the pipeline, so that its messages are an iteration's first."""
        source, target = self.ranks.get(flow.source), self.ranks.get(flow.target)
        return source is not None and target is not None and source.stage < target.stage

    @property
    def cidrs(self) -> tuple[str, ...]:
        """The pod networks of all other data centres, in order."""
        return tuple(sorted({c for cidrs in self.remote_cidrs.values() for c in cidrs}))

    def data_center_of(self, address: str) -> str | None:
        """The other data centre that an address belongs to; None for this one and strangers."""
        place = ipaddress.ip_address(address)
        for name, cidrs in sorted(self.remote_cidrs.items()):
            if any(place in ipaddress.ip_network(c) for c in cidrs):
                return name
        return None

    def is_local(self, address: str) -> bool:
        """Whether an address lies in this data centre's pod network."""
        place = ipaddress.ip_address(address)
        return any(place in ipaddress.ip_network(c) for c in self.local_cidrs)


def parse(text: str) -> Network:
    """Read ``network.json``. Raises InputError with the place of the first fault."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InputError(f"network.json is no JSON: {error}") from error
    return _network(_Reader(document, ""))


class _Reader:
    """A part of a JSON document that knows where it stands, for messages."""

    def __init__(self, value: Any, place: str) -> None:
        self.value = value
        self.place = place or "network.json"

    def __getitem__(self, key: str) -> "_Reader":
        if not isinstance(self.value, dict) or key not in self.value:
            raise InputError(f"{self.place}: {key} is missing")
        return _Reader(self.value[key], f"{self.place}.{key}")

    def optional(self, key: str, default: Any) -> "_Reader":
        present = isinstance(self.value, dict) and self.value.get(key) is not None
        return self[key] if present else _Reader(default, f"{self.place}.{key}")

    def text(self) -> str:
        return str(self._of(str, "a string"))

    def whole(self) -> int:
        return int(self._of(int, "a whole number"))

    def number(self) -> float:
        return float(self._of((int, float), "a number"))

    def positive(self) -> float:
        value = self.number()
        if value <= 0:
            raise InputError(f"{self.place} is {value:g}; give a number above 0")
        return value

    def cidr(self) -> str:
        try:
            return str(ipaddress.ip_network(self.text(), strict=False))
        except ValueError as error:
            raise InputError(f"{self.place}: {error}; give a network like 10.1.0.0/16") from error

    def far_cidrs(self) -> tuple[str, ...]:
        """Networks of another data centre. Without an IPv4 one nothing there could be carried."""
        cidrs = self.items(_Reader.cidr)
        if not any(":" not in cidr for cidr in cidrs):
            said = ", ".join(cidrs) or "nothing"
            raise InputError(f"{self.place} holds {said}; give the IPv4 networks of its pods")
        return cidrs

    def items(self, read: Callable[["_Reader"], T]) -> tuple[T, ...]:
        entries: list[Any] = self._of(list, "a list")
        return tuple(read(_Reader(v, f"{self.place}[{i}]")) for i, v in enumerate(entries))

    def table(self, read: Callable[["_Reader"], T]) -> dict[str, T]:
        entries: dict[str, Any] = self._of(dict, "an object")
        return {k: read(_Reader(v, f"{self.place}.{k}")) for k, v in entries.items()}

    def by_rank(self, read: Callable[["_Reader"], T]) -> dict[int, T]:
        table = self.table(read)
        wrong = next((k for k in table if not k.isdecimal()), None)
        if wrong is not None:
            raise InputError(f"{self.place}: {wrong!r} is no rank")
        return {int(k): v for k, v in table.items()}

    def _of(self, kind: Any, name: str) -> Any:
        if not isinstance(self.value, kind) or isinstance(self.value, bool):
            raise InputError(f"{self.place} is {self.value!r}; give {name}")
        return self.value


def _network(r: _Reader) -> Network:
    rate = r.optional("perPodRate", None)
    window = r.optional("connectionWindow", None)
    return Network(
        job=r["job"].text(),
        data_center=r["dataCenter"].text(),
        revision=r.optional("revision", "").text(),
        period=r.optional("period", 0.0).number(),
        pod_rate=None if rate.value is None else rate.positive(),
        window=None if window.value is None else round(window.positive()),
        local_cidrs=r.optional("localCidrs", []).items(_Reader.cidr),
        remote_cidrs=r["remoteCidrs"].table(_Reader.far_cidrs),
        ranks=r["ranks"].by_rank(_peer),
        first_action=r.optional("firstAction", {}).by_rank(_Reader.number),
        flows=r.optional("flows", []).items(_flow),
        windows=r.optional("windows", []).items(_turn),
        bubbles=r.optional("bubbles", {}).by_rank(lambda e: e.items(_interval)),
    )


def _peer(r: _Reader) -> Peer:
    return Peer(
        r["address"].text(), r["dataCenter"].text(), r["stage"].whole(), r["replica"].whole()
    )


def _flow(r: _Reader) -> Flow:
    connections = r["connections"]
    if connections.whole() < 1:
        raise InputError(f"{connections.place} is {connections.value}; give 1 or more")
    return Flow(
        id=r["id"].whole(),
        source=r["source"].whole(),
        target=r["target"].whole(),
        mates=r.optional("mates", []).items(_Reader.whole),
        connections=connections.whole(),
        rate=r["rate"].positive(),
        idle_rate=r["idleRate"].number(),
    )


def _turn(r: _Reader) -> Turn:
    length, rate = r["length"].positive(), r["rate"].positive()
    return Turn(r["flow"].whole(), r["offset"].number(), length, rate)


def _interval(r: _Reader) -> Interval:
    ends = r.items(_Reader.number)
    if len(ends) != 2 or ends[1] < ends[0]:
        raise InputError(f"{r.place} is {r.value!r}; give [begin, end]")
    return ends[0], ends[1]
