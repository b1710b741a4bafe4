"""What ``plan`` and ``timeline`` ask: the job and the data centres, from files or from the hub."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from geotrain.api.v1alpha1 import GeoTrainingJob
from geotrain.cli import manifests, pods, scope, sources
from geotrain.cli.manifests import Manifests
from geotrain.cli.scope import Scope
from geotrain.cli.unused import Unused, dropped_links
from geotrain.errors import InputError
from geotrain.model import workload
from geotrain.model.topology import Topology
from geotrain.model.workload import Workload
from geotrain.planning.placement.robust import Jitter

CLUSTER: Final = "cluster"
"""Value of --topology that means the hub; a file of that name is ./cluster."""

Files = Annotated[
    list[Path],
    typer.Option(
        "--file", "-f", help="Manifests: the job, its profile's ConfigMap; file, folder or -."
    ),
]
Places = Annotated[
    list[str] | None,
    typer.Option(
        "--topology",
        help="DataCenters and WanLinks: files, or 'cluster' for those of the hub. They may also be"
        " among the files of -f, which go before the hub's.",
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        "--hub-context",
        "--context",
        help="Context of the hub in your kubeconfig; asks the hub like --topology cluster.",
        autocompletion=sources.contexts,
    ),
]
HUB: Final = {**scope.HUB, "context": (Context, None)}
"""The options of commands that ask the hub only where they are told to."""
ProfileFile = Annotated[
    Path | None,
    typer.Option(
        help="Measured layer times, instead of the job's profileRef: geotrain's own form, or"
        " Sailor's or the H200's as published."
    ),
]
CalibrationFile = Annotated[
    Path | None,
    typer.Option(
        help="What training reaches of an accelerator, as geotrain calibrate wrote it, instead of"
        " the job's calibrationRef."
    ),
]
JobName = Annotated[str | None, typer.Option(help="Which job, where the files hold several.")]


class Objective(StrEnum):
    """What the best plan is; ``pareto`` lists all that nobody beats in throughput and price."""

    THROUGHPUT = "throughput"
    COST = "cost"
    PARETO = "pareto"


Wish = Annotated[
    Objective | None,
    typer.Option(help="What the best plan is, instead of the job's objective.", show_default=False),
]
Jittered = Annotated[
    str | None,
    typer.Option(
        metavar="PERCENT",
        help="How much times differ, like 20%: rank by the 95th percentile of replays.",
    ),
]


@dataclass(frozen=True, slots=True)
class Problem:
    """What is to be planned; ``unused`` is what of the files has no part in it."""

    topology: Topology
    workload: Workload
    job: GeoTrainingJob
    unused: Unused = field(default_factory=Unused)


@dataclass(frozen=True, slots=True)
class Given:
    """Where the job and the data centres are to be found, as the options say."""

    files: list[Path]
    places: list[str] | None = None
    hub: Scope = field(default_factory=Scope)


def read(
    given: Given, profile: Path | None, job: str | None, calibration: Path | None = None
) -> Problem:
    """Read what the options name. Raises InputError, or of the hub ClusterError."""
    found, chosen = gather(given, profile, job)
    found = found.with_calibration(calibration)
    fitting, notes = pods.fitting(found, chosen)
    return Problem(
        fitting.topology(chosen),
        fitting.workload(chosen, profile),
        chosen,
        unused(found, notes),
    )


def unused(found: Manifests, notes: Sequence[str] = ()) -> Unused:
    """What of the files has no part in planning, with ``notes`` on more of that."""
    links = dropped_links(found.data_centers, found.links)
    return Unused(links, (*found.remarks, *notes))


def gather(given: Given, profile: Path | None, job: str | None) -> tuple[Manifests, GeoTrainingJob]:
    """The objects that the options name, and the job. Raises like ``read``."""
    wanted = given.places or []
    paths = [*given.files, *(Path(place) for place in wanted if place != CLUSTER)]
    found = manifests.read(paths)
    chosen = found.job(job)
    if given.hub.context is not None or CLUSTER in wanted:
        found = _of_hub(given.hub, found, found.missing_profile(chosen, profile)).below(found)
    if not found.data_centers:
        raise InputError(
            "there is no DataCenter; give --topology a file with them and WanLinks, or"
            " --topology cluster"
        )
    return found, chosen


def wished(asked: Problem, objective: Objective | None) -> Problem:
    """The problem with the objective of the command line."""
    if objective is None:
        return asked
    wanted: workload.Objective = "Cost" if objective == Objective.COST else "Throughput"
    return replace(asked, workload=replace(asked.workload, objective=wanted))


def jitter(text: str | None) -> Jitter | None:
    """Read ``20%``. Raises InputError where it is no share of a time."""
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,2}(?:\.[0-9]{1,6})?)%", text.strip())
    if match is None:
        raise InputError(f"--jitter {text!r} is no share of a time; write one like 20%, below 100%")
    return Jitter(float(match[1]) / 100)


def _of_hub(scope: Scope, found: Manifests, config_map: tuple[str, str] | None) -> Manifests:
    from geotrain.cli import hub  # the Kubernetes client takes half a second to import

    return hub.look(scope, config_map)
