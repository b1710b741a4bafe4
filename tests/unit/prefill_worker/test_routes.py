import json
import math

import pytest

from examples.prefill.decode import Decode
from examples.prefill.kernels import LayerTimes
from examples.prefill.prompts import Prompts
from examples.prefill.serving import HttpError
from examples.prefill.worker import Worker, gate_document
from geotrain.gate import GateState, State
from geotrain.roles.router.workers import observation


def wanted():
    return True


@pytest.fixture
def prompts():
    return Prompts(most=1)


@pytest.fixture
def worker(prompts):
    return Worker(LayerTimes(3, ((1000, 0.004),)), prompts, None)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"count": 5}, "id must be a text"),
        ({"id": ""}, "id must be a text"),
        ({"id": "a"}, "give either tokens or count"),
        ({"id": "a", "tokens": [1], "count": 1}, "give either tokens or count"),
        ({"id": "a", "tokens": "x"}, "tokens must be a list"),
        ({"id": "a", "tokens": [1, True]}, "tokens must be a list of whole numbers"),
        ({"id": "a", "tokens": []}, "a prompt has 1 to"),
        ({"id": "a", "count": 0}, "a prompt has 1 to"),
        ({"id": "a", "count": 1.5}, "a prompt has 1 to"),
        ({"id": "a", "count": 2**20 + 1}, "a prompt has 1 to"),
    ],
)
def test_a_wrong_prompt_is_refused(worker, prompts, document, message):
    with pytest.raises(HttpError, match=message) as error:
        worker.prefill(document, wanted)
    assert error.value.status == 400
    assert prompts.state()["queue"] == []


def test_a_prompt_that_the_client_gave_up_is_503(worker):
    with pytest.raises(HttpError) as error:
        worker.prefill({"id": "a", "count": 5}, lambda: False)
    assert error.value.status == 503


def test_a_full_worker_is_429(worker, prompts):
    with pytest.raises(HttpError):
        worker.prefill({"id": "a", "count": 5}, lambda: False)
    with pytest.raises(HttpError) as error:
        worker.prefill({"id": "b", "count": 5}, wanted)
    assert error.value.status == 429


def test_the_router_understands_the_state_of_a_gpu_of_its_own(worker):
    document = json.loads(json.dumps(worker.state({}, wanted)))
    calendar = observation(document, 50.0).calendar
    assert calendar.bubbles == ((50.0, math.inf),)


def test_the_router_understands_a_page():
    page = GateState(
        State.IDLE, idle_until=100.5, updated=100.0, period=2.0, bubbles=((101.0, 101.5),)
    )
    state = {"now": 100.0, "queue": [], "computedSeconds": 0.0, "gate": gate_document(page)}
    calendar = observation(json.loads(json.dumps(state)), 50.0).calendar
    assert calendar.bubbles == ((50.0, 50.5), (51.0, 51.5))
    assert calendar.period == 2.0


@pytest.mark.parametrize(
    ("page", "document"),
    [
        (GateState(), {"state": "unknown", "idleUntil": None, "bubbles": [], "period": 0.0}),
        (
            GateState(State.COMPUTING, period=1.5, bubbles=((1.0, 2.0),)),
            {"state": "computing", "idleUntil": None, "bubbles": [[1.0, 2.0]], "period": 1.5},
        ),
        (
            GateState(State.IDLE, idle_until=math.inf),
            {"state": "idle", "idleUntil": (2**63 - 1) / 1e9, "bubbles": [], "period": 0.0},
        ),
    ],
)
def test_a_page_as_json(page, document):
    assert gate_document(page) == document


def test_decoding_follows_from_the_handle():
    decode = Decode().decode
    request = {"id": "a", "kv": {"handle": "1234"}, "max_tokens": 5}
    first, second = decode(request, wanted), decode({**request, "id": "b"}, wanted)
    other = decode({**request, "kv": {"handle": "1235"}}, wanted)
    assert first == second != other
    assert len(first["tokens"]) == len(first["text"].split()) == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kv": None}, "kv.handle"),
        ({"kv": {}}, "kv.handle"),
        ({"max_tokens": -1}, "max_tokens must be 0 to"),
        ({"max_tokens": None}, "max_tokens must be 0 to"),
    ],
)
def test_a_wrong_decode_is_refused(change, message):
    request = {"id": "a", "kv": {"handle": "1234"}, "max_tokens": 5, **change}
    with pytest.raises(HttpError, match=message):
        Decode().decode(request, wanted)
