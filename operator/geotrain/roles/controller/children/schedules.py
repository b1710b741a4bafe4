"""BandwidthSchedules: the plan's windows for people and other tools, one a data centre."""

from geotrain.api import convert, labels
from geotrain.roles.controller.children.gang import Gang, owner
from geotrain.roles.controller.decision import Manifest


def bandwidth_schedules(gang: Gang) -> tuple[Manifest, ...]:
    """The schedules of all data centres, on the hub, owned by the job."""
    return tuple(_schedule(gang, name) for name in gang.data_centers)


def _schedule(gang: Gang, data_center: str) -> Manifest:
    meta = gang.metadata(f"{gang.name}-{data_center}")
    return {
        "apiVersion": labels.API_VERSION,
        "kind": "BandwidthSchedule",
        "metadata": {**meta, "ownerReferences": [owner(gang.job)]},
        "spec": convert.bandwidth_schedule(
            gang.plan, data_center, gang.name, gang.planned.revision
        ),
    }
