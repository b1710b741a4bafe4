"""BandwidthSchedule: which flow owns a data centre's WAN paths when. Generated, never edited."""

from typing import ClassVar

from pydantic import Field

from geotrain.api.v1alpha1.fields import (
    Count,
    DataCenterName,
    Duration,
    IdleRate,
    ObjectName,
    Positive,
    PositiveDuration,
    Rate,
    SpecModel,
)
from geotrain.api.v1alpha1.resource import AGE, Column, Resource, Status


class ScheduledFlow(SpecModel):
    """Traffic of one rank to one rank of another data centre."""

    id: Count
    """Number of the flow in the job's plan."""
    source: Count
    """Rank that sends."""
    target: Count
    """Rank that receives."""
    target_data_center: DataCenterName
    """Data centre of the receiving rank."""
    mates: tuple[Count, ...] = Field(default=(), max_length=1024)
    """Ranks of the same DP-cell whose WAN paths the flow also uses in its window."""
    connections: Positive
    """TCP connections over each path."""
    rate: Rate
    """What one path carries in the flow's window, in bit/s."""
    idle_rate: IdleRate
    """What one path is guaranteed outside the window, in bit/s."""


class ScheduledWindow(SpecModel):
    """An interval of the iteration in which one flow owns its paths."""

    flow: Count
    """Number of the flow."""
    offset: Duration
    """Begin, counted from the iteration's start (stage 0's first forward)."""
    length: PositiveDuration
    """How long the window is."""
    rate: Rate
    """Rate of each of its paths in the window, in bit/s."""


class BandwidthScheduleSpec(SpecModel):
    """The windows of one job in one data centre."""

    job: ObjectName
    """GeoTrainingJob that owns the schedule, in the same namespace."""
    data_center: DataCenterName
    """Data centre whose pods send these flows."""
    revision: str = Field(default="", max_length=63)
    """Revision of the plan that the windows belong to."""
    period: PositiveDuration
    """Length of an iteration; the windows repeat with it."""
    flows: tuple[ScheduledFlow, ...] = Field(default=(), max_length=4096)
    """Flows that begin in this data centre."""
    windows: tuple[ScheduledWindow, ...] = Field(default=(), max_length=16384)
    """Windows in order of their offset."""


class BandwidthScheduleStatus(Status):
    """What the sidecars measured."""

    bytes_in_windows: Count | None = None
    """Bytes that the flows sent inside their windows, since the sidecars started."""
    bytes_outside: Count | None = None
    """Bytes sent outside of them."""


class BandwidthSchedule(Resource):
    """When each flow of a job may use the wide area.

    Made by the controller from the plan; to change it, change the job.
    """

    PLURAL: ClassVar = "bandwidthschedules"
    SHORT: ClassVar = "bws"
    COLUMNS: ClassVar = (
        Column(name="Job", path=".spec.job", description="Owner"),
        Column(name="DC", path=".spec.dataCenter", description="Where the flows begin"),
        Column(name="Period", path=".spec.period", description="Length of an iteration"),
        Column(name="Revision", path=".spec.revision", wide=True,
               description="Revision of the plan"),
        AGE,
    )  # fmt: skip

    spec: BandwidthScheduleSpec
    """The windows."""
    status: BandwidthScheduleStatus = BandwidthScheduleStatus()
    """What the sidecars measured."""
