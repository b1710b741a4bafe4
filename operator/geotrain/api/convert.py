"""Between the API and the model: text becomes numbers on the way in, numbers text on the way out.

Reading raises InputError with the field's path and what would be right. Nothing here does I/O.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from geotrain.api import documents, estimate
from geotrain.api.estimate import JobCosts
from geotrain.api.profiles import FASTEST, LayerDocument, PrefillDocument, ProfileDocument
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob, PrefillPool, WanLink
from geotrain.api.v1alpha1.resource import explain
from geotrain.api.v1alpha1.wan_link import MeasuredLink, WanLinkSpec
from geotrain.errors import InputError
from geotrain.model import topology as model
from geotrain.model.plan import Alternative, Flow, Plan, Window
from geotrain.model.workload import LayerCosts, Profile, Workload
from geotrain.planning.costs import accelerators as devices
from geotrain.planning.costs import profiles
from geotrain.planning.costs.connections import MOST_CONNECTIONS, NCCL_SOCKETS
from geotrain.prefill.profile import LayerTime, PrefillProfile
from geotrain.units import (
    BitsPerSecond,
    Seconds,
    format_bytes,
    format_duration,
    parse_bytes,
    parse_duration,
    parse_rate,
)

MOST_ALTERNATIVES: Final = 20
"""Losers kept in a status; the rest are counted by nobody and would only fill etcd."""


LONGEST_ROUND_TRIP: Final[Seconds] = 3600.0
"""An hour: a link that is slower is a slip of the unit."""

TCP_PAYLOAD_SHARE: Final = 1448 / 1514
"""What is left of a link's rate for a TCP payload: a frame of 1,514 bytes spends 14 on Ethernet, 20
on IPv4, 20 on TCP and 12 on its timestamps (RFC 791, 9293, 7323)."""


def document(text: str, what: str) -> Mapping[str, Any]:
    """Read a JSON object. ``what`` names it in the InputError, for example the ConfigMap's key."""
    content = documents.json_document(text, what)
    if not isinstance(content, dict):
        raise InputError(f"{what} must be a JSON object, not {type(content).__name__}")
    return content


def profile(content: Mapping[str, Any]) -> Profile:
    """Read a training profile (profile.json). Raises InputError that names every wrong field."""
    try:
        read = ProfileDocument.model_validate(dict(content), by_alias=True, by_name=False)
    except ValidationError as error:
        raise InputError(f"the profile is wrong: {explain(error, ProfileDocument)}") from error
    return Profile(
        layers=tuple(costs for each in read.layers for costs in [_costs(each)] * each.count),
        boundary=read.boundary_bytes,
        optimizer_step=read.optimizer_step,
        gradient_bytes_per_layer=read.gradient_bytes,
    )


def measured_profile(content: Mapping[str, Any], job: GeoTrainingJob) -> Profile:
    """Read a job's measured layer times, ours or in a form that was published.

    Of Sailor's and the H200's the job's micro-batch and tensor degree are taken, and sizes follow
    from ``spec.model``. Raises InputError where it has none, or the file not that combination.
    """
    read = profiles.reader(content)
    if read is None:
        return profile(content)
    if job.spec.model is None:
        raise InputError(
            "the profile has layer times and no sizes; give spec.model too, from which weights and"
            " activations follow"
        )
    shape, training = estimate.decoder(job), estimate.training(job)
    try:
        return read(content, shape, training, estimate.split_of(job))
    except InputError as error:
        raise InputError(f"the profile is wrong: {error}") from error


def prefill_profile(content: Mapping[str, Any]) -> PrefillProfile:
    """Read a prefill profile (prefill.json). Raises InputError that names every wrong field."""
    try:
        read = PrefillDocument.model_validate(dict(content), by_alias=True, by_name=False)
        points = tuple(LayerTime(p.tokens, p.time) for p in read.layer_times)
        return PrefillProfile(read.layers, points, read.longest_kernel)
    except ValidationError as error:
        said = explain(error, PrefillDocument)
        raise InputError(f"the prefill profile is wrong: {said}") from error
    except ValueError as error:
        raise InputError(f"the prefill profile is wrong: {error}") from error


def estimated_prefill_profile(pool: PrefillPool, accelerators: Sequence[str]) -> PrefillProfile:
    """Prefill times from ``spec.model`` on the slowest accelerator. Raises InputError."""
    shape = pool.spec.model
    if shape is None or shape.layers is None or shape.hidden_size is None:
        raise InputError(
            "spec: give profileRef (measured prefill times) or model.layers and model.hiddenSize"
        )
    one = estimate.slowest_known(accelerators)
    return estimate.prefill_profile(shape.layers, shape.hidden_size, one.peak)


def workload(job: GeoTrainingJob, costs: JobCosts | Profile) -> Workload:
    """The job as the planner sees it; a profile alone serves all data centres.

    Raises InputError where job and profile disagree.
    """
    costs = JobCosts(costs) if isinstance(costs, Profile) else costs
    spec, count = job.spec, len(costs.profile.layers)
    if spec.model is not None and spec.model.layers != count:
        raise InputError(
            f"spec.model.layers is {spec.model.layers}, but the profile describes"
            f" {count} layers; make them agree or leave spec.model out"
        )
    memory = spec.schedule.memory_per_gpu
    try:
        return Workload(
            profile=costs.profile,
            profiles=costs.profiles,
            places=costs.places,
            error=costs.error,
            notes=costs.notes,
            layers=spec.parallelism.layers_per_stage,
            blocking=spec.network.sends == "Blocking",
            pipeline=spec.parallelism.pipeline,
            data=_number(spec.parallelism.data),
            tensor=spec.parallelism.tensor,
            global_batch=spec.batch.global_,
            micro_batch=spec.batch.micro,
            placement=spec.placement.policy,
            allowed=spec.placement.data_centers,
            fixed=tuple((s.data_center, s.stages) for s in spec.placement.stages),
            objective=spec.placement.objective,
            schedule=spec.schedule.policy,
            recompute=spec.schedule.recompute,
            early_recompute=spec.schedule.early_recompute,
            memory_per_gpu=None if memory is None else parse_bytes(memory),
            connections=_number(spec.network.connections),
            most_connections=(
                NCCL_SOCKETS if spec.network.enforcement == "None" else MOST_CONNECTIONS
            ),
            sharing=spec.network.sharing,
            borrowed_paths=spec.network.borrowed_paths,
        )
    except ValueError as error:
        raise InputError(f"spec.parallelism.layersPerStage: {error}") from error


def topology(
    data_centers: Sequence[DataCenter],
    links: Sequence[WanLink],
    free_gpus: Mapping[str, int] | None = None,
) -> model.Topology:
    """Data centres and both directions of every link, in name order.

    ``free_gpus`` are those that the job may take; without it ``status.gpus.free`` counts, and a
    data centre without either has none. Of a link's declared and measured values the worse holds.
    A link that names this very direction goes before the way back of a symmetric one; a link to a
    data centre that is not given is left out. Raises InputError with the link's name.
    """
    free = _status_gpus(data_centers) | dict(free_gpus or {})
    known = sorted(data_centers, key=lambda d: d.name)
    names = {d.name for d in known}
    directions: dict[tuple[str, str], model.WanLink] = {}
    ordered = sorted(links, key=lambda w: w.name)
    for backwards in (False, True):
        for link in ordered:
            if not backwards or link.spec.symmetric:
                one = _direction(link, backwards)
                directions.setdefault((one.source, one.target), one)
    return model.Topology(
        data_centers=tuple(_data_center(d, free[d.name]) for d in known),
        links=tuple(w for ends, w in sorted(directions.items()) if names.issuperset(ends)),
    )


def _data_center(center: DataCenter, gpus: int) -> model.DataCenter:
    name = center.spec.accelerator or ""
    one = devices.known(name)
    name, memory = (one.name, one.memory) if one else (name, None)
    lan = estimate.lan(center.spec.network)
    return model.DataCenter(center.name, gpus, center.spec.cost_per_gpu_hour, name, memory, lan)


def plan_status(plan: Plan, left_out: Sequence[Mapping[str, str]] = ()) -> dict[str, Any]:
    """``status.plan`` of a GeoTrainingJob; ``left_out`` are its data centres without part in it."""
    links = [
        {
            "from": source,
            "to": target,
            "connections": plan.connections.get((source, target), 1),
            "bytesPerIteration": format_bytes(size),
        }
        for (source, target), size in sorted(plan.wan_bytes.items())
    ]
    losers = [a for a in plan.alternatives if a.why]
    error = {}
    if plan.error is not None:
        median, p90 = plan.error
        error = {"error": {"median": _rounded(median), "p90": _rounded(p90)}}
    return {
        "placement": segments_text(plan.placement.segments),
        "stages": _segments(plan),
        "data": plan.placement.data,
        "pipeline": plan.placement.stages,
        "tensor": plan.tensor,
        "microBatches": plan.micro_batches,
        "schedule": plan.schedule,
        "iterationTime": format_duration(plan.iteration),
        "samplesPerSecond": _rounded(_samples_per_second(plan)),
        "gpuUse": _rounded(plan.gpu_use),
        "bubbleShare": _rounded(plan.bubble_share),
        **error,
        "links": links,
        "pricePerIteration": _rounded(plan.price_per_iteration),
        "alternatives": [_alternative(a) for a in losers[:MOST_ALTERNATIVES]],
        "leftOut": list(left_out),
        "notes": list(plan.notes),
    }


def bandwidth_schedule(plan: Plan, data_center: str, job: str, revision: str) -> dict[str, Any]:
    """The spec of a BandwidthSchedule: what the job's ranks in ``data_center`` may send when."""
    flows = [f for f in plan.flows if f.source_data_center == data_center]
    ids = {f.id for f in flows}
    windows = sorted(
        (w for w in plan.windows if w.flow in ids and _window_length(w)),
        key=lambda w: (w.offset, w.flow),
    )
    return {
        "job": job,
        "dataCenter": data_center,
        "revision": revision,
        "period": _exact(plan.iteration),
        "flows": [_flow(f) for f in flows],
        "windows": [_window(w) for w in windows],
    }


def segments_text(segments: Sequence[tuple[str, int]]) -> str:
    """A placement as people read it: ``dc-west:2 dc-central:4``."""
    return " ".join(f"{name}:{stages}" for name, stages in segments)


def _costs(layer: LayerDocument) -> LayerCosts:
    return LayerCosts(
        forward=layer.forward,
        input_gradient=layer.input_gradient,
        weight_gradient=layer.weight_gradient,
        activation=layer.activation_bytes,
        parameters=layer.parameter_bytes,
        recompute=layer.recompute,
        step=layer.optimizer_step,
        gradients=layer.gradient_bytes,
    )


def _number(value: int | str) -> int | None:
    return value if isinstance(value, int) else None


def _status_gpus(data_centers: Sequence[DataCenter]) -> dict[str, int]:
    return {d.name: d.status.gpus.free if d.status.gpus else 0 for d in data_centers}


def _direction(link: WanLink, backwards: bool) -> model.WanLink:
    spec = link.spec
    ends = (spec.target, spec.source) if backwards else (spec.source, spec.target)
    try:
        return _link(ends, spec, link.status.measured)
    except ValueError as error:
        raise InputError(f"WanLink {link.name}: {error}") from error


def _link(ends: tuple[str, str], spec: WanLinkSpec, measured: MeasuredLink | None) -> model.WanLink:
    seen = measured or MeasuredLink.model_construct()
    round_trip = max(_durations(spec.round_trip_time, seen.round_trip_time))
    windows = [] if spec.tcp_window is None else [parse_bytes(spec.tcp_window)]
    # What one connection was seen to carry is a window, whoever bounds it.
    windows += [round(r * round_trip / 8) for r in _rates(seen.connection_rate)]
    capacity = min(_rates(spec.capacity, seen.capacity))
    if round_trip > LONGEST_ROUND_TRIP:
        raise ValueError(f"a round trip of {format_duration(round_trip)} is more than an hour")
    if capacity > FASTEST:
        raise ValueError(f"a capacity of {capacity:g} bit/s is more than 1000P; check its unit")
    if capacity * spec.reservable < 1:
        raise ValueError("capacity times reservable must be at least 1 bit/s")
    return model.WanLink(
        source=ends[0],
        target=ends[1],
        capacity=capacity,
        round_trip=round_trip,
        window=min(windows, default=None),
        per_pod_capacity=min(_rates(spec.per_pod_capacity, seen.per_pod_capacity), default=None),
        cost_per_gigabyte=spec.cost_per_gigabyte,
        reservable=spec.reservable,
        efficiency=TCP_PAYLOAD_SHARE,
        message_rates=_message_rates(spec),
    )


def _message_rates(spec: WanLinkSpec) -> model.MessageRates | None:
    if not spec.message_rates:
        return None
    return model.MessageRates(
        tuple(float(parse_bytes(point.size)) for point in spec.message_rates),
        tuple(parse_rate(point.rate) for point in spec.message_rates),
    )


def _rates(*texts: str | None) -> list[BitsPerSecond]:
    return [parse_rate(text) for text in texts if text is not None]


def _durations(*texts: str | None) -> list[Seconds]:
    return [parse_duration(text) for text in texts if text is not None]


def _segments(plan: Plan) -> list[dict[str, Any]]:
    result = []
    first = 0
    for name, stages in plan.placement.segments:
        ranks = stages * plan.placement.data
        result.append(
            {
                "dataCenter": name,
                "firstStage": first,
                "stages": stages,
                "ranks": ranks,
                "gpus": ranks * plan.tensor,
            }
        )
        first += stages
    return result


def _samples_per_second(plan: Plan) -> float:
    winner = next((a for a in plan.alternatives if not a.why), None)
    if winner is None or winner.samples_per_second is None:
        return 0.0
    return winner.samples_per_second


def _alternative(one: Alternative) -> dict[str, Any]:
    optional = {
        "iterationTime": None if one.iteration is None else format_duration(one.iteration),
        "samplesPerSecond": _rounded(one.samples_per_second),
        "pricePerIteration": _rounded(one.price_per_iteration),
    }
    return {
        "placement": segments_text(one.segments),
        "data": one.data,
        "schedule": one.schedule,
        **{key: value for key, value in optional.items() if value is not None},
        "why": one.why,
    }


def _rounded(value: float | None) -> float | None:
    """Four significant digits: enough for people, and small differences write no new status."""
    return None if value is None else float(f"{value:.4g}")


def _flow(flow: Flow) -> dict[str, Any]:
    return {
        "id": flow.id,
        "source": flow.source,
        "target": flow.target,
        "targetDataCenter": flow.target_data_center,
        "mates": list(flow.mates),
        "connections": flow.connections,
        "rate": str(round(flow.rate)),
        "idleRate": str(round(flow.idle_rate)),
    }


def _window(window: Window) -> dict[str, Any]:
    return {
        "flow": window.flow,
        "offset": _exact(window.offset),
        "length": _text(_window_length(window)),
        "rate": str(round(window.rate)),
    }


def _window_length(window: Window) -> int:
    """Microseconds between the rounded ends: rounded by itself, it could reach into the next."""
    return _microseconds(window.offset + window.length) - _microseconds(window.offset)


def _exact(time: Seconds) -> str:
    """A duration without rounding to readable digits: windows must not drift apart."""
    return _text(_microseconds(time))


def _text(microseconds: int) -> str:
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{seconds}.{rest:06}s" if seconds else f"{rest / 1000:g}ms"


def _microseconds(time: Seconds) -> int:
    return round(time * 1e6)
