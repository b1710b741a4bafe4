"""Data centres and the wide-area links between them."""

from dataclasses import dataclass

from geotrain.units import BitsPerSecond, Bytes, Seconds, window_rate


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

    def __post_init__(self) -> None:
        if self.gpus < 0:
            raise ValueError(f"data centre {self.name!r} has {self.gpus} GPUs; give 0 or more")
        if self.memory is not None and self.memory < 1:
            raise ValueError(
                f"data centre {self.name!r} has GPUs of {self.memory} bytes; give more"
            )


@dataclass(frozen=True, slots=True)
class WanLink:
    """One direction of a wide-area path; full duplex is two of them.

    ``capacity`` is the rate of the DC pair, ``per_pod_capacity`` what one pod pair can reach,
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
        """What one pod pair can reach with enough connections."""
        limit = self.capacity * self.reservable
        return limit if self.per_pod_capacity is None else min(limit, self.per_pod_capacity)

    @property
    def connection_rate(self) -> BitsPerSecond:
        """What one TCP connection carries: min(pod rate, window/RTT)."""
        if self.window is None:
            return self.pod_rate
        return min(self.pod_rate, window_rate(self.window, self.round_trip))


@dataclass(frozen=True, slots=True)
class Topology:
    """Data centres and links, with what is measured inside a data centre."""

    data_centers: tuple[DataCenter, ...]
    links: tuple[WanLink, ...] = ()
    lan_rate: BitsPerSecond = 100e9
    lan_latency: Seconds = 20e-6

    def data_center(self, name: str) -> DataCenter | None:
        """The data centre of that name."""
        return next((d for d in self.data_centers if d.name == name), None)

    def link(self, source: str, target: str) -> WanLink | None:
        """The direct link from ``source`` to ``target``."""
        return next((w for w in self.links if (w.source, w.target) == (source, target)), None)
