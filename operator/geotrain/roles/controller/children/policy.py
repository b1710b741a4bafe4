"""Who may talk to a job's pods: its own ranks, wherever they run, and readers of their status.

Ranks of other clusters are named by their exact addresses, which no selector could pick: it is the
tightest rule that the API can express. The status port is open, because the API server's proxy
and metrics collectors come from addresses that differ from cluster to cluster; it only reads.
"""

from collections.abc import Mapping

from geotrain.api import labels
from geotrain.roles.controller.children.gang import Gang
from geotrain.roles.controller.decision import Manifest


def network_policy(gang: Gang, addresses: Mapping[int, str]) -> Manifest:
    """The policy, the same in every member."""
    own = {labels.JOB_UID: gang.job.metadata.uid, labels.ROLE: labels.ROLE_TRAINER}
    ranks = [{"ipBlock": {"cidr": _alone(address)}} for _, address in sorted(addresses.items())]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": gang.metadata(policy_name(gang.name)),
        "spec": {
            "podSelector": {"matchLabels": own},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [{"podSelector": {"matchLabels": own}}, *ranks]},
                {"ports": [{"port": labels.PORT_STATUS, "protocol": "TCP"}]},
            ],
        },
    }


def policy_name(job: str) -> str:
    """The NetworkPolicy of a job's pods; a pool of the job's name has another."""
    return f"{job}-ranks"


def _alone(address: str) -> str:
    return f"{address}/128" if ":" in address else f"{address}/32"
