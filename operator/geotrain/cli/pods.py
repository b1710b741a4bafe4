"""The pods of a job in each data centre: checked before it is planned, and shown with the plan."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from geotrain.api.pod_template import (
    differences,
    job_problems,
    refusal,
    template_in,
    unfit_centers,
    unknown_centers,
)
from geotrain.api.v1alpha1 import GeoTrainingJob
from geotrain.cli.manifests import Manifests
from geotrain.cli.tables import Block, table
from geotrain.errors import InputError
from geotrain.model.plan import Plan

if TYPE_CHECKING:
    from geotrain.cli.problem import Problem


def fitting(found: Manifests, job: GeoTrainingJob) -> tuple[Manifests, tuple[str, ...]]:
    """The objects without the data centres that the job's pods are not for, and notes on that.

    Raises InputError where the pods may not be, or a data centre that the job names is one of them.
    """
    if problems := job_problems(job):
        raise InputError(f"GeoTrainingJob {job.name}: {'; '.join(problems)}")
    unfit = unfit_centers(job, found.data_centers)
    if said := refusal(job, unfit, len(found.data_centers)):
        raise InputError(f"GeoTrainingJob {job.name}: {said}")
    notes = [f"{name} is left out: {why}" for name, why in unfit.items()]
    notes += unknown_centers(job, (center.name for center in found.data_centers))
    kept = tuple(center for center in found.data_centers if center.name not in unfit)
    return replace(found, data_centers=kept), tuple(notes)


def tables(asked: "Problem", plan: Plan) -> Iterator[Block]:
    """Each data centre's image and what differs there, where anything does."""
    if asked.job.spec.overrides:
        shown = table("Pods", "data centre", "image", "what differs from the template")
        for each in _pods(asked.job, plan):
            first, *more = [f"{d['path']}={_text(d['value'])}" for d in each["differs"]] or [""]
            shown.add(each["dataCenter"], each["image"], first)
            for line in more:
                shown.add("", "", line)
        yield shown


def document(asked: "Problem", plan: Plan) -> dict[str, Any]:
    """The same for programs."""
    return {"pods": _pods(asked.job, plan)}


def _pods(job: GeoTrainingJob, plan: Plan) -> list[dict[str, Any]]:
    plain = job.spec.template.to_manifest()
    return [
        {
            "dataCenter": name,
            "image": template["spec"]["containers"][0]["image"],
            "differs": [
                {"path": path, "value": value}
                for path, value in differences(plain, template).items()
            ],
        }
        for name, _ in plan.placement.segments
        for template in [template_in(job, name)]
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
