"""Measured profiles of a job: one for all data centres, or one for each accelerator and degree.

    {"profiles": [{"accelerator": "H100", "tensor": 8, "microBatch": 1, "profile": {...}},
                  {"accelerator": "A100", "tensor": 8, "profile": {...}}]}

Each ``profile`` is geotrain's own form, or Sailor's or the H200's as published. An entry that names
a tensor degree or a micro-batch is for jobs that have it; one without an accelerator serves the
data centres that no other is for. A file without ``profiles`` is one profile that serves all.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, ValidationError

from geotrain.api import convert
from geotrain.api.estimate import JobCosts
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob
from geotrain.api.v1alpha1.fields import Positive, SpecModel
from geotrain.api.v1alpha1.resource import explain
from geotrain.errors import InputError
from geotrain.model.workload import Profile
from geotrain.planning.costs import accelerators


class ProfileEntry(SpecModel):
    """A profile and what it was measured with."""

    accelerator: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """What it was measured on (default: it serves whatever no other entry is for)."""
    tensor: Positive | None = None
    """Tensor degree (default: any)."""
    micro_batch: Positive | None = None
    """Samples of a micro-batch (default: any)."""
    profile: dict[str, Any]
    """The profile in any form."""

    def fits(self, job: GeoTrainingJob) -> bool:
        """Whether it was measured as the job runs."""
        asked = job.spec.parallelism.tensor, job.spec.batch.micro
        given = self.tensor, self.micro_batch
        return all(mine in (None, theirs) for mine, theirs in zip(given, asked, strict=True))


class ProfileSet(SpecModel):
    """Profiles of one model."""

    profiles: tuple[ProfileEntry, ...] = Field(min_length=1, max_length=256)
    """The profiles."""


def costs(
    content: Mapping[str, Any], job: GeoTrainingJob, centers: Sequence[DataCenter]
) -> JobCosts:
    """A job's costs of a file. Raises InputError that says what is wrong or was not measured."""
    if "profiles" not in content:
        return JobCosts(convert.measured_profile(content, job))
    try:
        read = ProfileSet.model_validate(dict(content))
    except ValidationError as error:
        raise InputError(f"the profiles are wrong: {explain(error)}") from error
    fitting = [entry for entry in read.profiles if entry.fits(job)]
    if not fitting:
        raise InputError(
            f"no profile was measured with tensor degree {job.spec.parallelism.tensor} and"
            f" micro-batch {job.spec.batch.micro}; there are {_listed(read.profiles)}"
        )
    found = {
        name: convert.measured_profile(entry.profile, job)
        for name, entry in _serving(fitting, job, centers).items()
    }
    return _costs(found)


def _serving(
    fitting: Sequence[ProfileEntry], job: GeoTrainingJob, centers: Sequence[DataCenter]
) -> dict[str, ProfileEntry]:
    """The entry that is for each data centre's accelerator."""
    by_kind: dict[str, ProfileEntry] = {}
    for entry in fitting:
        by_kind.setdefault(_kind(entry.accelerator), entry)
    allowed = job.spec.placement.named
    kinds = {_kind(d.spec.accelerator) for d in centers if not allowed or d.name in allowed}
    lacking = sorted(kind for kind in kinds if kind not in by_kind)
    if lacking and "" not in by_kind:
        raise InputError(
            f"no profile was measured on {', '.join(kind or 'an unnamed one' for kind in lacking)};"
            f" there are {_listed(fitting)}"
        )
    return {kind: by_kind.get(kind, by_kind.get("", fitting[0])) for kind in sorted(kinds)}


def _costs(found: Mapping[str, Profile]) -> JobCosts:
    usual = found.get("", next(iter(found.values())))
    apart = tuple((kind, each) for kind, each in found.items() if kind)
    return JobCosts(usual, apart if len(set(found.values())) > 1 else ())


def _kind(name: str | None) -> str:
    """An accelerator's name as topologies have it; '' where none is given."""
    if not name:
        return ""
    one = accelerators.known(name)
    return one.name if one else name


def _listed(entries: Sequence[ProfileEntry]) -> str:
    return "; ".join(
        f"{entry.accelerator or 'any accelerator'}, tensor {entry.tensor or 'any'},"
        f" micro-batch {entry.micro_batch or 'any'}"
        for entry in entries[:20]
    )
