"""Which worker prefills a prompt: filter → score → pick, or refuse with a reason.

The words are those of the Gateway API inference extension (proposal 0845): filters drop workers
that cannot take the request, scorers give the others a number in [0, 1], the picker takes the
highest. Here one scorer counts: the predicted time to first token, as earliest / own, so the
worker that finishes first scores 1. Ties go to the name that sorts first.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from geotrain.model.decision import Reason
from geotrain.prefill.admission import Calendar, Rules, Span, Work, place
from geotrain.units import Seconds, format_duration


class Code(StrEnum):
    """Why a prompt is refused."""

    NO_WORKER = "NoWorker"
    """No worker is reachable with an open gate."""
    QUEUES_FULL = "QueuesFull"
    """Every reachable worker has as many requests as it may hold."""
    NO_BUBBLE_FITS = "NoBubbleFits"
    """No bubble is as long as one layer of this prompt."""
    OBJECTIVE_MISSED = "ObjectiveMissed"
    """The earliest bubbles would give the first token after the objective."""


@dataclass(frozen=True, slots=True)
class Objective:
    """Within what time the first token is promised, and the most to look ahead for one.

    ``margin`` is what predictions are corrected by (see ``percentiles.Correction``).
    """

    time_to_first_token: Seconds
    margin: Seconds = 0.0
    horizon: Seconds = 60.0
    queue: int = 64


@dataclass(frozen=True, slots=True)
class Candidate:
    """A worker as routing sees it; ``free_from`` is when its booked work ends."""

    name: str
    calendar: Calendar
    free_from: Seconds
    outstanding: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt that wants a worker. ``arrival`` may be before now: a retry has waited already."""

    id: str
    work: Work
    arrival: Seconds


@dataclass(frozen=True, slots=True)
class Admit:
    """The worker, its spans for this request, and the predicted time to first token."""

    worker: str
    slots: tuple[Span, ...]
    time_to_first_token: Seconds


@dataclass(frozen=True, slots=True)
class Refuse:
    """Come back after so long, and why."""

    retry_after: Seconds
    reason: Reason


@dataclass(frozen=True, slots=True)
class Offer:
    """A candidate with the spans in which it would run the request."""

    candidate: Candidate
    slots: tuple[Span, ...]

    @property
    def finish(self) -> Seconds:
        """The predicted end."""
        return self.slots[-1][1]


def route(
    request: Request,
    candidates: Sequence[Candidate],
    objective: Objective,
    rules: Rules,
    now: Seconds,
) -> Admit | Refuse:
    """Admit the request to the worker that will finish it first, if within the objective."""
    opened = with_bubbles(candidates)
    if not opened:
        return _refuse(5.0, Code.NO_WORKER, "no prefill worker is reachable with an open gate")
    free = with_room(opened, objective.queue)
    if not free:
        soonest = min(candidate.free_from for candidate in opened)
        sentence = f"each of {len(opened)} workers holds {objective.queue} requests"
        return _refuse(soonest - now, Code.QUEUES_FULL, sentence)
    offers = offered(request.work, free, objective, rules, now)
    if not offers:
        return _refuse(objective.horizon, Code.NO_BUBBLE_FITS, _unfit(request, objective))
    best = pick(offers, now)
    wait = best.finish - request.arrival
    late = wait + objective.margin - objective.time_to_first_token
    if late > 0:
        sentence = (
            f"the first token would come after {format_duration(wait + objective.margin)}, beyond "
            f"the objective of {format_duration(objective.time_to_first_token)}"
        )
        return _refuse(late, Code.OBJECTIVE_MISSED, sentence)
    return Admit(best.candidate.name, best.slots, wait)


def with_bubbles(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Filter: workers that know of any bubble."""
    return [candidate for candidate in candidates if candidate.calendar.bubbles]


def with_room(candidates: Sequence[Candidate], queue: int) -> list[Candidate]:
    """Filter: workers that hold fewer than ``queue`` requests."""
    return [candidate for candidate in candidates if candidate.outstanding < queue]


def offered(
    work: Work,
    candidates: Sequence[Candidate],
    objective: Objective,
    rules: Rules,
    now: Seconds,
) -> list[Offer]:
    """Filter: workers that finish the work within the horizon, with the spans they would use."""
    offers: list[Offer] = []
    for candidate in candidates:
        start = max(now, candidate.free_from)
        slots = place(work, candidate.calendar, rules, start, now + objective.horizon)
        if slots:
            offers.append(Offer(candidate, slots))
    return offers


def earliness(offers: Sequence[Offer], now: Seconds) -> dict[str, float]:
    """Score: earliest / own time from now on, so 1 for the worker that finishes first."""
    waits = {offer.candidate.name: max(0.0, offer.finish - now) for offer in offers}
    earliest = min(waits.values())
    return {name: earliest / wait if wait else 1.0 for name, wait in waits.items()}


def pick(offers: Sequence[Offer], now: Seconds) -> Offer:
    """Pick: the highest score; of equals, the name that sorts first."""
    scores = earliness(offers, now)
    return min(offers, key=lambda o: (-scores[o.candidate.name], o.candidate.name))


def _unfit(request: Request, objective: Objective) -> str:
    return (
        f"no worker finishes {format_duration(request.work.seconds)} of layers of "
        f"{format_duration(request.work.kernel)} each in the bubbles of the next "
        f"{format_duration(objective.horizon)}; a shorter prompt may fit"
    )


def _refuse(after: Seconds, code: Code, sentence: str) -> Refuse:
    """Whole seconds, as Retry-After wants them; a minute where nobody knows."""
    seconds = max(1, math.ceil(after)) if math.isfinite(after) else 60
    return Refuse(float(seconds), Reason(code, f"{sentence}; retry in {seconds}s"))
