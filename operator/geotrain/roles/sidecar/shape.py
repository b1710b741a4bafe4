"""Keeps the interface's classes as the plan and the moment want them, and books the bytes."""

import logging
from collections.abc import Callable, Mapping

from geotrain.errors import KernelError
from geotrain.roles.sidecar.alignment import Alignment
from geotrain.roles.sidecar.ledger import Ledger
from geotrain.roles.sidecar.network import Network
from geotrain.roles.sidecar.ports import Htb
from geotrain.shaping.diff import diff
from geotrain.shaping.tree import FIRST_FLOW, Share, Tree, tree
from geotrain.shaping.windows import Step, Windows
from geotrain.units import BitsPerSecond, Bytes, Seconds

IDLE: Seconds = 1.0
"""How long to wait for the next look where no window will end before."""
_SOONEST: Seconds = 0.001

log = logging.getLogger(__name__)


class Shaper:
    """Applies the difference between what the kernel has and what it should have.

    ``htb`` of None, or one that fails, leaves the interface as it is; ``problem`` says why.
    ``carried`` counts payload bytes by flow, for when the kernel's counters are not there.
    """

    def __init__(
        self, htb: Htb | None, carried: Callable[[], Mapping[int, Bytes]], problem: str = ""
    ) -> None:
        self._htb = htb
        self._carried = carried
        self._applied: Tree | None = None
        self._is_known = False
        self._shares: tuple[Share, ...] = ()
        self._pod_rate: BitsPerSecond | None = None
        self._step: Step | None = None
        self.windows = Windows((), 0.0)
        self.ledger = Ledger()
        self.problem = problem

    @property
    def is_shaping(self) -> bool:
        """The kernel has the classes that were wanted last."""
        return self._htb is not None and not self.problem

    def update(self, network: Network, own: int) -> None:
        """A new plan; it takes effect with the next ``follow``."""
        flows = network.flows_through(own)
        ids = {f.id for f in flows}
        self._shares = tuple(Share(f.id, f.rate, f.idle_rate) for f in flows)
        self._pod_rate = network.pod_rate
        self.windows = Windows((w for w in network.windows if w.flow in ids), network.period)

    def follow(self, alignment: Alignment, now: Seconds) -> Seconds:
        """Book what was sent, and set what holds now. Returns when to come again."""
        self.book()
        if not self.windows or not alignment.is_aligned(now) or alignment.base is None:
            self._step = None
            self.put(tree(self._shares, self._pod_rate))
            return now + IDLE
        step, end = self.windows.at(alignment.base, now, alignment.stretch)
        self._step = step
        self.put(tree(self._shares, self._pod_rate, dict(step.owners)))
        return max(end, now + _SOONEST)

    def book(self) -> None:
        """Book what was sent since the last look."""
        self.ledger.book(self._counts(), self._step)

    def put(self, desired: Tree | None) -> int:
        """Make the kernel's tree the desired one; how many operations that took."""
        if self._htb is None or (self._is_known and desired == self._applied):
            return 0
        try:
            observed = self._applied if self._is_known else self._htb.observe()
            operations = diff(observed, desired)
            for operation in operations:
                self._htb.apply(operation)
        except KernelError as error:
            self._is_known = False  # look again before the next change
            if self.problem != str(error):
                log.warning("the interface is not shaped: %s", error)
            self.problem = str(error)
            return 0
        self._applied, self._is_known, self.problem = desired, True, ""
        return len(operations)

    def _counts(self) -> Mapping[int, Bytes]:
        if self._htb is not None and not self.problem:
            try:
                sent = self._htb.sent()
                return {m - FIRST_FLOW: n for m, n in sent.items() if m > FIRST_FLOW}
            except KernelError as error:
                self.problem = str(error)
        return self._carried()
