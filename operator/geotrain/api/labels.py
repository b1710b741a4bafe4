"""Every label, annotation, resource, port and path that geotrain agrees on with the outside."""

from typing import Final

GROUP: Final = "geotrain.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

# On nodes: which data centre a node belongs to; on what a job has for one of them: which that is.
DATA_CENTER: Final = "topology.geotrain.io/datacenter"

# On users' namespaces in members.
ENABLED: Final = "geotrain.io/enabled"  # label: "true" lets jobs of the namespace run there
SERVICE_ACCOUNTS: Final = "geotrain.io/service-accounts"  # annotation: those that pods may use

# On what geotrain creates in members.
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGED_BY_VALUE: Final = "geotrain"
ROLE: Final = "geotrain.io/role"
ROLE_TRAINER: Final = "trainer"
ROLE_PREFILL: Final = "prefill"
ROLE_ROUTER: Final = "router"
ROLE_PROBE: Final = "probe"
JOB: Final = "geotrain.io/job"
JOB_UID: Final = "geotrain.io/job-uid"
NAMESPACE: Final = "geotrain.io/namespace"  # where it was made: a copy elsewhere is not ours
RANK: Final = "geotrain.io/rank"
STAGE: Final = "geotrain.io/stage"
REPLICA: Final = "geotrain.io/replica"
REVISION: Final = "geotrain.io/revision"  # changes with the plan or the template
ATTEMPT: Final = "geotrain.io/attempt"  # counts gang restarts
POOL: Final = "geotrain.io/pool"
POOL_UID: Final = "geotrain.io/pool-uid"
POOL_INDEX: Final = "geotrain.io/pool-index"
BESIDE_RANK: Final = "geotrain.io/beside-rank"  # prefill: the training rank whose GPU it shares

# Annotations.
MAX_PREFILL_PER_GPU: Final = "geotrain.io/max-prefill-per-gpu"
BASELINE: Final = "geotrain.io/baseline"  # on a router's ConfigMap: iterations without prefill
ROUTES: Final = "geotrain.io/routes"  # on a router's pod: which workers it should know of

CLUSTER_UID: Final = "geotrain.io/cluster-uid"  # on a DataCenter: of the member's kube-system
TOKEN_LIFETIME: Final = "geotrain.io/token-lifetime"  # noqa: S105 (seconds, on a Secret)

SCHEDULER_NAME: Final = "geotrain-scheduler"
CONTROLLER_NAME: Final = "geotrain-controller"  # Deployment and account on the hub
MEMBER_ACCOUNT: Final = "geotrain-member"  # account and role of the hub's controller in a member
SCHEDULING_GATE: Final = "geotrain.io/gang"
MANAGED_RESOURCE: Final = "geotrain.io/rank"  # requested by our pods so that the extender is asked
FINALIZER: Final = "geotrain.io/cleanup"
FIELD_MANAGER: Final = "geotrain-controller"

PRIORITY_TRAINING: Final = "geotrain-training"
PRIORITY_PREFILL: Final = "geotrain-prefill"

# Inside a training pod.
PORT_REDIRECT: Final = 15001  # outgoing cross-DC TCP is redirected here
PORT_PEER: Final = 15002  # sidecars talk to sidecars here
PORT_STATUS: Final = 15003  # /status and /metrics of the sidecar
PORT_MASTER: Final = 29500
PORT_PREFILL: Final = 8000  # a prefill worker's HTTP port
PORT_ROUTER: Final = 8080  # the HTTP port of a pool's router
CONFIG_DIRECTORY: Final = "/etc/geotrain"
SIGNAL_DIRECTORY: Final = "/run/geotrain-signal"  # emptyDir shared by trainer and sidecar
SIGNAL_SOCKET: Final = f"{SIGNAL_DIRECTORY}/signal.sock"
NODE_DIRECTORY: Final = "/run/geotrain"  # hostPath, the same path in node and pod
GATE_DIRECTORY: Final = f"{NODE_DIRECTORY}/gates"


def gate_path(namespace: str, job: str, rank: int) -> str:
    """The page through which a rank's sidecar tells prefill workers when the GPU is idle."""
    return f"{GATE_DIRECTORY}/{namespace}_{job}_r{rank}"


def pod_name(job: str, rank: int) -> str:
    """A training pod's name; also its host name under the headless service ``job``."""
    return f"{job}-r{rank}"


def rank_address(namespace: str, job: str, rank: int) -> str:
    """Where every rank finds ``rank``, whichever cluster it runs in."""
    return f"{pod_name(job, rank)}.{job}.{namespace}.svc"
