"""Data centres and the wide-area links between them."""

from dataclasses import dataclass
from itertools import pairwise
from math import log2
from typing import Final

from geotrain.units import BitsPerSecond, Bytes, Seconds


@dataclass(frozen=True, slots=True)
class Lan:
    """A data centre's network: what one pod reaches of another, and one way between them.

    The GPUs of a pod share ``rate``. Where each has an adapter of its own, ``gpu_rate`` is that of
    one, and a pod reaches no more than its GPUs' together (None: the pod's own limit alone).
    """

    rate: BitsPerSecond = 100e9
    latency: Seconds = 20e-6
    gpu_rate: BitsPerSecond | None = None

    def __post_init__(self) -> None:
        if self.rate <= 0:
            raise ValueError(f"a pod reaches {self.rate} bit/s of another; give more than 0")
        if self.latency < 0:
            raise ValueError(f"a latency of {self.latency} s is negative; give 0 or more")
        if self.gpu_rate is not None and self.gpu_rate <= 0:
            raise ValueError(f"a GPU reaches {self.gpu_rate} bit/s; give more than 0")

    def pod_rate(self, gpus: int) -> BitsPerSecond:
        """What a pod of so many GPUs reaches of another in one direction."""
        return self.rate if self.gpu_rate is None else min(self.rate, gpus * self.gpu_rate)


USUAL_LAN: Final = Lan()


@dataclass(frozen=True, slots=True)
class DataCenter:
    """A data centre as the planner sees it: ``gpus`` are those that a new job may take.

    ``accelerator`` names their kind ('': unknown), ``memory`` is what each has (None: unknown).
    """

    name: str
    gpus: int
    cost_per_gpu_hour: float = 0.0
    accelerator: str = ""
    memory: Bytes | None = None
    lan: Lan = USUAL_LAN

    def __post_init__(self) -> None:
        if self.gpus < 0:
            raise ValueError(f"data centre {self.name!r} has {self.gpus} GPUs; give 0 or more")
        if self.memory is not None and self.memory < 1:
            raise ValueError(
                f"data centre {self.name!r} has GPUs of {self.memory} bytes; give more"
            )


@dataclass(frozen=True, slots=True)
class MessageRates:
    """What messages of ascending ``sizes`` in bytes reach of a link, in bit/s.

    Straight lines over log2(size) lie between the points. Below the first one a message takes as
    long as the first, because latency rules there; beyond the last the rate stays.
    """

    sizes: tuple[float, ...]
    rates: tuple[BitsPerSecond, ...]

    def __post_init__(self) -> None:
        if not self.sizes or len(self.sizes) != len(self.rates):
            raise ValueError("message rates are at least one size, each with its rate")
        if any(a >= b for a, b in pairwise((0.0, *self.sizes))):
            raise ValueError("sizes of message rates must be above 0 and ascend")
        if min(self.rates) <= 0:
            raise ValueError("message rates must be above 0")

    def rate(self, size: float) -> BitsPerSecond:
        """Rate of a message of ``size`` bytes; less than a byte counts as one."""
        size = max(size, 1.0)
        if size <= self.sizes[0]:
            return self.rates[0] * size / self.sizes[0]
        points = zip(self.sizes, self.rates, strict=True)
        for (below, low), (above, high) in pairwise(points):
            if size <= above:
                return low + log2(size / below) / log2(above / below) * (high - low)
        return self.rates[-1]


@dataclass(frozen=True, slots=True)
class WanLink:
    """One direction of a wide-area path; full duplex is two of them.

    ``capacity`` is the rate of the DC pair, ``per_pod_capacity`` the most that one pod pair can
    reach, ``message_rates`` what it reaches with messages of a size (None: always the most),
    ``window`` the most bytes that one TCP connection keeps in flight (None: unlimited),
    ``efficiency`` the share of a rate that carries payload (headers take the rest).
    """

    source: str
    target: str
    capacity: BitsPerSecond
    round_trip: Seconds
    window: Bytes | None = None
    per_pod_capacity: BitsPerSecond | None = None
    cost_per_gigabyte: float = 0.0
    reservable: float = 1.0
    efficiency: float = 1.0
    message_rates: MessageRates | None = None

    def __post_init__(self) -> None:
        if self.capacity <= 0:
            raise ValueError(f"link {self.source}-{self.target}: capacity must be above 0")
        if self.round_trip < 0:
            raise ValueError(f"link {self.source}-{self.target}: round trip must be 0 or more")
        if not 0 < self.reservable <= 1:
            raise ValueError(f"link {self.source}-{self.target}: reservable must be in (0, 1]")
        if not 0 < self.efficiency <= 1:
            raise ValueError(f"link {self.source}-{self.target}: efficiency must be in (0, 1]")

    @property
    def pod_rate(self) -> BitsPerSecond:
        """What one pod pair can reach with enough connections and the best size of messages."""
        limit = self.capacity * self.reservable
        if self.message_rates is not None:
            limit = min(limit, max(self.message_rates.rates))
        return limit if self.per_pod_capacity is None else min(limit, self.per_pod_capacity)

    def message_rate(self, size: float) -> BitsPerSecond:
        """What one pod pair can reach with messages of ``size`` bytes."""
        if self.message_rates is None:
            return self.pod_rate
        return min(self.pod_rate, self.message_rates.rate(size))


@dataclass(frozen=True, slots=True)
class Topology:
    """Data centres and the links between them."""

    data_centers: tuple[DataCenter, ...]
    links: tuple[WanLink, ...] = ()

    def data_center(self, name: str) -> DataCenter | None:
        """The data centre of that name."""
        return next((d for d in self.data_centers if d.name == name), None)

    def lan(self, name: str) -> Lan:
        """The network of a data centre; of one that is not known, the usual."""
        center = self.data_center(name)
        return center.lan if center else USUAL_LAN

    def link(self, source: str, target: str) -> WanLink | None:
        """The direct link from ``source`` to ``target``."""
        return next((w for w in self.links if (w.source, w.target) == (source, target)), None)
