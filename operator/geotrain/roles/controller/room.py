"""How many GPUs a job may plan with in each data centre: what is free, in whole pods. Pure.

A data centre with 8 free GPUs on eight nodes holds no pod of 2 GPUs, so free GPUs are counted as
the pods that fit times the GPUs of one. The job's own pods count as room, for they would go first.
"""

from collections.abc import Mapping

from geotrain.api import labels
from geotrain.api.facts import pod_from_manifest
from geotrain.api.pod_template import template_in
from geotrain.api.v1alpha1 import DataCenter, GeoTrainingJob
from geotrain.fitting import Misfit, PodFacts, fits
from geotrain.fitting.gang import with_promised
from geotrain.fitting.whatif import slots
from geotrain.roles.controller.children.pods import SIDECAR_RESOURCES
from geotrain.roles.controller.decision import Manifest
from geotrain.roles.controller.observed import Member


def free_gpus(job: GeoTrainingJob, members: Mapping[str, Member]) -> dict[str, int]:
    """GPUs that the job could take, by data centre; those that cannot be seen are left out."""
    return {name: _in_member(job, member) for name, member in members.items() if member.reachable}


def shortages(job: GeoTrainingJob, members: Mapping[str, Member]) -> list[str]:
    """What data centres lack in which not one pod of the job fits, for whatever reason."""
    told: list[str] = []
    for _, member in sorted(members.items()):
        answer = fits(member.occupancy, [prototype(job, member.data_center)])
        told += [r.sentence for r in answer.reasons] if isinstance(answer, Misfit) else []
    return told


def prototype(job: GeoTrainingJob, data_center: DataCenter) -> PodFacts:
    """A rank of the job as the scheduler would see it in a data centre."""
    spec = template_in(job, data_center.name)["spec"]
    selector = {**(spec.get("nodeSelector") or {}), **data_center.spec.node_selector}
    selector[labels.DATA_CENTER] = data_center.name
    helpers = list(spec.get("initContainers") or ())
    if job.spec.network.enforcement == "Sidecar":
        helpers.insert(0, {"restartPolicy": "Always", "resources": SIDECAR_RESOURCES})
    manifest: Manifest = {
        "metadata": {"name": "", "namespace": job.namespace},
        "spec": {**spec, "nodeSelector": selector, "initContainers": helpers},
    }
    return pod_from_manifest(manifest)


def _in_member(job: GeoTrainingJob, member: Member) -> int:
    one = prototype(job, member.data_center)
    own = {(job.namespace, m["metadata"]["name"]) for m in member.owned if m["kind"] == "Pod"}
    whatif = with_promised(member.occupancy, own)
    fitting = sum(slots(whatif.free(node), one) for node in whatif.usable(one))
    return (fitting + _placed(member)) * job.spec.parallelism.tensor


def _placed(member: Member) -> int:
    """The job's own pods that hold room in the data centre now."""
    held = 0
    for manifest in member.owned:
        if manifest["kind"] != "Pod":
            continue
        pod = pod_from_manifest(manifest)
        known = member.occupancy.pod(pod.key)
        here = pod.data_center == member.name
        held += here and known is not None and bool(known.node) and not known.ended
    return held
