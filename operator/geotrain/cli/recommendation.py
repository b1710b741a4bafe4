"""``geotrain explore -o job``: the best layout that a job can express, as a GeoTrainingJob."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from geotrain.api.labels import API_VERSION
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob
from geotrain.planning.explore.expressible import expressible, foreign
from geotrain.planning.explore.layouts import Layout
from geotrain.planning.explore.search import Allowance, Explorer, Found, whole_space
from geotrain.planning.explore.steps import Problem
from geotrain.units import format_duration

Case = tuple[tuple[str, ...], Problem, Layout]
"""Names of data centres, what is asked of them, and the layout to begin with."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The best that a job can express on some data centres, None where nothing fits.

    ``remarks`` say what it could not take over from the best layout of all.
    """

    found: Found | None
    data_centers: tuple[str, ...] = ()
    remarks: Sequence[str] = field(default_factory=tuple)


def recommend(cases: Sequence[Case], allowance: Allowance) -> Recommendation:
    """Search the layouts that a job can express, and then all others, for what they would gain."""
    within: list[tuple[Found, tuple[str, ...]]] = []
    beyond: list[tuple[Found, Problem]] = []
    for names, asked, given in cases:
        explorer, space = Explorer(asked, given), whole_space(asked, given)
        known = explorer.evaluate(given)
        fits = known.memory <= asked.device.memory and not any(foreign(asked.network, given))
        start = [known] if fits else []
        best = explorer.best(expressible(asked.network, space), allowance, start)
        within += [(found, names) for found in best]
        beyond += [(found, asked) for found in explorer.best(space, allowance, best)]
    found, names = min(within, key=lambda each: each[0].seconds, default=(None, ()))
    return Recommendation(found, names, _remarks(found, beyond, allowance))


def _remarks(
    found: Found | None, beyond: Sequence[tuple[Found, Problem]], allowance: Allowance
) -> tuple[str, ...]:
    remarks = ["the search was stopped before it was complete"] if allowance.ended else []
    if beyond:
        best, asked = min(beyond, key=lambda each: each[0].seconds)
        if found is None or best.seconds < found.seconds:
            parts = ", ".join(foreign(asked.network, best.layout))
            remarks.insert(
                0,
                f"the best layout of all takes {format_duration(best.seconds)} with {parts}, which"
                " no job can say",
            )
    return tuple(remarks)


def manifest(
    job: GeoTrainingJob, centers: Sequence[DataCenter], names: Sequence[str], layout: Layout
) -> dict[str, Any]:
    """The job as it was written, with the layout's degrees on these data centres.

    Everything that the layout says nothing of stays; GPUs of a pod follow the tensor degree.
    """
    written: dict[str, Any] = job.model_dump(by_alias=True, mode="json", exclude_unset=True)
    written.pop("status", None)
    spec, split = written["spec"], layout.degrees
    spec["parallelism"] |= {
        "data": split.data,
        "pipeline": split.pipeline,
        "tensor": split.tensor,
    }
    if split.pipeline != job.spec.parallelism.pipeline:
        spec["parallelism"].pop("layersPerStage", None)
    spec["batch"] = {"global": job.spec.batch.global_, "micro": layout.micro_batch}
    objective = spec.get("placement", {}).get("objective")
    spec["placement"] = {"policy": "Atlas", "dataCenters": list(names)} | (
        {"objective": objective} if objective else {}
    )
    schedule = spec.setdefault("schedule", {})
    schedule["recompute"] = layout.recompute == "full"
    resources = {center.spec.gpu_resource for center in centers if center.name in names}
    for pod in (spec["template"]["spec"]["containers"][0], *spec.get("overrides", ())):
        _ask_for(pod.get("resources") or {}, resources, split.tensor)
    if _changes_costs(job, layout):
        spec.pop("profileRef", None)
    return {"apiVersion": API_VERSION, "kind": job.kind(), **written}


def replaced(job: GeoTrainingJob, layout: Layout) -> Iterator[str]:
    """What ``manifest`` puts something else in place of, besides degrees and recompute."""
    if job.spec.placement.policy == "Fixed":
        yield "placement.stages is left out: geotrain chooses among the data centres"
    cut = job.spec.parallelism
    if cut.layers_per_stage and layout.degrees.pipeline != cut.pipeline:
        yield f"layersPerStage is left out: it has {cut.pipeline} stages"
    reference = job.spec.profile_ref
    if reference is not None and _changes_costs(job, layout):
        yield (
            f"profileRef {reference.name} is left out: its times are of tensor"
            f" {job.spec.parallelism.tensor} and micro-batches of {job.spec.batch.micro}; measure"
            " again"
        )


def _changes_costs(job: GeoTrainingJob, layout: Layout) -> bool:
    """Whether times that were measured for the job say nothing of the layout."""
    measured = job.spec.parallelism.tensor, job.spec.batch.micro
    return measured != (layout.degrees.tensor, layout.micro_batch)


def _ask_for(resources: Mapping[str, Any], names: set[str], count: int) -> None:
    for amounts in (resources.get("limits"), resources.get("requests")):
        for name in names.intersection(amounts or ()):
            amounts[name] = count  # type: ignore[index]
