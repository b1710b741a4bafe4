import math

import pytest

from geotrain.prefill.admission import Calendar
from geotrain.roles.router.ports import Text, WorkerBusy, WorkerLost, WorkerRefused
from geotrain.roles.router.workers import _prefilled, observation


def state(queue=(), **gate):
    default = {"state": "computing", "idleUntil": None, "bubbles": [], "period": 2.0}
    return {"now": 100.0, "gate": default | gate, "queue": list(queue), "computedSeconds": 1.5}


def calendar(**gate):
    return observation(state(**gate), 10.0).calendar


def test_times_are_mapped_to_the_routers_clock():
    assert calendar(bubbles=[[101, 102], [103, 104]]) == Calendar(((11, 12), (13, 14)), 2.0)


def test_a_bubble_under_way_ends_when_the_live_signal_says():
    assert calendar(state="idle", idleUntil=101, bubbles=[[99, 105], [106, 107]]) == Calendar(
        ((10, 11), (16, 17)), 2.0
    )


def test_an_idleness_without_end_is_no_bubble_of_its_own():
    assert calendar(state="idle", bubbles=[[99, 105]]) == Calendar(((10, 15),), 2.0)


def test_a_signal_that_is_out_of_date_is_no_bubble():
    assert calendar(state="idle", idleUntil=99, bubbles=[[101, 102]]) == Calendar(((11, 12),), 2.0)


def test_bubbles_that_are_over_are_dropped():
    assert calendar(bubbles=[[90, 95], [99, 101]]) == Calendar(((10, 11),), 2.0)


@pytest.mark.parametrize("until", [2**63 / 1e9, math.inf])
def test_after_training_the_gpu_is_free_for_good(until):
    assert calendar(state="idle", idleUntil=until, period=0).bubbles == ((10, math.inf),)


def test_an_unknown_gate_is_closed():
    assert calendar(state="unknown", bubbles=[[101, 102]]) == Calendar()


def test_the_queue_and_the_computed_time_are_read():
    seen = observation(state([{"id": "a", "remaining": 0.5}, {"id": "b", "remaining": -1}]), 10.0)
    assert seen.queue == (("a", 0.5), ("b", 0.0))
    assert seen.computed == 1.5


@pytest.mark.parametrize("missing", ["now", "gate", "queue", "computedSeconds"])
def test_a_state_that_lacks_something_is_refused(missing):
    document = state()
    del document[missing]
    with pytest.raises(KeyError):
        observation(document, 0.0)


def test_a_prefills_answer_is_read():
    body = b'{"queued":0.5,"computed":0.25,"layers":4,"kv":{"handle":"h"},"token":3,"text":"t"}'
    answer = _prefilled("http://w", 200, body)
    assert answer.kv == {"handle": "h", "worker": "http://w"}
    assert (answer.queued, answer.computed, answer.first) == (0.5, 0.25, Text("t", (3,)))


def test_a_worker_need_not_say_the_first_token():
    answer = _prefilled("http://w", 200, b'{"queued":0,"computed":1,"kv":{}}')
    assert answer.first == Text()


@pytest.mark.parametrize(
    ("status", "body", "fault"),
    [
        (503, b"", WorkerBusy),
        (429, b"", WorkerBusy),
        (400, b"too long \xff", WorkerRefused),
        (404, b"", WorkerLost),
        (500, b"", WorkerLost),
        (200, b"{", WorkerLost),
        (200, b"[]", WorkerLost),
        (200, b"{}", WorkerLost),
    ],
)
def test_every_other_answer_is_a_fault(status, body, fault):
    with pytest.raises(fault):
        _prefilled("http://w", status, body)
