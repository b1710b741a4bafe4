"""What a job has in its members and on the hub, as manifests. Pure: facts in, manifests out."""

from collections.abc import Mapping

from geotrain.api import labels
from geotrain.api.objects import (
    BANDWIDTH_SCHEDULES,
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    NETWORK_POLICIES,
    PODS,
    SERVICES,
    ApiResource,
)
from geotrain.roles.controller.children.config import config_map, ledger, ledger_name
from geotrain.roles.controller.children.discovery import endpoint_slices, service, slice_names
from geotrain.roles.controller.children.gang import Gang, config_name
from geotrain.roles.controller.children.pods import pod
from geotrain.roles.controller.children.policy import network_policy, policy_name
from geotrain.roles.controller.children.schedules import bandwidth_schedules, schedule_name
from geotrain.roles.controller.decision import HUB, Manifest
from geotrain.roles.controller.ownership import Need

__all__ = ["Gang", "config_map", "ledger", "needs", "pod", "surroundings"]


def surroundings(gang: Gang, addresses: Mapping[int, str]) -> dict[str, tuple[Manifest, ...]]:
    """Everything but the pods, by data centre. ``addresses`` are the ranks' IPs known so far."""
    shared = (
        service(gang),
        *endpoint_slices(gang, addresses),
        network_policy(gang, addresses),
    )
    members = {name: (config_map(gang, name), *shared) for name in gang.data_centers}
    return {**members, HUB: (ledger(gang), *bandwidth_schedules(gang))}


def needs(gang: Gang) -> tuple[Need, ...]:
    """Every name that the gang needs: of all ``surroundings`` and of all its pods."""
    name = gang.name
    on_hub = [(CONFIG_MAPS, ledger_name(name))]
    on_hub += [(BANDWIDTH_SCHEDULES, schedule_name(name, each)) for each in gang.data_centers]
    found = [_need(gang, HUB, *each) for each in on_hub]
    for center in gang.data_centers:
        around = [(SERVICES, name), (NETWORK_POLICIES, policy_name(name))]
        around += [(ENDPOINT_SLICES, each) for each in slice_names(gang)]
        around.append((CONFIG_MAPS, config_name(name, center)))
        around += [(PODS, labels.pod_name(name, rank)) for rank in gang.ranks_in(center)]
        found += [_need(gang, center, *each) for each in around]
    return tuple(found)


def _need(gang: Gang, data_center: str, resource: ApiResource, name: str) -> Need:
    return Need(data_center, resource.api_version, resource.kind, gang.namespace, name)
