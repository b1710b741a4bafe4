"""The sidecar's state beside the data path: what the plan, the signals and the bytes add up to."""

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from geotrain.api import labels
from geotrain.gate import GateState, State
from geotrain.roles.sidecar import bubbles, signals
from geotrain.roles.sidecar.alignment import Alignment
from geotrain.roles.sidecar.bubbles import Activity
from geotrain.roles.sidecar.network import Network
from geotrain.roles.sidecar.pump import Pump, View
from geotrain.roles.sidecar.shape import Shaper
from geotrain.roles.sidecar.status import Facts
from geotrain.units import Seconds

log = logging.getLogger(__name__)


class Page(Protocol):
    """The gate's page (geotrain.gate.GateWriter)."""

    def write(self, state: GateState) -> None:
        """Publish a state."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a sidecar is made of; ``page`` of None where the node's folder is not mounted."""

    pump: Pump
    shaper: Shaper
    page: Page | None
    intercept: Callable[[tuple[str, ...]], None]
    clock: Callable[[], Seconds]


class Sidecar:
    """Reacts to a new plan, to new addresses and to the trainer's signals."""

    def __init__(self, own: int, network: Network, parts: Parts) -> None:
        self._own = own
        self._network = network
        self._parts = parts
        self._addresses: Mapping[int, str] = {}
        self._intercepted: tuple[str, ...] | None = None
        self._intercept_problem = ""
        self._alignment = Alignment(0.0, 0.0)
        self._activity = Activity()
        self._loss: float | None = None
        self.plan(network)

    @property
    def alignment(self) -> Alignment:
        """Where iterations lie in time."""
        return self._alignment

    def plan(self, network: Network) -> None:
        """The controller wrote another network.json; open connections go on."""
        self._network = network
        first = network.first_action.get(self._own, 0.0)
        self._alignment = self._alignment.with_plan(network.period, first)
        self._parts.shaper.update(network, self._own)
        self._parts.pump.update(View(self._own, network, self._addresses))
        self._intercept(network.cidrs)

    def located(self, addresses: Mapping[int, str]) -> None:
        """The ranks' addresses, as far as they are known."""
        self._addresses = addresses
        self._parts.pump.update(View(self._own, self._network, addresses))

    def hear(self, signal: signals.Signal) -> bool:
        """Take in a signal. True when it moved the windows, so that they should be looked at."""
        before = self._alignment
        match signal:
            case signals.Begun(iteration, time):
                self._alignment = before.begun(iteration, time)
                self._parts.shaper.iteration_begins(self._parts.clock())
            case signals.Computing(_, time, _):
                self._alignment = before.computing(time)
                self._activity = Activity(State.COMPUTING)
            case signals.Waiting(time, until):
                self._alignment = before.waiting(time)
                self._activity = Activity(State.IDLE, until)
            case signals.Finished(iteration, time, seconds, loss):
                self._alignment = before.finished(iteration, seconds, time)
                self._loss = self._loss if loss is None else loss
                self._parts.shaper.iteration_ends(self._parts.clock())
            case signals.Done():
                self._activity = bubbles.DONE
        self.publish()
        return isinstance(signal, signals.Begun)

    def publish(self) -> None:
        """Write the gate's page."""
        page = self._parts.page
        if page is not None:
            planned = self._network.bubbles.get(self._own, ())
            now = self._parts.clock()
            page.write(bubbles.page(self._activity, self._alignment, planned, now))

    def facts(self) -> Facts:
        """For the status page."""
        parts = self._parts
        parts.shaper.book(parts.clock())
        return Facts(
            now=parts.clock(),
            rank=self._own,
            revision=self._network.revision,
            alignment=self._alignment,
            ledger=parts.shaper.ledger,
            has_windows=bool(parts.shaper.turns),
            shaping_problem=parts.shaper.problem,
            intercept_problem=self._intercept_problem,
            link_bytes=parts.pump.meters.by_data_center(),
            carried=parts.pump.carried,
            known_ranks=len(self._addresses),
            loss=self._loss,
            is_done=self._activity == bubbles.DONE,
        )

    def _intercept(self, cidrs: tuple[str, ...]) -> None:
        if cidrs == self._intercepted:
            return
        try:
            self._parts.intercept(cidrs)
        except Exception as error:  # without it training still runs, over one connection each
            self._intercept_problem = str(error)
            log.error("cross-DC connections are not carried: %s", error)
            return
        self._intercepted, self._intercept_problem = cidrs, ""
        log.info("carrying connections to %s", ", ".join(cidrs) or "nobody")


@dataclass(frozen=True, slots=True)
class Environment:
    """What the pod's environment and mounts say."""

    rank: int
    namespace: str
    job: str
    config: str
    signal: str
    interface: str
    gate: str

    @classmethod
    def from_variables(cls, variables: Mapping[str, str] = os.environ) -> "Environment":
        """Read RANK, GEOTRAIN_JOB and what may override the usual paths.

        Raises KeyError or ValueError where the pod was not made by the controller.
        """
        namespace, _, job = variables["GEOTRAIN_JOB"].partition("/")
        rank = int(variables["RANK"])
        return cls(
            rank=rank,
            namespace=namespace,
            job=job,
            config=variables.get("GEOTRAIN_NETWORK", f"{labels.CONFIG_DIRECTORY}/network.json"),
            signal=variables.get("GEOTRAIN_SIGNAL", labels.SIGNAL_SOCKET),
            interface=variables.get("GEOTRAIN_INTERFACE", "eth0"),
            gate=variables.get("GEOTRAIN_GATE") or labels.gate_path(namespace, job, rank),
        )
