"""A request's way: admitted and booked, prefilled in bubbles, handed to the decode service.

A prefill whose worker fails is begun again by another one.

A request is never lost and never answered twice: it has one owner, the coroutine that serves its
connection, which books at most one worker at a time and frees the booking however it ends.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from geotrain.errors import GeotrainError
from geotrain.prefill.fleet import Fleet
from geotrain.prefill.percentiles import Correction
from geotrain.prefill.profile import PrefillProfile
from geotrain.prefill.routing import Admit, Objective, Refuse, Request
from geotrain.roles.router.completions import Completion
from geotrain.roles.router.metrics import Metrics
from geotrain.roles.router.ports import (
    Clock,
    DecodeClient,
    Prefilled,
    Prompt,
    Text,
    WorkerBusy,
    WorkerClient,
    WorkerLost,
)
from geotrain.roles.router.stats import Outcome, Stats
from geotrain.units import Seconds

_log = logging.getLogger(__name__)
_PAUSE: Seconds = 0.1


class OutOfTime(GeotrainError):
    """No worker finished the request within the time that a request may take."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What is promised, and for how long it is tried.

    ``timeout`` ends a request that was admitted and met failing workers; ``queue`` is the most
    requests booked at one worker.
    """

    time_to_first_token: Seconds = 1.0
    percentile: float = 90.0
    timeout: Seconds = 60.0
    horizon: Seconds = 60.0
    queue: int = 64


@dataclass(slots=True)
class Ticket:
    """An admitted prompt: where it is booked and what was promised."""

    id: str
    prompt: Prompt
    arrival: Seconds
    worker: str
    predicted: Seconds
    attempts: int = 1
    time_to_first_token: Seconds | None = None
    is_settled: bool = False


class Service:
    """Serves prompts over a fleet of workers."""

    def __init__(
        self,
        fleet: Fleet,
        profile: PrefillProfile,
        workers: WorkerClient,
        *,
        lost: Callable[[str], asyncio.Event],
        decode: DecodeClient | None,
        terms: Terms,
        clock: Clock,
    ) -> None:
        self.fleet = fleet
        self.stats = Stats()
        self.metrics = Metrics(self.stats, fleet)
        self._profile = profile
        self._workers = workers
        self._lost = lost
        self._decode = decode
        self._terms = terms
        self._clock = clock
        self._correction = Correction(terms.percentile)

    def admit(
        self, request: str, completion: Completion, arrival: Seconds
    ) -> list[Ticket] | Refuse:
        """Book every prompt of a request, or none of them."""
        now = self._clock()
        objective = Objective(
            self._terms.time_to_first_token,
            margin=self._correction.margin(now),
            horizon=self._terms.horizon,
            queue=self._terms.queue,
        )
        tickets: list[Ticket] = []
        for index, prompt in enumerate(completion.prompts):
            name = request if len(completion.prompts) == 1 else f"{request}-{index}"
            answer = self.fleet.admit(self._request(name, prompt, arrival), objective, now)
            if isinstance(answer, Refuse):
                for ticket in tickets:
                    self.fleet.release(ticket.worker, ticket.id)
                self.stats.refusals[answer.reason.code] += len(completion.prompts)
                return answer
            wait = answer.time_to_first_token
            tickets.append(Ticket(name, prompt, arrival, answer.worker, wait))
        self.stats.admitted += len(tickets)
        return tickets

    async def serve(self, ticket: Ticket, completion: Completion) -> AsyncIterator[Text]:
        """Give the first token when it is there, then the rest.

        Raises WorkerRefused, OutOfTime or DecodeFailed.
        """
        try:
            prefilled = await self._prefill(ticket)
            self._account(ticket)
            yield prefilled.first
            left = completion.max_tokens - len(prefilled.first.tokens)
            if self._decode is not None and left > 0:
                yield await self._decode.decode(ticket.id, prefilled.kv, left, completion.sampling)
            self.settle(ticket, "served")
        except Exception:
            self.settle(ticket, "failed")
            raise
        finally:
            self.settle(ticket, "cancelled")

    def settle(self, ticket: Ticket, outcome: Outcome) -> None:
        """Count a request's end and free its booking; only the first call for a ticket counts."""
        if ticket.is_settled:
            return
        ticket.is_settled = True
        self.fleet.release(ticket.worker, ticket.id)
        self.stats.count(outcome)

    async def _prefill(self, ticket: Ticket) -> Prefilled:
        """Have the prompt prefilled, by another worker where one fails, until time is up."""
        deadline = ticket.arrival + self._terms.timeout
        failed: set[str] = set()
        while True:
            try:
                prefilled = await self._attempt(ticket, deadline)
            except (WorkerLost, WorkerBusy) as error:
                _log.info("%s goes elsewhere: %s", ticket.id, error)
                if isinstance(error, WorkerLost):
                    self.fleet.lose(ticket.worker)
                failed.add(ticket.worker)
            else:
                self.fleet.release(ticket.worker, ticket.id)
                return prefilled
            self.fleet.release(ticket.worker, ticket.id)
            self.stats.retried += 1
            await self._rebook(ticket, failed, deadline)

    async def _attempt(self, ticket: Ticket, deadline: Seconds) -> Prefilled:
        """Ask one worker; give up on it when it stops answering, not only when it hangs up."""
        call = asyncio.create_task(self._workers.prefill(ticket.worker, ticket.id, ticket.prompt))
        loss = asyncio.create_task(self._lost(ticket.worker).wait())
        try:
            await asyncio.wait(
                {call, loss},
                timeout=max(0.0, deadline - self._clock()),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if call.done():
                return call.result()
            if loss.done():
                raise WorkerLost(f"{ticket.worker} does not answer any more")
            raise OutOfTime(f"no first token within {self._terms.timeout:g}s")
        finally:
            call.cancel()
            loss.cancel()
            await asyncio.gather(call, loss, return_exceptions=True)

    async def _rebook(self, ticket: Ticket, failed: set[str], deadline: Seconds) -> None:
        """Book another worker. Who was admitted is not refused now, however late it gets.

        Once every other worker was tried, those that failed may have recovered.
        """
        patience = Objective(
            self._terms.timeout, horizon=self._terms.horizon, queue=self._terms.queue
        )
        request = self._request(ticket.id, ticket.prompt, ticket.arrival)
        while (now := self._clock()) < deadline:
            answer = self.fleet.admit(request, patience, now, without=failed)
            if isinstance(answer, Admit):
                ticket.worker = answer.worker
                ticket.attempts += 1
                return
            failed.clear()
            await asyncio.sleep(_PAUSE)
        raise OutOfTime(f"no worker was left to do it within {self._terms.timeout:g}s")

    def _account(self, ticket: Ticket) -> None:
        now = self._clock()
        ticket.time_to_first_token = now - ticket.arrival
        self.stats.first_tokens.add(now, ticket.time_to_first_token)
        self.metrics.first_token(ticket.time_to_first_token)
        if ticket.attempts == 1:  # a failed worker says nothing about predictions
            self._correction.add(now, ticket.predicted, ticket.time_to_first_token)

    def _request(self, name: str, prompt: Prompt, arrival: Seconds) -> Request:
        return Request(name, self._profile.work(prompt.tokens), arrival)
