"""Runs a rank's row of the schedule, iteration after iteration, without a global barrier.

An action takes its message from the neighbour, computes, holds the accelerator for the profile's
time and hands its result on; a send never holds up the next action. At the end of an iteration
the replicas of a stage sum their gradients and every rank steps its optimizer; stages may be an
iteration apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TypeVar

from torch import Tensor

from geotrain.progress import Progress

from . import messages
from .accelerator import Device
from .channels import Lane, Mailroom, Receiver, Through
from .forecast import Forecast
from .messages import BACKWARD, FORWARD
from .model import Shape
from .profile import StageProfile
from .reports import Trace
from .schedule import BACKWARD as BACKWARD_KIND
from .schedule import FORWARD as FORWARD_KIND
from .schedule import INPUT_GRADIENT, WEIGHT_GRADIENT, Action, Schedule
from .settings import EARLY, Place
from .stage import Stage
from .transport import Transport

_Result = TypeVar("_Result")

_REDUCE = -1  # a position in the forecast that no action has


@dataclass(frozen=True)
class Job:
    """What is trained, and with what."""

    place: Place
    schedule: Schedule
    shape: Shape
    stage: Stage
    transport: Transport
    device: Device
    progress: Progress
    profile: StageProfile | None = None
    trace: Trace | None = None
    ahead: int = 16
    """Receives posted ahead; each holds the memory of one message."""


class Engine:
    """One rank's run from iteration ``first`` up to ``end``."""

    def __init__(self, job: Job, first: int, end: int, is_stopping: Callable[[], bool]) -> None:
        self._job = job
        self._place = job.place
        self._row = job.schedule.rows[job.place.stage]
        self._numbers = range(first, end)
        self._mailroom = Mailroom(is_stopping)
        self._forecast = Forecast()
        self._measured: dict[str, float] = {}
        self._arrived: float | None = None
        boundary = job.profile.boundary if job.profile else 0
        self._boundary_shape = (job.place.micro_batch, job.shape.sequence, job.shape.hidden)
        values = job.place.micro_batch * job.shape.sequence * job.shape.hidden
        self._size = messages.size(values, boundary)
        self._sent = self._lane("sent")
        self._reduced = self._lane("reduced")
        self._receivers = dict(self._make_receivers())

    def run(self, number: int) -> float:
        """Run one iteration; return the mean loss, which only the last stage knows.

        Raises Stopped between two actions, or while waiting, when the rank should stop.
        """
        for position, action in enumerate(self._row):
            self._mailroom.check()
            if self._place.recompute == EARLY and action.kind in (BACKWARD_KIND, INPUT_GRADIENT):
                self._recompute(number, action)
            received = self._receive(position, number, action)
            if position == 0:
                self._job.progress.iteration(number)
                self._forecast.begin(time.monotonic())
            self._send(number, action, self._compute(number, action, received))
        return self._finish()

    def close(self) -> None:
        """Wait until everything that was sent has left this host."""
        self._sent.watch("sent", Through(), None)
        self._mailroom.take("sent")

    def _recompute(self, number: int, action: Action) -> None:
        """Run what the action does before it needs its gradient."""
        job, sample = self._job, self._place.first_sample(number, action.micro_batch)
        seconds = job.profile.early if job.profile else 0.0
        self._run(action, seconds, partial(job.stage.recompute, action.micro_batch, sample))

    def _compute(self, number: int, action: Action, received: Tensor | None) -> Tensor | None:
        """Run what the action does with its message, if it needs one."""
        job, sample = self._job, self._place.first_sample(number, action.micro_batch)
        begin = time.monotonic()
        work = partial(job.stage.compute, action, sample, received)
        result = self._run(action, self._seconds(action), work)
        end = time.monotonic()
        self._measured[action.kind] = end - begin
        if job.trace:
            job.trace.write(number, str(action), self._arrived, begin, end)
        return result

    def _run(self, action: Action, seconds: float, work: Callable[[], _Result]) -> _Result:
        """Compute for real while the accelerator is held; the longer of the two counts."""
        job = self._job
        job.progress.computing(str(action), seconds)
        job.device.start(str(action), seconds if job.profile else 0.0)
        result = work()
        job.stage.synchronize()
        job.device.finish()
        return result

    def _seconds(self, action: Action) -> float:
        """How long the action should take: by the profile, else as long as the last of its kind."""
        if self._job.profile:
            return self._job.profile.seconds[action.kind]
        return self._measured.get(action.kind, 0.0)

    def _receive(self, position: int, number: int, action: Action) -> Tensor | None:
        """Take what the action needs from a neighbour, if it needs anything."""
        direction = FORWARD if action.kind == FORWARD_KIND else BACKWARD
        peer = self._neighbour(-1 if direction == FORWARD else 1)
        self._arrived = None
        if peer is None or action.kind == WEIGHT_GRADIENT:
            return None
        key = (number, action.micro_batch, direction)
        message = self._await(key, position)
        self._receivers[direction].advance()
        tensor: Tensor = messages.unpack(message, key, self._boundary_shape)
        return tensor

    def _send(self, number: int, action: Action, result: Tensor | None) -> None:
        """Hand the result to the neighbour that needs it."""
        direction = FORWARD if action.kind == FORWARD_KIND else BACKWARD
        peer = self._neighbour(1 if direction == FORWARD else -1)
        if peer is None or result is None:
            return
        message = messages.pack(result, (number, action.micro_batch, direction), self._size)
        self._sent.watch(None, self._job.transport.send(message, peer, direction), message)

    def _finish(self) -> float:
        """Sum the gradients over the replicas and step."""
        vector = self._job.stage.gradients()
        if self._place.data > 1:
            self._reduced.watch("reduced", self._job.transport.all_reduce(vector), vector)
            self._await("reduced", _REDUCE)
        if self._job.profile and self._job.profile.optimizer_step:
            self._job.progress.computing("step", self._job.profile.optimizer_step)
            self._job.device.run("step", self._job.profile.optimizer_step)
        return self._job.stage.step(vector)

    def _await(self, key: object, position: int) -> Tensor:
        """Take an arrived tensor; while it is awaited the GPU is said to wait."""
        if not self._mailroom.has(key):
            self._job.progress.waiting(self._forecast.until(position, is_first=position == 0))
        tensor: Tensor
        tensor, self._arrived = self._mailroom.take(key)
        self._forecast.ended(position, time.monotonic())
        return tensor

    def _make_receivers(self) -> Iterator[tuple[int, Receiver]]:
        """Yield what will come from either neighbour, by direction."""
        for direction, step in ((FORWARD, -1), (BACKWARD, 1)):
            peer = self._neighbour(step)
            if peer is not None:
                post = partial(self._job.transport.receive, self._size, peer, direction)
                lane, keys = self._lane(f"from-{peer}"), self._keys(direction, step)
                yield direction, Receiver(lane, keys, post, self._job.ahead)

    def _keys(self, direction: int, step: int) -> Iterator[tuple[int, int, int]]:
        """Yield all messages that will come from that neighbour, in the order it sends them."""
        schedule, sender = self._job.schedule, self._place.stage + step
        sent = schedule.sent_forward if direction == FORWARD else schedule.sent_backward
        for number, micro_batch in product(self._numbers, sent(sender)):
            yield number, micro_batch, direction

    def _neighbour(self, step: int) -> int | None:
        stage = self._place.stage + step
        return self._place.rank_of(stage) if 0 <= stage < self._place.stages else None

    def _lane(self, name: str) -> Lane:
        return Lane(self._mailroom, name, self._job.transport.wait)
