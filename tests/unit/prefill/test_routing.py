import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geotrain.prefill.admission import Calendar, Piece, Rules, Work
from geotrain.prefill.routing import (
    Admit,
    Candidate,
    Code,
    Objective,
    Offer,
    Refuse,
    Request,
    earliness,
    pick,
    route,
)

FREE = Rules(guard=0.0)
SECOND = Objective(1.0)
REQUEST = Request("r", Work((Piece(0.1, 2),)), arrival=0.0)


def worker(name, begin, end=None, **more):
    end = begin + 10 if end is None else end
    return Candidate(name, Calendar(((begin, end),)), free_from=more.pop("free_from", 0.0), **more)


def test_the_worker_that_finishes_first_is_picked():
    answer = route(REQUEST, [worker("a", 0.5), worker("b", 0.2)], SECOND, FREE, 0.0)
    assert answer == Admit("b", ((0.2, 0.4),), pytest.approx(0.4))


def test_ties_go_to_the_first_name():
    answer = route(REQUEST, [worker("b", 0.2), worker("a", 0.2)], SECOND, FREE, 0.0)
    assert isinstance(answer, Admit)
    assert answer.worker == "a"


def test_booked_time_is_not_offered_again():
    answer = route(REQUEST, [worker("a", 0.0, free_from=0.7)], SECOND, FREE, 0.0)
    assert isinstance(answer, Admit)
    assert answer.slots == ((0.7, pytest.approx(0.9)),)


def test_waiting_before_routing_counts():
    late = Request("r", REQUEST.work, arrival=-0.9)
    answer = route(late, [worker("a", 0.0)], SECOND, FREE, 0.0)
    assert isinstance(answer, Refuse)
    assert answer.reason.code == Code.OBJECTIVE_MISSED


@pytest.mark.parametrize(
    ("candidates", "objective", "code", "retry_after", "words"),
    [
        ([], SECOND, Code.NO_WORKER, 5, "no prefill worker"),
        ([Candidate("a", Calendar(), 0.0)], SECOND, Code.NO_WORKER, 5, "open gate"),
        (
            [worker("a", 0.0, outstanding=2, free_from=3.5)],
            Objective(1.0, queue=2),
            Code.QUEUES_FULL,
            4,
            "holds 2 requests",
        ),
        (
            [worker("a", 0.0, outstanding=2, free_from=math.inf)],
            Objective(1.0, queue=2),
            Code.QUEUES_FULL,
            60,
            "retry in 60s",
        ),
        ([worker("a", 0.0, 0.05)], SECOND, Code.NO_BUBBLE_FITS, 60, "layers of 100ms each"),
        ([worker("a", 4.0)], SECOND, Code.OBJECTIVE_MISSED, 4, "after 4.2s, beyond the objective"),
        (
            [worker("a", 0.7)],
            Objective(1.0, margin=0.2),
            Code.OBJECTIVE_MISSED,
            1,
            "after 1.1s, beyond",
        ),
    ],
)
def test_a_refusal_says_why_and_when_to_retry(candidates, objective, code, retry_after, words):
    answer = route(REQUEST, candidates, objective, FREE, 0.0)
    assert isinstance(answer, Refuse)
    assert (answer.reason.code, answer.retry_after) == (code, retry_after)
    assert words in answer.reason.sentence


def test_an_offer_that_is_due_now_scores_one():
    offers = [
        Offer(worker("a", 0.0), ((0.0, 0.0),)),
        Offer(worker("b", 0.0), ((0.0, 2.0),)),
    ]
    assert earliness(offers, 0.0) == {"a": 1.0, "b": 0.0}


@given(st.lists(st.floats(0.001, 50), min_size=1, max_size=9))
def test_scores_lie_in_0_to_1_and_the_earliest_wins(finishes):
    offers = [Offer(worker(f"w{i}", 0.0), ((0.0, finish),)) for i, finish in enumerate(finishes)]
    scores = earliness(offers, 0.0)
    assert all(0 <= score <= 1 for score in scores.values())
    assert pick(offers, 0.0).finish == min(finishes)
