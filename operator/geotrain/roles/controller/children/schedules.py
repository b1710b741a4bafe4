"""BandwidthSchedules: the plan's windows for people and other tools, one a data centre."""

from geotrain.api import convert, labels
from geotrain.roles.controller.children.gang import Gang, owner
from geotrain.roles.controller.decision import Manifest


def bandwidth_schedules(gang: Gang) -> tuple[Manifest, ...]:
    """The schedules of all data centres, on the hub, owned by the job."""
    return tuple(_schedule(gang, name) for name in gang.data_centers)


def _schedule(gang: Gang, data_center: str) -> Manifest:
    name = schedule_name(gang.name, data_center)
    meta = gang.metadata(name, **{labels.DATA_CENTER: data_center})
    return {
        "apiVersion": labels.API_VERSION,
        "kind": "BandwidthSchedule",
        "metadata": {
            **meta,
            "ownerReferences": [owner(gang.job)],
            # What it reserves is given back by us alone, when the job's last pod has gone.
            "finalizers": [labels.FINALIZER],
        },
        "spec": convert.bandwidth_schedule(
            gang.plan, data_center, gang.name, gang.planned.revision
        ),
    }


def schedule_name(job: str, data_center: str) -> str:
    """The BandwidthSchedule of a job's part."""
    return f"{job}.{data_center}"
