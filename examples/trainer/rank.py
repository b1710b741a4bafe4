"""One rank's life: read the plan, meet the others, resume, train, part."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import torch

from geotrain.progress import Progress

from .accelerator import device_for_rank
from .checkpoints import Checkpoints
from .engine import Engine, Job
from .model import Shape
from .profile import ProfileError, StageProfile, stage_profile
from .rendezvous import Rendezvous
from .reports import Reports, Trace
from .schedule import Schedule, ScheduleError, one_f_one_b
from .settings import Place
from .stage import Stage
from .transport import Transport

_PROFILE = "/etc/geotrain/profile.json"


def train(
    place: Place,
    shape: Shape,
    options: argparse.Namespace,
    reports: Reports,
    is_stopping: Callable[[], bool],
) -> None:
    """Train up to ``options.iterations``, from the newest checkpoint that all ranks have."""
    schedule, profile = _schedule(place), _profile(options, place)
    backend = options.backend
    if backend == "auto":
        backend = "nccl" if torch.cuda.is_available() else "gloo"
    device = "cuda" if backend == "nccl" else "cpu"
    stage = Stage(place, shape, device)
    checkpoints = Checkpoints(options.checkpoint_dir, place) if options.checkpoint_dir else None

    rendezvous = Rendezvous(place, options.timeout)
    rendezvous.join(backend)
    transport = Transport(place, backend, device)
    first = rendezvous.agree(checkpoints.iterations() if checkpoints else ())
    if checkpoints and first:
        stage.restore(checkpoints.load(first))

    progress = Progress.from_environment()
    job = Job(
        place=place,
        schedule=schedule,
        shape=shape,
        stage=stage,
        transport=transport,
        device=device_for_rank(),
        progress=progress,
        profile=profile,
        trace=Trace(options.trace, place.rank) if options.trace else None,
        ahead=options.receives_ahead,
    )
    engine = Engine(job, first, options.iterations, is_stopping)
    ended = time.monotonic()
    for number in range(first, options.iterations):
        loss = engine.run(number)
        # Stage 0 begins the next iteration at once: this is also the time between its starts.
        began, ended = ended, time.monotonic()
        _report(place, reports, progress, number, (ended - began, loss))
        if checkpoints and (number + 1) % options.checkpoint_every == 0:
            checkpoints.save(number + 1, stage.state())
    engine.close()
    progress.done()
    rendezvous.part(is_stopping)


def _report(
    place: Place, reports: Reports, progress: Progress, number: int, result: tuple[float, float]
) -> None:
    """Tell the sidecar, and write the line that this rank owes."""
    seconds, loss = result
    progress.finished(number, seconds, loss if place.is_last else None)
    if place.is_last:
        reports.write(iteration=number, seconds=seconds, loss=loss)
    elif place.rank == 0:
        reports.write(iteration=number, seconds=seconds)


def _schedule(place: Place) -> Schedule:
    if place.schedule is None:
        text = one_f_one_b(place.stages, place.micro_batches)
    else:
        try:
            text = Path(place.schedule).read_text(encoding="utf-8")
        except OSError as error:
            raise ScheduleError(f"the schedule cannot be read: {error}") from error
    schedule = Schedule.from_csv(text.splitlines(), place.micro_batches)
    if len(schedule.rows) != place.stages:
        raise ScheduleError(f"the schedule has {len(schedule.rows)} rows for {place.stages} stages")
    return schedule


def _profile(options: argparse.Namespace, place: Place) -> StageProfile | None:
    if options.profile is None and not Path(_PROFILE).exists():
        return None
    try:
        text = Path(options.profile or _PROFILE).read_text(encoding="utf-8")
    except OSError as error:
        raise ProfileError(f"the profile cannot be read: {error}") from error
    return stage_profile(text, place)
