"""How ranks find each other: a headless Service and endpoints of all ranks, in every member."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from geotrain.api import labels
from geotrain.roles.controller.children.gang import Gang
from geotrain.roles.controller.decision import Manifest

_SLICE: Final = 500  # endpoints; the API allows 1,000


def service(gang: Gang) -> Manifest:
    """The headless Service; without a selector, so that nobody else writes its endpoints."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": gang.metadata(gang.name),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "ports": [
                {"name": "master", "port": labels.PORT_MASTER, "protocol": "TCP"},
                {"name": "status", "port": labels.PORT_STATUS, "protocol": "TCP"},
            ],
        },
    }


def endpoint_slices(gang: Gang, addresses: Mapping[int, str]) -> Iterable[Manifest]:
    """The ranks whose address is known, local and remote ones alike, a family at a time."""
    families: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for rank, address in sorted(addresses.items()):
        families["IPv6" if ":" in address else "IPv4"].append((rank, address))
    number = 0
    for family, members in sorted(families.items()):
        for part in _chunks(members):
            yield _slice(gang, family, number, part)
            number += 1


def _slice(gang: Gang, family: str, number: int, members: Iterable[tuple[int, str]]) -> Manifest:
    extra = {
        "kubernetes.io/service-name": gang.name,
        "endpointslice.kubernetes.io/managed-by": "controller.geotrain.io",
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": gang.metadata(slice_name(gang.name, number), **extra),
        "addressType": family,
        "ports": [
            {"name": "master", "port": labels.PORT_MASTER, "protocol": "TCP"},
            {"name": "status", "port": labels.PORT_STATUS, "protocol": "TCP"},
        ],
        "endpoints": [
            {
                "addresses": [address],
                "hostname": labels.pod_name(gang.name, rank),
                "conditions": {"ready": True},
            }
            for rank, address in members
        ],
    }


def slice_names(gang: Gang) -> tuple[str, ...]:
    """The names of as many slices as the ranks may need: a part more where two families are."""
    most = 1 if gang.plan.ranks <= 1 else -(-gang.plan.ranks // _SLICE) + 1
    return tuple(slice_name(gang.name, number) for number in range(most))


def slice_name(job: str, number: int) -> str:
    """An EndpointSlice of the job's Service, counted from 0."""
    return f"{job}-geotrain" + (f"-{number}" if number else "")


def _chunks(members: list[tuple[int, str]]) -> Iterable[list[tuple[int, str]]]:
    return (members[start : start + _SLICE] for start in range(0, len(members), _SLICE))
