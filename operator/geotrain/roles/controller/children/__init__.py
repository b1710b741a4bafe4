"""What a job has in its members and on the hub, as manifests. Pure: facts in, manifests out."""

from collections.abc import Mapping

from geotrain.roles.controller.children.config import config_map, ledger
from geotrain.roles.controller.children.discovery import endpoint_slices, service
from geotrain.roles.controller.children.gang import Gang
from geotrain.roles.controller.children.pods import pod
from geotrain.roles.controller.children.policy import network_policy
from geotrain.roles.controller.children.schedules import bandwidth_schedules
from geotrain.roles.controller.decision import HUB, Manifest

__all__ = ["Gang", "config_map", "ledger", "pod", "surroundings"]


def surroundings(gang: Gang, addresses: Mapping[int, str]) -> dict[str, tuple[Manifest, ...]]:
    """Everything but the pods, by data centre. ``addresses`` are the ranks' IPs known so far."""
    shared = (
        service(gang),
        *endpoint_slices(gang, addresses),
        network_policy(gang, addresses),
    )
    members = {name: (config_map(gang, name), *shared) for name in gang.data_centers}
    return {**members, HUB: (ledger(gang), *bandwidth_schedules(gang))}
