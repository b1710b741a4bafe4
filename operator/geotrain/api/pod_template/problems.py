"""All that is wrong with the templates of a job or a pool, as sentences that begin with a path."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from geotrain.api.pod_template.baseline import baseline_faults
from geotrain.api.pod_template.faults import Fault, Part, part
from geotrain.api.pod_template.fields import field_faults
from geotrain.api.pod_template.gpus import gpu_fault
from geotrain.api.pod_template.merging import merged, template_in
from geotrain.api.pod_template.owned import Owned, of_job, of_pool, owned_faults
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob, PrefillPool
from geotrain.api.v1alpha1.overrides import TemplateOverride

_KINDS: Final = {
    "env": "[EnvVar]",
    "volumeMounts": "[VolumeMount]",
    "resources": "ResourceRequirements",
    "volumes": "[Volume]",
    "tolerations": "[Toleration]",
}
"""The parts of an override that are Kubernetes's, by their types in core/v1."""


def job_problems(job: GeoTrainingJob) -> list[str]:
    """What is wrong with a job's template and overrides, wherever it would run."""
    spec = job.spec
    owned = of_job(has_sidecar=spec.network.enforcement == "Sidecar")
    return _problems(spec.template.to_manifest(), spec.overrides, owned)


def pool_problems(pool: PrefillPool) -> list[str]:
    """What is wrong with a pool's template and overrides."""
    return _problems(pool.spec.template.to_manifest(), pool.spec.overrides, of_pool())


def _problems(template: Part, overrides: Iterable[TemplateOverride], owned: Owned) -> list[str]:
    foreign, known = list(field_faults(template["spec"])), list(_rule_faults(template, owned))
    found = [each.below("spec.template.") for each in (*foreign, *known)]
    if foreign:  # what is no pod cannot be merged
        return _texts(found)
    for index, override in enumerate(overrides):
        place, written = f"spec.overrides[{index}]", override.to_manifest()
        if wrong := list(_override_faults(template, written, place)):
            found += wrong
            continue
        prefix = f"spec.template with {place} ({override.data_center}): "
        both = _rule_faults(merged(template, written), owned)
        found += [each.below(prefix) for each in both if each not in known]
    return _texts(found)


def center_problems(job: GeoTrainingJob, center: DataCenter) -> list[str]:
    """Why a job's pods cannot be those of a data centre: its kind of GPU, its nodes' labels."""
    template = template_in(job, center.name)
    tensor, found = job.spec.parallelism.tensor, []
    if gpus := gpu_fault(template, center.spec.gpu_resource, tensor):
        found.append(gpus)
    selector = part(template, "spec", "nodeSelector")
    found += [
        f"nodeSelector {key} is {selector[key]!r}, and DataCenter {center.name} has {value!r};"
        " leave it out"
        for key, value in sorted(center.spec.node_selector.items())
        if key in selector and selector[key] != value
    ]
    return found


def unfit_centers(job: GeoTrainingJob, centers: Iterable[DataCenter]) -> dict[str, str]:
    """Those of the data centres that the job could have and its pods are not for, with why."""
    wanted = job.spec.placement.named
    found = {
        center.name: "; ".join(center_problems(job, center))
        for center in centers
        if not wanted or center.name in wanted
    }
    return {name: why for name, why in sorted(found.items()) if why}


def refusal(job: GeoTrainingJob, unfit: Mapping[str, str], centers: int) -> str:
    """Why a job cannot be planned at all with ``unfit`` among so many data centres; '' if it can.

    One that the job does not name is only left out, unless all are.
    """
    is_needed = job.spec.placement.named or len(unfit) == centers
    return joined(unfit) if unfit and is_needed else ""


def joined(reasons: Mapping[str, str]) -> str:
    """Data centres with why not, one sentence for all that share it."""
    names: dict[str, list[str]] = {}
    for name, reason in sorted(reasons.items()):
        names.setdefault(reason, []).append(name)
    return "; ".join(f"{', '.join(where)}: {reason}" for reason, where in names.items())


def unknown_centers(job: GeoTrainingJob, known: Iterable[str]) -> list[str]:
    """Sentences about overrides of data centres that do not exist: they do nothing yet."""
    names = sorted(known)
    return [
        f"spec.overrides[{index}] is for {each.data_center!r}, and there is no such DataCenter;"
        f" known: {', '.join(names) or 'none'}"
        for index, each in enumerate(job.spec.overrides)
        if each.data_center not in names
    ]


def _rule_faults(template: Part, owned: Owned) -> Iterator[Fault]:
    yield from baseline_faults(template)
    yield from owned_faults(template, owned)


def _override_faults(template: Part, override: Part, place: str) -> Iterator[Fault]:
    """Fields that Kubernetes does not know, and containers that the template does not have."""
    for key, kind in _KINDS.items():
        yield from field_faults(override.get(key), kind, f"{place}.{key}")
    first, *rest = [each["name"] for each in template["spec"]["containers"]]
    others = {*rest, *(each.get("name") for each in template["spec"].get("initContainers") or ())}
    for index, container in enumerate(override.get("containers", ())):
        path, name = f"{place}.containers[{index}]", container["name"]
        if name == first:
            right = f"what differs in the first container, {name}, stands in {place} itself"
            yield Fault(f"{path}.name", right)
        elif name not in others:
            yield Fault(f"{path}.name", f"the template has no container {name!r}")
        for key in ("env", "volumeMounts", "resources"):
            yield from field_faults(container.get(key), _KINDS[key], f"{path}.{key}")


def _texts(faults: Iterable[Fault]) -> list[str]:
    return list(dict.fromkeys(map(str, faults)))
