"""WanLink: the wide-area path between two data centres."""

from datetime import datetime
from itertools import pairwise
from typing import ClassVar, Final, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from geotrain.api.v1alpha1.fields import (
    DataCenterName,
    Duration,
    Flag,
    Price,
    Rate,
    Share,
    Size,
    SpecModel,
    StatusModel,
    rule,
    rules,
)
from geotrain.api.v1alpha1.resource import (
    AGE,
    Column,
    Resource,
    Status,
    message_column,
    ready_columns,
)
from geotrain.units import parse_bytes


class MessageRate(SpecModel):
    """A size of messages, and what it reaches."""

    size: Size
    """Bytes of a message, for example 1Mi."""
    rate: Rate
    """What one pod pair reaches with messages of that size, in bit/s, for example 1.2G."""


_ASCENDING: Final = rule(
    "self.all(i, point, i == 0 || quantity(self[i - 1].size).isLessThan(quantity(point.size)))",
    "give the sizes in ascending order, each once",
)

_TWO: Final = "from and to must be two different data centres"


class WanLinkSpec(SpecModel):
    """What is known or leased.

    The planner takes the lower of the declared and the measured rate and the longer of the two
    round trips.
    """

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("self.from != self.to", _TWO),
        )
    )

    source: DataCenterName = Field(alias="from")
    """Data centre where the link begins."""
    target: DataCenterName = Field(alias="to")
    """Data centre where the link ends."""
    symmetric: Flag = True
    """True (the default): the same values hold in both directions; one WanLink does for both."""
    capacity: Rate
    """Rate of the whole pair in one direction, as leased or capped, in bit/s, for example 5G."""
    per_pod_capacity: Rate | None = None
    """The most that one pod pair can reach with many connections, in bit/s; absent: the whole
    capacity."""
    message_rates: tuple[MessageRate, ...] = Field(
        default=(), max_length=32, json_schema_extra=rules(_ASCENDING)
    )
    """What one pod pair reaches with messages of a size, the smallest size first. Straight lines
    over log2(size) lie between the points; below the first a message takes as long as the first,
    and beyond the last the rate stays. Empty (the default): every size reaches perPodCapacity."""
    round_trip_time: Duration
    """Round trip between pods of the two data centres, for example 33ms."""
    tcp_window: Size | None = None
    """Most bytes that one TCP connection keeps in flight, for example 1536Ki. One connection
    carries at most tcpWindow / roundTripTime; absent: no limit."""
    cost_per_gigabyte: Price = 0.0
    """Price of 10⁹ bytes sent, in the currency of costPerGpuHour (default 0)."""
    reservable: Share = 1.0
    """Share of the capacity that windows of all jobs together may hand out, above 0 and at most 1
    (default 1)."""

    @field_validator("message_rates")
    @classmethod
    def _sizes_ascend(cls, points: tuple[MessageRate, ...]) -> tuple[MessageRate, ...]:
        sizes = [parse_bytes(point.size) for point in points]
        if any(a >= b for a, b in pairwise(sizes)):
            raise ValueError(_ASCENDING["message"])
        return points

    @model_validator(mode="after")
    def _joins_two(self) -> Self:
        if self.source == self.target:
            raise ValueError(_TWO)
        return self


class MeasuredLink(StatusModel):
    """Measured values; each replaces the declared one where it is worse."""

    capacity: str | None = None
    """Rate of the pair over many connections, in bit/s."""
    per_pod_capacity: str | None = None
    """Rate of one pod pair over many connections, in bit/s."""
    connection_rate: str | None = None
    """Rate of one connection, in bit/s."""
    round_trip_time: str | None = None
    """Median round trip."""
    time: datetime
    """When it was measured."""


class Reservation(StatusModel):
    """What the windows of one job take of the link."""

    job: str
    """The job as namespace/name."""
    rate: str
    """Highest rate that its windows hand out at one time, in bit/s."""


class WanLinkStatus(Status):
    """What was measured, and who has reserved what."""

    measured: MeasuredLink | None = None
    """Latest measurement; absent until there is one."""
    reserved: tuple[Reservation, ...] = Field(
        default=(),
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["job"],
        },
    )
    """Rate reserved by each job."""
    reserved_rate: str | None = None
    """Sum over the jobs, in bit/s; never above capacity times reservable."""


class WanLink(Resource):
    """A wide-area path between two data centres: rate, round trip, window and price."""

    PLURAL: ClassVar = "wanlinks"
    SHORT: ClassVar = "wan"
    NAMESPACED: ClassVar = False
    COLUMNS: ClassVar = (
        Column(name="From", path=".spec.from", description="Where the link begins"),
        Column(name="To", path=".spec.to", description="Where the link ends"),
        Column(name="Capacity", path=".spec.capacity", description="Declared rate, bit/s"),
        Column(name="RTT", path=".spec.roundTripTime", description="Declared round trip"),
        Column(name="Reserved", path=".status.reservedRate",
               description="Rate that windows hand out, bit/s"),
        *ready_columns("Valid", "Measured"),
        Column(name="Window", path=".spec.tcpWindow", wide=True,
               description="Bytes in flight of one connection"),
        message_column("Valid"),
        AGE,
    )  # fmt: skip

    spec: WanLinkSpec
    """What is known or leased."""
    status: WanLinkStatus = WanLinkStatus()
    """What was measured and reserved."""
