"""The nodes of one cluster and what their pods take, kept up to date one object at a time.

Two sums a node: what is *firm* (every pod but prefill) and what is *soft* (prefill, which leaves
when training needs the room). Pods that ended take nothing; pods that are being deleted still do.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from geotrain.fitting.facts import Asked, JobKey, NodeFacts, PodFacts, PodKey, Resources, Role

_Place = tuple[JobKey, int | None]
_NOTHING: Resources = {}


class Occupancy:
    """Who is where. Not safe for threads; cheap to ask, every change costs one pod."""

    def __init__(self, nodes: Iterable[NodeFacts] = (), pods: Iterable[PodFacts] = ()) -> None:
        self._nodes: dict[str, NodeFacts] = {}
        self._pods: dict[PodKey, PodFacts] = {}
        self._by_uid: dict[str, PodFacts] = {}
        self._on: defaultdict[str, dict[PodKey, PodFacts]] = defaultdict(dict)
        self._firm: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._soft: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._ranks: defaultdict[JobKey, dict[int, PodFacts]] = defaultdict(dict)
        self._beside: defaultdict[_Place, dict[PodKey, PodFacts]] = defaultdict(dict)
        self._waiting: dict[PodKey, PodFacts] = {}
        for node in nodes:
            self.put_node(node)
        for pod in pods:
            self.put_pod(pod)

    @property
    def nodes(self) -> Mapping[str, NodeFacts]:
        """All nodes by name."""
        return self._nodes

    def put_node(self, node: NodeFacts) -> None:
        """Add or replace a node."""
        self._nodes[node.name] = node

    def drop_node(self, name: str) -> None:
        """Forget a node; pods bound to it are remembered until they are dropped."""
        self._nodes.pop(name, None)

    def put_pod(self, pod: PodFacts) -> None:
        """Add or replace a pod."""
        self.drop_pod(pod.key)
        self._pods[pod.key] = pod
        self._by_uid[pod.uid] = pod
        if pod.ended or (pod.terminating and not pod.node):
            return
        if pod.role is Role.PREFILL and pod.beside_rank is not None:
            self._beside[pod.job_key, pod.beside_rank][pod.key] = pod
        if not pod.node:
            if pod.role is Role.TRAINING:
                self._waiting[pod.key] = pod
            return
        self._on[pod.node][pod.key] = pod
        self._count(pod, 1)
        if pod.role is Role.TRAINING and pod.rank is not None:
            self._ranks[pod.job_key][pod.rank] = pod

    def drop_pod(self, key: PodKey) -> None:
        """Forget a pod."""
        pod = self._pods.pop(key, None)
        if pod is None:
            return
        self._by_uid.pop(pod.uid, None)
        self._waiting.pop(key, None)
        if (place := (pod.job_key, pod.beside_rank)) in self._beside:
            self._beside[place].pop(key, None)
            if not self._beside[place]:
                del self._beside[place]
        self._drop_rank(pod)
        if key in self._on.get(pod.node, ()):
            self._leave(pod)

    def pod(self, key: PodKey) -> PodFacts | None:
        """The pod of that namespace and name."""
        return self._pods.get(key)

    def pod_of_uid(self, uid: str) -> PodFacts | None:
        """The pod of that uid."""
        return self._by_uid.get(uid)

    def pods_on(self, node: str) -> Collection[PodFacts]:
        """The pods bound to a node that have not ended."""
        return self._on.get(node, {}).values()

    def free(self, node: str, *, sparing: bool = False) -> dict[str, int]:
        """What is left of a node, below 0 where it is overcommitted.

        Prefill counts as gone, or with ``sparing`` as staying.
        """
        facts, firm = self._nodes.get(node), self._firm.get(node, _NOTHING)
        offers = facts.allocatable.items() if facts else ()
        free = {name: have - firm.get(name, 0) for name, have in offers}
        if sparing:
            for name, amount in self._soft.get(node, _NOTHING).items():
                free[name] = free.get(name, 0) - amount
        return free

    def shortage(self, node: str, asked: Asked, *, sparing: bool = False) -> tuple[str, int] | None:
        """The first resource of which a node has too little, and how much; None if it fits.

        As ``free``, without making a dictionary: it is asked for every node of a cluster.
        """
        facts, firm = self._nodes.get(node), self._firm.get(node, _NOTHING)
        offers = facts.allocatable if facts else _NOTHING
        soft = self._soft.get(node, _NOTHING) if sparing else _NOTHING
        for name, amount in asked:
            lacking = amount - offers.get(name, 0) + firm.get(name, 0) + soft.get(name, 0)
            if lacking > 0:
                return name, lacking
        return None

    def waiting(self) -> Collection[PodFacts]:
        """Training pods without a node, gated or not."""
        return self._waiting.values()

    def rank(self, job: JobKey, rank: int) -> PodFacts | None:
        """The bound pod of a training rank, unless it is ending."""
        pod = self._ranks.get(job, {}).get(rank)
        return None if pod is None or pod.terminating else pod

    def ranks(self, job: JobKey) -> Collection[PodFacts]:
        """The bound pods of a training job that have not ended."""
        return self._ranks.get(job, {}).values()

    def beside(self, job: JobKey, rank: int) -> Collection[PodFacts]:
        """The prefill pods that share, or want to share, a rank's GPUs."""
        return self._beside.get((job, rank), {}).values()

    def _drop_rank(self, pod: PodFacts) -> None:
        ranks = self._ranks.get(pod.job_key, {})
        if pod.rank is not None and ranks.get(pod.rank) is pod:
            del ranks[pod.rank]
            if not ranks:
                del self._ranks[pod.job_key]

    def _leave(self, pod: PodFacts) -> None:
        """Take a pod off its node, and the node's sums with the last one."""
        del self._on[pod.node][pod.key]
        self._count(pod, -1)
        if not self._on[pod.node]:
            for index in (self._on, self._firm, self._soft):
                index.pop(pod.node, None)

    def _count(self, pod: PodFacts, sign: int) -> None:
        taken = self._soft if pod.role is Role.PREFILL else self._firm
        for name, amount in pod.requests.items():
            taken[pod.node][name] += sign * amount
