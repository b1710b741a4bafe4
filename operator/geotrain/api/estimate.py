"""A job's costs, data centre by data centre, estimated from its model's shape.

``planning.costs`` says what a layer of a decoder takes; here a job's fields become its shape, how
it is trained and what a tensor group exchanges over. Whoever prices a job (plan, explore, costs,
the controller) asks here, so that one layout has one price.

What the job leaves out is what is usual: heads 128 wide, fused attention, a feed-forward part of
four times the width. A data centre whose accelerator is not known is refused; one that names none
counts as the slowest of the others, and the plan says so.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from geotrain.api import calibrations
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob
from geotrain.api.v1alpha1.data_center import DataCenterNetwork
from geotrain.api.v1alpha1.geo_training_job import TrainingModel
from geotrain.errors import InputError
from geotrain.model.topology import USUAL_LAN, Lan
from geotrain.model.workload import Profile
from geotrain.planning.costs import accelerators, layers, memory, shapes
from geotrain.planning.costs.accelerators import ACCELERATORS, Accelerator
from geotrain.planning.costs.calibrations import Calibration, Device, Node
from geotrain.planning.costs.layers import Split, Training
from geotrain.planning.costs.memory import Sharing
from geotrain.planning.costs.tiers import Constant, Tier
from geotrain.prefill.profile import LayerTime, PrefillProfile
from geotrain.units import parse_duration, parse_rate

EFFICIENCY: Final = 0.6
"""Share of the peak that a prefill's matrix products reach. Measured on an H200 with PyTorch 2.11:
0.70 for layers of width 4096 and 8192 at 4,096 tokens; the rest is caution."""

DTYPE_BYTES: Final = {"bfloat16": 2, "float16": 2, "float32": 4}
HEAD_WIDTH: Final = 128
MOST_POD_GPUS: Final = 64
"""As parallelism.tensor allows."""
_PREFILL_TOKENS: Final = (128, 512, 2048, 8192, 32768)


@dataclass(frozen=True, slots=True)
class JobCosts:
    """Costs of a job's layers: everywhere, by accelerator, and by data centre.

    ``error`` is the median and the 90th percentile of what such estimates were off; ``notes`` say
    what was assumed.
    """

    profile: Profile
    profiles: tuple[tuple[str, Profile], ...] = ()
    places: tuple[tuple[str, Profile], ...] = ()
    error: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """What a data centre offers a tensor group."""

    name: str
    device: Device
    node: Node


def estimated(
    job: GeoTrainingJob, centers: Sequence[DataCenter], calibration: Calibration | None = None
) -> JobCosts:
    """Costs from ``spec.model`` in each data centre that the job may use.

    Raises InputError where the job has no model, an accelerator is not known, or the calibration is
    of none of them.
    """
    found = places(job, centers, calibration)
    shape, trained, split = decoder(job), training(job), split_of(job)
    costs = {
        place.name: layers.profile(
            shape,
            place.device,
            trained,
            split,
            layers.inside(place.node, job.spec.parallelism.tensor),
        )
        for place in found
    }
    kinds: dict[str, Profile] = {}
    for place in found:
        kinds.setdefault(place.device.accelerator.name, costs[place.name])
    apart = tuple(
        (place.name, costs[place.name])
        for place in found
        if costs[place.name] != kinds[place.device.accelerator.name]
    )
    usual = slowest(found)
    return JobCosts(
        kinds[usual.device.accelerator.name],
        tuple(sorted(kinds.items())) if len(kinds) > 1 else (),
        apart,
        _error(found),
        tuple(_notes(centers, found, usual)),
    )


def places(
    job: GeoTrainingJob, centers: Sequence[DataCenter], calibration: Calibration | None = None
) -> tuple[Place, ...]:
    """The data centres that the job may use and that name their accelerator, in name order.

    Raises InputError like ``estimated``.
    """
    allowed = job.spec.placement.named
    usable = [each for each in centers if not allowed or each.name in allowed]
    named = [each for each in sorted(usable, key=lambda d: d.name) if each.spec.accelerator]
    if not named:
        raise InputError(
            "layer times cannot be estimated: no data centre names its accelerator; set"
            f" spec.accelerator to one of {', '.join(ACCELERATORS)}, or give a profileRef with"
            " measured times"
        )
    tensor = job.spec.parallelism.tensor
    found = tuple(_place(each, tensor, calibration) for each in named)
    kinds = {place.device.accelerator.name for place in found}
    if calibration is not None and calibration.accelerator not in kinds:
        raise InputError(
            f"the calibration is of {calibration.accelerator}, and the data centres have"
            f" {', '.join(sorted(kinds))}; leave it out, or give one of these"
        )
    return found


def _place(center: DataCenter, tensor: int, calibration: Calibration | None) -> Place:
    one = accelerator(center)
    device = calibrations.device(one, calibration)
    return Place(center.name, device, node(device, center.spec.network, tensor))


def accelerator(center: DataCenter) -> Accelerator:
    """What a data centre's accelerator is. Raises InputError where nobody knows it."""
    name = center.spec.accelerator or ""
    try:
        return accelerators.named(name, f"DataCenter {center.name}, spec.accelerator")
    except InputError as error:
        raise InputError(
            f"layer times cannot be estimated: {error}. Or give a profileRef with measured times"
        ) from error


def node(device: Device, network: DataCenterNetwork, tensor: int) -> Node:
    """What a tensor group of a data centre exchanges over."""
    gpus, rates = network.node_gpus or device.calibration.node, device.calibration.link_rates
    if network.node_rate is not None:
        near = Tier(Constant(parse_rate(network.node_rate)))
    else:
        near = Tier(rates or Constant(device.accelerator.link))
    reached = lan(network)
    return Node(gpus, near, Tier(Constant(reached.pod_rate(min(gpus, tensor))), reached.latency))


def lan(network: DataCenterNetwork) -> Lan:
    """What pods of a data centre reach of each other."""
    own = None if network.gpu_rate is None else parse_rate(network.gpu_rate)
    if network.pod_rate is not None:
        pod = parse_rate(network.pod_rate)
    else:
        pod = USUAL_LAN.rate if own is None else MOST_POD_GPUS * own
    return Lan(pod, parse_duration(network.latency), own)


def slowest(found: Sequence[Place]) -> Place:
    """The one whose large matrix products are slowest."""
    return min(found, key=lambda place: (place.device.operations, place.name))


def _error(found: Sequence[Place]) -> tuple[float, float] | None:
    """The largest error bars of the accelerators; None where one has none."""
    known = [place.device.calibration.residual for place in found]
    residuals = [each for each in known if each is not None]
    if len(residuals) < len(known):
        return None
    return max(each.median for each in residuals), max(each.p90 for each in residuals)


def _notes(centers: Sequence[DataCenter], found: Sequence[Place], usual: Place) -> Iterator[str]:
    nameless = sorted(each.name for each in centers if not each.spec.accelerator)
    if nameless:
        yield (
            f"{', '.join(nameless)} names no accelerator and counts as"
            f" {usual.device.accelerator.name}, the slowest of the others; set spec.accelerator"
        )
    borrowed = {
        place.device.accelerator.name: place.device.calibration.accelerator
        for place in found
        if place.device.calibration.accelerator != place.device.accelerator.name
    }
    for name, measured in sorted(borrowed.items()):
        yield f"times on {name} are estimated with what was measured on {measured}, error unknown"


def _model(job: GeoTrainingJob) -> TrainingModel:
    if job.spec.model is None:
        raise InputError("spec: give profileRef (measured layer times) or model (to estimate them)")
    return job.spec.model


def decoder(job: GeoTrainingJob) -> shapes.Shape:
    """The shape of ``spec.model``. Raises InputError where there is none, or it is impossible."""
    model = _model(job)
    experts, tensor = model.experts, job.spec.parallelism.tensor
    if experts is not None and experts.count % tensor:
        raise InputError(
            f"spec.model.experts.count is {experts.count}: it must be a multiple of"
            f" parallelism.tensor, {tensor}, whose GPUs share the experts"
        )
    gated = model.gated
    if gated is None:
        gated = model.feed_forward is not None or experts is not None
    return shapes.Shape(
        layers=model.layers,
        hidden=model.hidden_size,
        heads=model.heads or max(1, model.hidden_size // HEAD_WIDTH),
        sequence=model.sequence_length,
        vocabulary=model.vocabulary_size,
        micro_batch=job.spec.batch.micro,
        value_bytes=DTYPE_BYTES[model.parameter_dtype],
        feed_forward=model.feed_forward or 0,
        kv_heads=model.key_value_heads or 0,
        gated=gated,
        fused=model.attention == "Fused",
        experts=None
        if experts is None
        else shapes.Experts(experts.count, experts.per_token, experts.feed_forward, experts.shared),
        tied=model.tied_embeddings,
    )


def training(job: GeoTrainingJob) -> Training:
    """How ``spec.model`` is trained; a plan adds the recompute. Raises InputError without one."""
    model, network = _model(job), job.spec.network
    is_single = DTYPE_BYTES[model.parameter_dtype] == memory.SINGLE.weight
    state = memory.SINGLE if is_single else memory.MIXED
    if model.gradient_bytes is not None:
        state = replace(state, gradient=float(model.gradient_bytes))
    if model.optimizer_bytes is not None:
        state = replace(state, optimizer=float(model.optimizer_bytes))
    return Training(
        sequence_parallel=job.spec.parallelism.sequence_parallel,
        state=state,
        replicated=network.boundaries == "Replicated",
        blocking=network.sends == "Blocking",
    )


def split_of(job: GeoTrainingJob) -> Split:
    """Among how many devices the job divides a layer."""
    spec = job.spec.parallelism
    return Split(Sharing(tensor=spec.tensor), spec.pipeline)


def prefill_profile(count: int, hidden: int, peak: float) -> PrefillProfile:
    """Prefill times of a model on one GPU."""
    times = (
        (n, (24.0 * n * hidden**2 + 2.0 * n**2 * hidden) / (peak * EFFICIENCY))
        for n in _PREFILL_TOKENS
    )
    return PrefillProfile(count, tuple(LayerTime(n, t) for n, t in times))


def slowest_known(named: Sequence[str]) -> Accelerator:
    """The slowest of the accelerators that data centres name. Raises InputError on unknown ones."""
    if not named:
        raise InputError(
            "times cannot be estimated: no data centre names its accelerator; set spec.accelerator"
            f" to one of {', '.join(ACCELERATORS)}, or give a profileRef with measured times"
        )
    found = [accelerators.named(name, "times cannot be estimated") for name in named]
    return min(found, key=lambda one: (calibrations.usual(one).operations, one.name))
