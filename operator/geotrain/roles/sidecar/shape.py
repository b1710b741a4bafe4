"""Keeps the interface's classes as the plan and the moment want them, and books the bytes."""

import logging
from collections.abc import Callable, Iterable, Mapping

from geotrain.errors import KernelError
from geotrain.roles.sidecar.alignment import Alignment
from geotrain.roles.sidecar.ledger import Ledger
from geotrain.roles.sidecar.network import Network
from geotrain.roles.sidecar.ports import Htb
from geotrain.shaping.diff import diff
from geotrain.shaping.tree import FIRST_FLOW, Share, Tree, tree
from geotrain.shaping.windows import Owner, Turns
from geotrain.units import BitsPerSecond, Bytes, Seconds

IDLE: Seconds = 1.0
"""How long to wait for the next look at most."""
_SOONEST: Seconds = 0.01
_LEAST_SCALE, _MOST_SCALE = 0.8, 1.5
"""Wire bytes per planned byte; beyond these an iteration was not a whole one."""

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
        self._owners: dict[int, Owner] = {}
        self._counts: Mapping[int, Bytes] = {}
        self._looked: Seconds | None = None
        self._begin: dict[int, Bytes] = {}
        self._early: frozenset[int] = frozenset()
        self._scale: dict[int, float] = {}
        self.turns = Turns((), {})
        self.ledger = Ledger()
        self.problem = problem

    @property
    def is_shaping(self) -> bool:
        """The kernel has the classes that were wanted last."""
        return self._htb is not None and not self.problem

    def update(self, network: Network, own: int) -> None:
        """A new plan; it takes effect with the next ``follow``."""
        flows = network.flows_through(own)
        cells = {f.id: network.cell(f) for f in flows}
        self._shares = tuple(Share(f.id, f.rate, f.idle_rate) for f in flows)
        self._pod_rate = network.pod_rate
        self._early = frozenset(f.id for f in flows if network.is_forward(f))
        self.turns = Turns((w for w in network.windows if w.flow in cells), cells)
        self._scale.clear()

    def iteration_begins(self, now: Seconds) -> None:
        """The rank begins an iteration: backward flows are counted from here.

        Their last messages of the iteration before may still have run when this rank ended it.
        """
        self.book(now)
        self._count_from_here(
            f for f in self._counts if f not in self._early or f not in self._begin
        )

    def iteration_ends(self, now: Seconds) -> None:
        """The rank ended an iteration: forward flows are counted from here.

        A mate may begin the next before this rank does.
        """
        self.book(now)
        self._count_from_here(f for f in self._counts if f in self._early)
        self.ledger.close_iteration()

    def follow(self, alignment: Alignment, now: Seconds) -> Seconds:
        """Book what was sent, and set what holds now. Returns when to come again."""
        self.book(now)
        if not self.turns or not self._begin or not alignment.is_aligned(now):
            self._owners = {}
            self.put(tree(self._shares, self._pod_rate))
            return now + IDLE
        self._owners = self.turns.owners(self._sent())
        in_turn = {owner.flow: owner.rate for owner in self._owners.values()}
        self.put(tree(self._shares, self._pod_rate, in_turn))
        soonest = min((owner.soonest for owner in self._owners.values()), default=IDLE)
        return now + min(IDLE, max(_SOONEST, soonest))

    def book(self, now: Seconds) -> None:
        """Book what was sent since the last look."""
        self._counts = self._count()
        elapsed = 0.0 if self._looked is None else now - self._looked
        self._looked = now
        self.ledger.book(self._counts, self._owners, elapsed)

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

    def _count_from_here(self, flows: Iterable[int]) -> None:
        """What the last iteration put on the wire tells how many bytes a planned byte is."""
        for flow in flows:
            count, planned = self._counts[flow], self.turns.planned(flow)
            if flow in self._begin and planned:
                scale = (count - self._begin[flow]) / planned
                if _LEAST_SCALE <= scale <= _MOST_SCALE:
                    self._scale[flow] = scale
            self._begin[flow] = count

    def _sent(self) -> dict[int, Bytes]:
        """Since the iteration began, in planned bytes."""
        return {
            flow: round((self._counts.get(flow, 0) - begin) / self._scale.get(flow, 1.0))
            for flow, begin in self._begin.items()
        }

    def _count(self) -> Mapping[int, Bytes]:
        if self._htb is not None and not self.problem:
            try:
                sent = self._htb.sent()
                return {m - FIRST_FLOW: n for m, n in sent.items() if m > FIRST_FLOW}
            except KernelError as error:
                self.problem = str(error)
        return self._carried()
