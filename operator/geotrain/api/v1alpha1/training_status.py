"""What has become of a GeoTrainingJob: its plan, its gang, and what the sidecars report."""

from datetime import datetime

from pydantic import Field

from geotrain.api.v1alpha1.fields import Count, StatusModel
from geotrain.api.v1alpha1.resource import Status


class PlannedSegment(StatusModel):
    """What one data centre runs."""

    data_center: str
    """Data centre."""
    first_stage: Count
    """First of its consecutive stages."""
    stages: Count
    """How many stages it runs."""
    ranks: Count
    """Pods that it runs."""
    gpus: Count
    """GPUs that they take."""


class PlannedLink(StatusModel):
    """What the plan does on one link."""

    source: str = Field(alias="from")
    """Data centre that sends."""
    target: str = Field(alias="to")
    """Data centre that receives."""
    connections: Count
    """TCP connections between each pair of ranks."""
    bytes_per_iteration: str
    """Bytes that cross the link in one iteration."""


class LeftOut(StatusModel):
    """A data centre that the plan could not count on."""

    data_center: str
    """Data centre."""
    why: str
    """Why, and what would help."""


class LostAlternative(StatusModel):
    """A plan that was tried and not chosen."""

    placement: str
    """Stages by data centre, for example dc-west:4 dc-central:2."""
    data: Count
    """Replicas."""
    schedule: str
    """Order of work."""
    iteration_time: str | None = None
    """Planned length of an iteration; absent where it does not fit."""
    samples_per_second: float | None = None
    """Planned speed."""
    price_per_iteration: float | None = None
    """Planned price of an iteration."""
    why: str
    """Why it lost."""


class PlanError(StatusModel):
    """The error bar of an estimated plan: |predicted - measured| / measured."""

    median: float
    """Half of the runs that did not calibrate were off by no more."""
    p90: float
    """Nine in ten were."""


class PlanStatus(StatusModel):
    """The plan that the job runs by."""

    placement: str
    """Stages by data centre in pipeline order, for example dc-west:2 dc-central:2."""
    stages: tuple[PlannedSegment, ...] = ()
    """What each data centre runs, in pipeline order."""
    data: Count
    """Replicas."""
    pipeline: Count
    """Stages."""
    tensor: Count
    """GPUs a rank."""
    micro_batches: Count
    """Micro-batches of one replica in one iteration."""
    schedule: str
    """Order of work that was chosen."""
    iteration_time: str
    """Planned length of an iteration."""
    samples_per_second: float
    """Planned speed."""
    gpu_use: float
    """Share of the iteration in which the GPUs compute, 0 to 1."""
    bubble_share: float
    """Share of the iteration in which the GPUs wait, 0 to 1."""
    error: PlanError | None = None
    """What iterations of such estimates were off when measured; absent if nobody knows."""
    links: tuple[PlannedLink, ...] = ()
    """What crosses the wide area."""
    price_per_iteration: float
    """Price of GPUs and traffic of one iteration."""
    alternatives: tuple[LostAlternative, ...] = ()
    """Plans that lost and why, the best first."""
    left_out: tuple[LeftOut, ...] = ()
    """Data centres that were not planned with, and why."""
    notes: tuple[str, ...] = ()
    """What else there is to say about the choice."""


class LinkBytes(StatusModel):
    """Traffic over one link."""

    source: str = Field(alias="from")
    """Data centre that sent."""
    target: str = Field(alias="to")
    """Data centre that received."""
    bytes: Count
    """Bytes since the gang started."""


class ObservedTraining(StatusModel):
    """What the sidecars report of the running gang."""

    iteration: Count | None = None
    """Last finished iteration."""
    iteration_time: str | None = None
    """Measured length of an iteration."""
    plan_error: float | None = None
    """|measured - planned| / planned iteration time."""
    loss: float | None = None
    """Latest training loss that the trainer told."""
    ranks_ready: Count | None = None
    """Pods that are Ready."""
    link_bytes: tuple[LinkBytes, ...] = ()
    """Bytes by link."""
    in_window_share: float | None = None
    """Share of WAN bytes that were sent inside their windows, 0 to 1."""
    restarts: Count = 0
    """Gang restarts so far."""
    time: datetime | None = None
    """When this was observed."""


class GeoTrainingJobStatus(Status):
    """What has become of the job."""

    phase: str | None = None
    """The conditions in one word, for the column only; programs read the conditions."""
    revision: str | None = None
    """Revision of plan and template that the members hold."""
    attempt: Count | None = None
    """Number of the present gang: 0 at first, one more with each restart."""
    reserve_time: datetime | None = None
    """When the present gang was let go; reserveTimeout counts from here."""
    start_time: datetime | None = None
    """When the gang first ran; activeDeadline counts from here."""
    completion_time: datetime | None = None
    """When the job became Complete or Failed; ttlAfterFinished counts from here."""
    plan: PlanStatus | None = None
    """The plan that the job runs by."""
    observed: ObservedTraining | None = None
    """What the sidecars report."""
