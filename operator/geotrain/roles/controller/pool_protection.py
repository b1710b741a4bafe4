"""Is training as fast as without prefill? Measured, never assumed.

    stretch = iteration time while prefill computes / iteration time while it does not - 1

Both are smoothed over the samples that the job's status shows. A sample belongs to "busy" where,
since the last look, prefill used a fifth or more of the bubble time that passed, to "quiet" where
it used less than a twentieth; in between it says nothing. The quiet time (the baseline) belongs
to one revision and attempt of the job and is kept as an annotation on the router's ConfigMap, so a
restarted controller goes on with it.

Tolerated is 3 %, or a guard in each iteration where that is more. Less than 3 % could not be told
from the differences that iterations have on their own.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from geotrain.api import labels
from geotrain.api.v1alpha1 import GeoTrainingJob
from geotrain.api.v1alpha1.prefill_pool import BubbleTime
from geotrain.units import Seconds, parse_duration

TOLERATED: Final = 0.03
HELD: Final = 0.10
"""Beyond this stretch the pool takes no requests until it has fallen again."""

_BUSY: Final = 0.20
_QUIET: Final = 0.05
_WEIGHT: Final = 0.3  # of a new sample against all before it


@dataclass(frozen=True, slots=True)
class Baseline:
    """Iteration time without prefill, in seconds; ``gang`` tells for which gang it holds."""

    gang: str
    seconds: Seconds
    sampled: str = ""
    """The observation that was taken in last, so that none counts twice."""

    @classmethod
    def from_text(cls, text: str) -> Self | None:
        """Read the annotation; None where it is missing or somebody changed it."""
        try:
            content = json.loads(text)
            return cls(
                str(content["gang"]), float(content["seconds"]), str(content.get("sampled", ""))
            )
        except (ValueError, KeyError, TypeError):
            return None

    def to_text(self) -> str:
        """Write the annotation."""
        return json.dumps({"gang": self.gang, "seconds": self.seconds, "sampled": self.sampled})


@dataclass(frozen=True, slots=True)
class Protection:
    """What is known of training's pace; ``stretch`` is None without both kinds of samples."""

    baseline: Baseline | None = None
    stretch: float | None = None
    tolerated: float = TOLERATED

    @property
    def is_broken(self) -> bool:
        """Whether training is longer than tolerated."""
        return self.stretch is not None and self.stretch > self.tolerated

    @property
    def holds_back(self) -> bool:
        """Whether the pool must stop for a while."""
        return self.stretch is not None and self.stretch > max(HELD, self.tolerated)


def observe(
    job: GeoTrainingJob,
    before: Protection,
    counted: BubbleTime | None,
    now_counted: BubbleTime | None,
    guard: Seconds,
) -> Protection:
    """Take the job's latest iteration into account.

    ``counted`` are the pool's bubble seconds at the last look, ``now_counted`` those of now.
    """
    iteration, sample = _latest(job)
    gang = f"{job.metadata.uid}/{job.status.revision}/{job.status.attempt or 0}"
    if before.baseline is not None and before.baseline.gang != gang:
        before = Protection()
    if iteration <= 0:
        return replace(before, tolerated=TOLERATED)
    before = replace(before, tolerated=max(TOLERATED, guard / iteration))
    baseline = before.baseline
    share = used_share(counted, now_counted)
    if share is None or (baseline is not None and baseline.sampled == sample):
        return before
    is_quiet, is_busy = share < _QUIET, share >= _BUSY
    stretch = before.stretch
    if baseline is not None and (is_busy or (is_quiet and before.holds_back)):
        stretch = _smooth(stretch, iteration / baseline.seconds - 1)
    if is_quiet:
        seconds = _smooth(baseline.seconds if baseline else None, iteration)
        return replace(before, baseline=Baseline(gang, seconds, sample), stretch=stretch)
    if baseline is not None:
        baseline = replace(baseline, sampled=sample)
    return replace(before, baseline=baseline, stretch=stretch)


def _latest(job: GeoTrainingJob) -> tuple[Seconds, str]:
    """Return the latest iteration's time, 0 without one, and what tells it from earlier ones."""
    seen = job.status.observed
    if seen is None or seen.iteration_time is None:
        return 0.0, ""
    return parse_duration(seen.iteration_time), f"{seen.iteration}@{seen.time}"


def used_share(before: BubbleTime | None, now: BubbleTime | None) -> float | None:
    """Share of the bubble time since the last look that prefill used.

    Where no router answers none was used; None where a router started anew, or no bubble passed.
    """
    if now is None:
        return 0.0
    if before is None:
        return 0.0 if now.used == 0 else None
    offered, used = now.offered - before.offered, now.used - before.used
    if offered < 0 or used < 0:
        return None
    if offered == 0:
        return 0.0 if used == 0 else None
    return used / offered


def baseline_of(config_map: Mapping[str, Any] | None) -> Baseline | None:
    """Read what an earlier look left on the router's ConfigMap."""
    meta = (config_map or {}).get("metadata") or {}
    return Baseline.from_text((meta.get("annotations") or {}).get(labels.BASELINE, ""))


def _smooth(old: float | None, new: float) -> float:
    return new if old is None else old + _WEIGHT * (new - old)
