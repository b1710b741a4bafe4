"""How ranks find each other: a headless Service and endpoints of all ranks, in every member."""

from collections.abc import Iterable, Mapping
from typing import Final

from geotrain.api import labels
from geotrain.roles.controller.children.gang import Gang
from geotrain.roles.controller.decision import Manifest

_SLICE: Final = 500  # endpoints; the API allows 1,000
_IPV4: Final = "IPv4"
_IPV6: Final = "IPv6"


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
    """All ranks, local and remote ones alike; whose address is not known yet is left out.

    A slice holds addresses of one family and the same ranks all its life. Those of IPv4 are made
    before there are addresses, so that a name that is taken is seen before the first pod is made.
    """
    parts: dict[tuple[str, int], list[tuple[int, str]]] = {
        (_IPV4, number): [] for number in range(_parts(gang))
    }
    for rank, address in sorted(addresses.items()):
        part = _IPV6 if ":" in address else _IPV4, rank // _SLICE
        parts.setdefault(part, []).append((rank, address))
    for (family, number), members in sorted(parts.items()):
        yield _slice(gang, family, number, members)


def slice_names(gang: Gang) -> tuple[str, ...]:
    """The names of all slices that the gang may have."""
    families = (_IPV4, _IPV6)
    return tuple(slice_name(gang.name, f, n) for f in families for n in range(_parts(gang)))


def slice_name(job: str, family: str, number: int) -> str:
    """An EndpointSlice of the job's Service, counted from 0 in its family."""
    name = f"{job}-geotrain" if family == _IPV4 else f"{job}-geotrain-v6"
    return f"{name}-{number}" if number else name


def _slice(gang: Gang, family: str, number: int, members: Iterable[tuple[int, str]]) -> Manifest:
    extra = {
        "kubernetes.io/service-name": gang.name,
        "endpointslice.kubernetes.io/managed-by": "controller.geotrain.io",
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": gang.metadata(slice_name(gang.name, family, number), **extra),
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


def _parts(gang: Gang) -> int:
    return -(-gang.plan.ranks // _SLICE)
