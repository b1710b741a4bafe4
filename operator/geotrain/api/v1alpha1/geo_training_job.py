"""GeoTrainingJob: one model trained as a pipeline over several data centres."""

from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from geotrain.api.v1alpha1.fields import (
    INT_OR_STRING,
    DataCenterName,
    Duration,
    Flag,
    ObjectName,
    Positive,
    PositiveDuration,
    Size,
    SpecModel,
    Whole,
    rule,
    rules,
)
from geotrain.api.v1alpha1.overrides import GPU_RULES, Overrides
from geotrain.api.v1alpha1.resource import (
    AGE,
    Column,
    PodTemplate,
    Resource,
    reason_column,
)
from geotrain.api.v1alpha1.training_status import GeoTrainingJobStatus
from geotrain.planning.costs.connections import MOST_CONNECTIONS, NCCL_SOCKETS

_AUTO: Final = "write a whole number of at least 1, or auto"
_FIXED: Final = "stages are given with policy Fixed, and only then"
_GROUPS: Final = "keyValueHeads must divide heads; give both"
_EXPERTS: Final = "model.experts.count must be a multiple of parallelism.tensor"
_SPLIT: Final = "layersPerStage must have parallelism.pipeline numbers that add up to model.layers"
_ONCE: Final = "a data centre may appear only once in stages: its stages must be consecutive"


def _number_or_auto(value: Any) -> Any:
    """One sentence in place of one for the number and one for the word."""
    if value != "auto" and (type(value) is not int or value < 1):
        raise ValueError(_AUTO)
    return value


Auto = Annotated[
    Positive | Literal["auto"],
    BeforeValidator(_number_or_auto),
    Field(
        json_schema_extra={
            INT_OR_STRING: True,
            **rules(
                rule(
                    "type(self) == int ? self >= 1 : self == 'auto'",
                    _AUTO,
                )
            ),
        }
    ),
]


class TrainingExperts(SpecModel):
    """A mixture of experts in place of every layer's feed-forward part."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("self.perToken <= self.count", "perToken must not exceed count"),
        )
    )

    count: Annotated[Whole, Field(ge=1, le=4096)]
    """Experts of a layer; a multiple of parallelism.tensor, whose GPUs share them."""
    per_token: Annotated[Whole, Field(ge=1, le=4096)]
    """How many of them a token is sent to."""
    feed_forward: Annotated[Whole, Field(ge=1, le=2**20)]
    """Width of one expert."""
    shared: Annotated[Whole, Field(ge=0, le=4096)] = 0
    """Experts that every token passes besides (default 0)."""

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.per_token > self.count:
            raise ValueError("perToken must not exceed count")
        return self


class TrainingModel(SpecModel):
    """The shape of a decoder, from which costs are estimated where nothing is measured."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.experts) || !has(self.feedForward)",
                "give feedForward of a dense model, or experts",
            ),
            rule(
                "!has(self.keyValueHeads) || (has(self.heads) &&"
                " self.heads % self.keyValueHeads == 0)",
                _GROUPS,
            ),
        )
    )

    layers: Annotated[Whole, Field(ge=1, le=10_000)]
    """Transformer layers."""
    hidden_size: Annotated[Whole, Field(ge=1, le=2**20)]
    """Width of a layer."""
    sequence_length: Annotated[Whole, Field(ge=1, le=2**30)]
    """Tokens of one sample."""
    vocabulary_size: Annotated[Whole, Field(ge=1, le=2**30)]
    """Entries of the token embedding; the last stage also computes the output over them."""
    parameter_dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    """Type of weights and activations (default bfloat16); sets memory and bytes over the WAN."""
    heads: Annotated[Whole, Field(ge=1, le=2**20)] | None = None
    """Attention heads (default: hiddenSize / 128)."""
    key_value_heads: Annotated[Whole, Field(ge=1, le=2**20)] | None = None
    """Heads of keys and values, fewer than heads in grouped-query attention (default: heads)."""
    attention: Literal["Fused", "Unfused"] = "Fused"
    """Fused (the default): a kernel that keeps no scores and skips what causality masks
    (FlashAttention). Unfused: products and softmax over all scores."""
    feed_forward: Annotated[Whole, Field(ge=1, le=2**20)] | None = None
    """Width of the feed-forward part (default: 4 times hiddenSize, without a gate)."""
    gated: Flag | None = None
    """Whether feed-forward parts have a gate, three matrices in place of two (default: true where
    feedForward or experts are given)."""
    experts: TrainingExperts | None = None
    """A mixture of experts in place of the feed-forward part."""
    tied_embeddings: Flag = False
    """Whether embedding and output are one table (default false). In a pipeline both ends hold it
    and exchange its gradients once an iteration."""
    gradient_bytes: Literal[1, 2, 4] | None = None
    """Bytes of a gradient, kept and all-reduced (default: those of parameterDtype)."""
    optimizer_bytes: Annotated[Whole, Field(ge=0, le=64)] | None = None
    """Bytes of optimizer state for each weight, a main copy among them (default: 12, and 8 with
    parameterDtype float32)."""

    @model_validator(mode="after")
    def _holds_its_rules(self) -> Self:
        if self.experts is not None and self.feed_forward is not None:
            raise ValueError("give feedForward of a dense model, or experts")
        groups = self.key_value_heads
        if groups is not None and (self.heads is None or self.heads % groups):
            raise ValueError(_GROUPS)
        return self


class ProfileRef(SpecModel):
    """A ConfigMap in the job's namespace with measured layer times."""

    name: ObjectName
    """Name of the ConfigMap, in the job's namespace."""
    key: str = Field(default="profile.json", min_length=1, max_length=253)
    """Key that holds the profile as JSON (default profile.json): geotrain's own form, or Sailor's
    as published, which needs spec.model for sizes."""


class CalibrationRef(SpecModel):
    """A ConfigMap in the job's namespace with a calibration."""

    name: ObjectName
    """Name of the ConfigMap, in the job's namespace."""
    key: str = Field(default="calibration.json", min_length=1, max_length=253)
    """Key that holds the calibration as JSON, as geotrain calibrate writes it (default
    calibration.json)."""


class Parallelism(SpecModel):
    """How the model is cut. Ranks = data x pipeline pods of tensor GPUs each."""

    data: Auto = 1
    """Replicas of the pipeline that share their gradients, in one data centre each stage; auto
    lets the planner choose (default 1)."""
    pipeline: Annotated[Whole, Field(ge=1, le=1024)]
    """Stages that the layers are cut into; consecutive stages share a data centre."""
    tensor: Annotated[Whole, Field(ge=1, le=64)] = 1
    """GPUs of one pod, which share every layer (default 1). Must equal the GPU limit of the
    template's first container, the only one that may ask for GPUs."""
    sequence_parallel: Flag = False
    """Whether the GPUs of a pod also split the sequence where they do not split the layer: norms
    and dropouts are divided too, and a recomputed layer keeps less (default false)."""
    layers_per_stage: tuple[Annotated[Whole, Field(ge=1, le=10_000)], ...] = Field(
        default=(), max_length=1024
    )
    """Consecutive layers of each stage, first to last. Empty (the default): as makes the slowest
    stage fastest, which takes the output over the vocabulary into account."""


class Batch(SpecModel):
    """How many samples an iteration learns from."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("self.global % self.micro == 0", "global must be a multiple of micro"),
        )
    )

    global_: Annotated[Whole, Field(ge=1, le=10**9)] = Field(alias="global")
    """Samples of one iteration over all replicas."""
    micro: Positive = 1
    """Samples of one micro-batch, the unit that flows through the pipeline (default 1)."""


class FixedStages(SpecModel):
    """Consecutive stages in one data centre."""

    data_center: DataCenterName
    """Data centre that runs them."""
    stages: Annotated[Whole, Field(ge=1, le=1024)]
    """How many consecutive stages."""


class TrainingPlacement(SpecModel):
    """Where the job may run."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.policy == 'Fixed' ? has(self.stages) && self.stages.size() > 0"
                " : !has(self.stages) || self.stages.size() == 0",
                _FIXED,
            ),
            rule(
                "!has(self.stages) || self.stages.all(s,"
                " self.stages.exists_one(t, t.dataCenter == s.dataCenter))",
                _ONCE,
            ),
        )
    )

    data_centers: tuple[DataCenterName, ...] = Field(
        default=(), max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    """Data centres that may be used; empty (the default): any."""
    policy: Literal["Atlas", "Fixed"] = "Atlas"
    """Atlas (the default): geotrain chooses, largest data centres first, and may use fewer.
    Fixed: exactly as stages says."""
    stages: tuple[FixedStages, ...] = Field(default=(), max_length=64)
    """With policy Fixed: the data centres in pipeline order and how many stages each runs."""
    objective: Literal["Throughput", "Cost"] = "Throughput"
    """What makes a plan better: samples a second (the default), or the price of a sample."""

    @property
    def named(self) -> frozenset[str]:
        """The data centres that are asked for by name; empty: any."""
        if self.policy == "Fixed":
            return frozenset(each.data_center for each in self.stages)
        return frozenset(self.data_centers)

    @model_validator(mode="after")
    def _holds_its_rules(self) -> Self:
        if (self.policy == "Fixed") != bool(self.stages):
            raise ValueError(_FIXED)
        if len({each.data_center for each in self.stages}) < len(self.stages):
            raise ValueError(_ONCE)
        return self


class TrainingSchedule(SpecModel):
    """In which order a rank works, and within which memory."""

    policy: Literal["Auto", "GPipe", "OneFOneB", "Atlas", "GeoPipe", "ZeroBubble", "Greedy"] = (
        "Auto"
    )
    """Order of forwards and backwards. Auto (the default) replays all and takes the fastest.
    Atlas puts backwards first and warms up as far as memory allows; GeoPipe warms up before each
    boundary between data centres; ZeroBubble and Greedy run weight gradients apart, where a rank
    would wait."""
    recompute: Flag = True
    """Recompute activations in the backward instead of keeping them (default true): slower, and
    far less memory a micro-batch in flight."""
    early_recompute: Flag = False
    """The trainer recomputes while it waits for a gradient, as far as that takes no more memory
    (default false: it begins when the gradient is there)."""
    memory_per_gpu: Size | None = None
    """Memory that a rank may use on each GPU, for example 80Gi; it bounds the micro-batches in
    flight. Absent: no bound."""


class TrainingNetwork(SpecModel):
    """How the job crosses the wide area."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.connections) || type(self.connections) != int"
                f" || self.connections <= (self.enforcement == 'None' ? {NCCL_SOCKETS}"
                f" : {MOST_CONNECTIONS})",
                f"connections must be at most {MOST_CONNECTIONS}, and with enforcement None"
                f" {NCCL_SOCKETS}, which is what NCCL opens at most between two ranks",
            )
        )
    )

    connections: Auto = "auto"
    """TCP connections between two ranks; auto (the default): twice capacity x RTT / window. At most
    512, with enforcement None 64."""
    sharing: Literal["Spatial", "Temporal"] = "Temporal"
    """Temporal (the default): the replicas of a cell send in turns, each over all their paths.
    Spatial: each keeps its own path."""
    borrowed_paths: Flag = False
    """In its turn a flow also uses the paths of its data centre's other stages (default false).
    Set it where what limits a path is a cap on each pair of pods."""
    boundaries: Literal["Scattered", "Replicated"] = "Scattered"
    """What the GPUs of a pod send to the next stage. Scattered (the default): each its part of a
    micro-batch's activations, as Megatron-LM does. Replicated: each all of them, as DeepSpeed
    does, which is parallelism.tensor times as much."""
    sends: Literal["Overlapped", "Blocking"] = "Overlapped"
    """Whether a GPU computes while it sends to a stage of its own data centre. Overlapped (the
    default): as PyTorch's schedules do. Blocking: it waits, as in Megatron-LM's 1F1B and
    DeepSpeed."""
    enforcement: Literal["Sidecar", "None"] = "Sidecar"
    """Sidecar (the default): connections, turns and windows are carried out by a sidecar in each
    pod. None: the trainer's own library opens the connections; no windows."""


class FailurePolicy(SpecModel):
    """What happens when a pod fails."""

    max_restarts: Annotated[Whole, Field(ge=0, le=1000)] = 3
    """Restarts of the whole gang before the job is Failed (default 3)."""
    pod_failure: Literal["RestartGang"] = "RestartGang"
    """RestartGang: all pods are replaced, and training resumes from its checkpoint."""


class GeoTrainingJobSpec(SpecModel):
    """What is to be trained, how it is cut, and where it may run."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.model) || has(self.profileRef)",
                "give profileRef (measured layer times) or model (to estimate them)",
            ),
            rule(
                "type(self.parallelism.data) != int"
                " || self.batch.global % (self.parallelism.data * self.batch.micro) == 0",
                "batch.global must be a multiple of parallelism.data times batch.micro",
            ),
            rule(
                "!has(self.model) || self.parallelism.pipeline <= self.model.layers",
                "parallelism.pipeline must not exceed model.layers: every stage needs a layer",
            ),
            rule(
                "!has(self.parallelism.layersPerStage)"
                " || self.parallelism.layersPerStage.size() == 0"
                " || (self.parallelism.layersPerStage.size() == self.parallelism.pipeline"
                " && (!has(self.model) ||"
                " self.parallelism.layersPerStage.sum() == self.model.layers))",
                _SPLIT,
            ),
            rule(
                "!has(self.model) || !has(self.model.experts) ||"
                " self.model.experts.count % self.parallelism.tensor == 0",
                _EXPERTS,
            ),
            *GPU_RULES,
            rule(
                "self.placement.policy != 'Fixed' || !has(self.placement.stages) ||"
                " self.placement.stages.map(s, s.stages).sum() == self.parallelism.pipeline",
                "the placement's stages must add up to parallelism.pipeline",
            ),
        )
    )

    suspend: Flag = False
    """True releases all pods and holds the job until it is false again (default false)."""
    managed_by: str = Field(
        default="geotrain.io/controller",
        min_length=1,
        max_length=63,
        json_schema_extra=rules(
            rule("self == oldSelf", "managedBy cannot change; delete the job and create it again")
        ),
    )
    """Controller that looks after the job (default geotrain.io/controller). Another value hands it
    to somebody else. Cannot be changed."""
    model: TrainingModel | None = None
    """Shape of the model; costs are estimated from it where no profileRef is given, and sizes where
    the profile holds only times."""
    profile_ref: ProfileRef | None = None
    """Measured layer times, which win over an estimate from model."""
    calibration_ref: CalibrationRef | None = None
    """What training reaches of an accelerator, as geotrain calibrate found it; estimates on that
    accelerator count with it (default: the calibrations that come with geotrain)."""
    parallelism: Parallelism
    """How the model is cut into ranks."""
    batch: Batch
    """How many samples an iteration learns from."""
    placement: TrainingPlacement = TrainingPlacement()
    """Where the job may run."""
    schedule: TrainingSchedule = TrainingSchedule()
    """In which order a rank works."""
    network: TrainingNetwork = TrainingNetwork()
    """How the job crosses the wide area."""
    failure_policy: FailurePolicy = FailurePolicy()
    """What happens when a pod fails."""
    reserve_timeout: PositiveDuration = "5m"
    """How long the gang may wait for all its pods to run once it was let go; then everything is
    taken back and the job waits with the reason (default 5m)."""
    active_deadline: PositiveDuration | None = None
    """The job is Failed when it has run for so long, for example 72h; absent: no limit."""
    ttl_after_finished: Duration | None = None
    """How long a Complete or Failed job is kept before it is deleted; absent: for ever."""
    template: PodTemplate
    """The pod of every rank."""
    overrides: Overrides = ()
    """What differs from the template in some data centres."""


class GeoTrainingJob(Resource):
    """One model trained as a pipeline over several data centres, all pods or none."""

    PLURAL: ClassVar = "geotrainingjobs"
    SHORT: ClassVar = "gtj"
    COLUMNS: ClassVar = (
        Column(name="Phase", path=".status.phase", description="The conditions in one word"),
        Column(name="Placement", path=".status.plan.placement",
               description="Stages by data centre"),
        Column(name="Planned", path=".status.plan.iterationTime",
               description="Planned length of an iteration"),
        Column(name="Measured", path=".status.observed.iterationTime",
               description="Measured length of an iteration"),
        Column(name="Iteration", path=".status.observed.iteration", type="integer",
               description="Last finished iteration"),
        Column(name="Restarts", path=".status.observed.restarts", type="integer",
               description="Gang restarts"),
        reason_column("Plan", "Planned"),
        reason_column("Gang", "Reserved"),
        reason_column("Windows", "WindowsEnforced"),
        AGE,
    )  # fmt: skip
    RULES: ClassVar = (
        rule(
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')"
            " && self.metadata.name.size() <= 52",
            "the name becomes a Service and part of host names: at most 52 lower-case letters,"
            " digits and '-', beginning with a letter",
        ),
    )

    spec: GeoTrainingJobSpec
    """What is to be trained, how it is cut, and where it may run."""
    status: GeoTrainingJobStatus = GeoTrainingJobStatus()
    """What has become of the job."""
