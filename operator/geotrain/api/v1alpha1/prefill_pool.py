"""PrefillPool: LLM prefill in the idle intervals of a training job's GPUs."""

from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from geotrain.api.v1alpha1.fields import (
    NO_FLAG,
    Count,
    Duration,
    ObjectName,
    Positive,
    PositiveDuration,
    SpecModel,
    StatusModel,
    Url,
    Whole,
    rule,
    rules,
)
from geotrain.api.v1alpha1.overrides import Overrides
from geotrain.api.v1alpha1.resource import (
    AGE,
    Column,
    NameRef,
    PodTemplate,
    Resource,
    Status,
    message_column,
    ready_columns,
)


class JobSelector(SpecModel):
    """Picks a training job by its labels."""

    match_labels: Annotated[dict[str, str], Field(min_length=1, max_length=32)]
    """Labels that the job must carry; of several, the first by name is taken."""


class PrefillModel(SpecModel):
    """The model that is served. Times are estimated from its shape where nothing is measured."""

    name: str = Field(min_length=1, max_length=253)
    """Name under which clients ask for it (model in /v1/completions)."""
    layers: Positive | None = None
    """Transformer layers. The gate is asked before each of them."""
    hidden_size: Positive | None = None
    """Width of a layer."""


class PrefillProfileRef(SpecModel):
    """A ConfigMap in the pool's namespace with measured prefill times."""

    name: ObjectName
    """Name of the ConfigMap, in the pool's namespace."""
    key: str = Field(default="prefill.json", min_length=1, max_length=253)
    """Key that holds the profile as JSON (default prefill.json)."""


class PrefillPlacement(SpecModel):
    """Beside which ranks workers run."""

    stages: tuple[Count, ...] = Field(
        default=(), max_length=1024, json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    """Pipeline stages whose GPUs are shared; empty (the default): all."""
    max_per_gpu: Annotated[Whole, Field(ge=1, le=16)] = 1
    """Most workers that share one training rank's GPU (default 1)."""


class PrefillObjective(SpecModel):
    """What clients are promised; a request that would miss it is answered 429 at once."""

    time_to_first_token: PositiveDuration = "1s"  # noqa: S105 (a time)
    """Time to first token that a request is admitted for (default 1s)."""
    percentile: Annotated[float, Field(gt=0, le=100), NO_FLAG] = 90
    """Share of the admitted requests that should meet it, in percent (default 90)."""


class DecodeService(SpecModel):
    """Where a prefilled request goes on."""

    url: Url
    """Base URL of the decode service, reachable from the router."""


class PrefillScaling(SpecModel):
    """How many workers there are."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("!has(self.max) || self.min <= self.max", "min must not exceed max"),
        )
    )

    min: Count = 0
    """Workers that the pool should have to be Serving (default 0)."""
    max: Positive | None = None
    """Most workers; absent: maxPerGpu beside every rank of the chosen stages."""


class PrefillPoolSpec(SpecModel):
    """What is served, beside which job, and what is promised."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.trainingJobRef) != has(self.jobSelector)",
                "give exactly one of trainingJobRef (a name) or jobSelector (labels)",
            ),
            rule(
                "has(self.profileRef) || (has(self.model) && has(self.model.layers)"
                " && has(self.model.hiddenSize))",
                "give profileRef (measured prefill times) or model.layers and model.hiddenSize"
                " (to estimate them)",
            ),
        )
    )

    training_job_ref: NameRef | None = None
    """Training job, in the same namespace, whose idle GPU time is used."""
    job_selector: JobSelector | None = None
    """Picks the training job by labels instead of by name."""
    model: PrefillModel | None = None
    """Model that is served; absent: it goes by the pool's name."""
    profile_ref: PrefillProfileRef | None = None
    """Measured prefill times, which win over an estimate from model."""
    placement: PrefillPlacement = PrefillPlacement()
    """Beside which ranks workers run."""
    minimum_bubble: Duration = "5ms"
    """Idle intervals shorter than this are left alone (default 5ms)."""
    guard: Duration = "2ms"
    """A layer only starts if it ends this long before training needs the GPU (default 2ms)."""
    objective: PrefillObjective = PrefillObjective()
    """What clients are promised."""
    decode: DecodeService | None = None
    """Where decode runs; absent: the router answers with the first token alone."""
    scaling: PrefillScaling = PrefillScaling()
    """How many workers there are."""
    template: PodTemplate
    """The pod of every worker."""
    overrides: Overrides = ()
    """What differs from the template in some data centres."""


class WorkerCount(StatusModel):
    """Workers in one data centre."""

    data_center: str
    """Data centre."""
    desired: Count
    """Workers that should be there."""
    ready: Count
    """Workers that answer."""


class BubbleTime(StatusModel):
    """Idle GPU time, in seconds since the router started."""

    offered: float = Field(ge=0)
    """Seconds of idle intervals of at least minimumBubble."""
    used: float = Field(ge=0)
    """Seconds of them in which prefill computed."""


class RequestCount(StatusModel):
    """Requests since the router started."""

    admitted: Count = 0
    """Requests that were served or are being served."""
    refused: Count = 0
    """Requests answered 429, because no bubble would have met the objective."""


class TokenTimes(StatusModel):
    """Percentiles of the measured time to first token."""

    p50: str
    """Median."""
    p90: str
    """90th percentile."""
    p99: str
    """99th percentile."""


class PrefillPoolStatus(Status):
    """What the pool does."""

    phase: str | None = None
    """The conditions in one word, for the column only; programs read the conditions."""
    job: str | None = None
    """Training job that the pool is bound to."""
    workers: tuple[WorkerCount, ...] = ()
    """Workers by data centre."""
    ready_workers: Count | None = None
    """Workers that answer, in all data centres."""
    endpoint: str | None = None
    """Base URL of the router on the hub."""
    bubble_seconds: BubbleTime | None = None
    """Idle GPU time offered and used."""
    requests: RequestCount | None = None
    """Requests admitted and refused."""
    time_to_first_token: TokenTimes | None = None
    """Percentiles of the measured time to first token."""
    training_stretch: float | None = None
    """By which share training iterations are longer than before the pool served; 0.01 is 1 %."""


class PrefillPool(Resource):
    """LLM prefill in the idle intervals of a training job's GPUs."""

    PLURAL: ClassVar = "prefillpools"
    SHORT: ClassVar = "pfp"
    COLUMNS: ClassVar = (
        Column(name="Phase", path=".status.phase", description="The conditions in one word"),
        Column(name="Job", path=".status.job", description="Training job"),
        Column(name="Workers", path=".status.readyWorkers", type="integer",
               description="Workers that answer"),
        Column(name="Served", path=".status.requests.admitted", type="integer",
               description="Requests admitted"),
        Column(name="Refused", path=".status.requests.refused", type="integer",
               description="Requests refused"),
        Column(name="TTFT-P90", path=".status.timeToFirstToken.p90",
               description="Time to first token"),
        *ready_columns("Serving"),
        Column(name="Endpoint", path=".status.endpoint", wide=True, description="Router"),
        message_column(),
        AGE,
    )  # fmt: skip
    RULES: ClassVar = (
        rule(
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')"
            " && self.metadata.name.size() <= 52",
            "the name becomes a Service and part of pod names: at most 52 lower-case letters,"
            " digits and '-', beginning with a letter",
        ),
    )

    spec: PrefillPoolSpec
    """What is served, beside which job, and what is promised."""
    status: PrefillPoolStatus = PrefillPoolStatus()
    """What the pool does."""
