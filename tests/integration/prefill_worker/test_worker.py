"""The reference worker over HTTP: prompts, the gate, and leaving without losing a request."""

import math
import socket
import threading
import time

import pytest

from geotrain.gate import GateState, State
from support.trainer_ranks import torch_python

OPEN = GateState(State.IDLE, idle_until=math.inf)


@pytest.fixture
def worker(run, gate):
    return run("--model", "none")


def eventually(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"after {seconds} s: no {what}"
        time.sleep(0.02)


def queue(worker):
    return [entry["id"] for entry in worker.call("/state")[2]["queue"]]


def test_a_prompt_takes_the_device_for_its_time(worker, gate, accelerator):
    gate.write(OPEN)
    status, _, answer = worker.call("/prefill", {"id": "a", "count": 2000})
    assert status == 200
    assert answer["layers"] == 10
    assert answer["computed"] >= 0.08
    assert answer["kv"]["bytes"] == 2000 * 10 * 4096
    device = accelerator.busy()["team-a_gpt_r2"]
    assert device["prefill"] == pytest.approx(0.08, abs=1e-6)
    assert device["prefillKernels"] == 20
    _, _, state = worker.call("/state")
    assert state["served"] == 1
    assert state["computedSeconds"] == pytest.approx(answer["computed"])
    assert state["queue"] == []


def test_nothing_is_computed_while_training_is(worker, gate, accelerator):
    gate.write(GateState(State.COMPUTING, period=100.0))
    answer = worker.later("/prefill", {"id": "a", "count": 1000})
    eventually(lambda: queue(worker) == ["a"], "queued prompt")
    time.sleep(0.3)
    assert accelerator.busy() == {}
    gate.write(OPEN)
    assert answer()[0] == 200


def test_a_prefill_pauses_between_layers_and_goes_on_in_the_next_bubble(worker, gate, accelerator):
    answer = worker.later("/prefill", {"id": "a", "count": 1000})
    eventually(lambda: queue(worker) == ["a"], "queued prompt")
    ends = []
    for _ in range(40):  # bubbles of 30 ms hold at most 7 of the 10 layers of 4 ms
        end = time.monotonic() + 0.03
        gate.write(GateState(State.IDLE, idle_until=end, period=100.0))
        time.sleep(max(0.0, end - time.monotonic()))
        gate.write(GateState(State.COMPUTING, period=100.0))
        ends.append(accelerator.busy().get("team-a_gpt_r2", {}).get("prefillKernels", 0))
        time.sleep(0.02)
        if ends[-1] == 10:
            break
    assert answer()[0] == 200
    assert len({count for count in ends if count}) >= 2, ends
    assert all(after - before <= 7 for before, after in zip([0, *ends], ends, strict=False))


def test_the_state_shows_the_gate_and_the_queue(worker, gate):
    bubbles = ((1e6, 1e6 + 0.5),)
    gate.write(GateState(State.COMPUTING, period=100.0, bubbles=bubbles))
    answers = [worker.later("/prefill", {"id": name, "count": 1000}) for name in "a"]
    eventually(lambda: queue(worker) == ["a"], "queued prompt")
    _, _, state = worker.call("/state")
    assert state["gate"] == {
        "state": "computing", "idleUntil": None, "bubbles": [[1e6, 1e6 + 0.5]], "period": 100.0
    }  # fmt: skip
    assert state["queue"] == [{"id": "a", "remaining": pytest.approx(0.04)}]
    assert abs(state["now"] - time.monotonic()) < 5
    assert abs(state["wall"] - time.time()) < 5
    gate.write(OPEN)
    assert [answer()[0] for answer in answers] == [200]


def test_a_client_that_hangs_up_frees_its_place(worker, gate, accelerator):
    gate.write(GateState(State.COMPUTING, period=100.0))
    with socket.create_connection(("127.0.0.1", worker.port)) as client:
        body = b'{"id": "a", "count": 1000}'
        client.sendall(
            b"POST /prefill HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        )
        eventually(lambda: queue(worker) == ["a"], "queued prompt")
    eventually(lambda: queue(worker) == [], "empty queue")
    gate.write(OPEN)
    time.sleep(0.3)
    assert accelerator.busy() == {}


def test_sigterm_ends_the_prompt_at_work_and_sends_the_others_on(worker, gate):
    gate.write(GateState(State.COMPUTING, period=100.0))
    first = worker.later("/prefill", {"id": "a", "count": 1000})
    eventually(lambda: queue(worker) == ["a"], "queued prompt")
    second = worker.later("/prefill", {"id": "b", "count": 1000})
    eventually(lambda: queue(worker) == ["a", "b"], "queued prompts")
    worker.terminate()
    status, headers, _ = second()
    assert (status, headers["Retry-After"]) == (503, "1")
    assert worker.call("/prefill", {"id": "c", "count": 1000})[0] == 503
    gate.write(OPEN)
    assert first()[0] == 200
    assert worker.wait() == 0


def test_sigterm_does_not_wait_for_a_bubble_for_ever(run, gate):
    worker = run("--model", "none", "--grace", "0.5")
    gate.write(GateState(State.COMPUTING, period=100.0))
    answer = worker.later("/prefill", {"id": "a", "count": 1000})
    eventually(lambda: queue(worker) == ["a"], "queued prompt")
    worker.terminate()
    assert answer()[0] == 503
    assert worker.wait() == 0


def test_a_lost_accelerator_ends_the_worker_and_its_prompts(worker, gate, accelerator):
    gate.write(OPEN)
    answers = [worker.later("/prefill", {"id": name, "count": 500_000}) for name in "ab"]
    eventually(lambda: len(queue(worker)) == 2, "queued prompts")
    accelerator.stop()
    try:
        assert [answer()[0] for answer in answers] == [503, 503]
        assert worker.wait(60) == 1
    finally:
        accelerator.start()


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/prefill", {"id": "a"}, 400),
        ("/prefill", [], 400),
        ("/nothing", None, 404),
        ("/prefill", None, 404),
        ("/healthz", None, 200),
    ],
)
def test_statuses(worker, path, body, status):
    assert worker.call(path, body)[0] == status


@pytest.mark.parametrize("length", ["x", "-1", "999999999999"])
def test_a_body_without_a_sensible_length_is_refused(worker, length):
    with socket.create_connection(("127.0.0.1", worker.port)) as client:
        client.sendall(f"POST /prefill HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode())
        assert client.recv(12) == b"HTTP/1.1 400"


def test_the_tiny_transformer_makes_the_same_token_whatever_the_chunks(run, gate):
    gate.write(OPEN)
    tokens = [(7 * n) % 1024 for n in range(300)]
    answers = []
    for window in ("64", "300"):
        worker = run("--window", window, "--real-layers", "3", python=torch_python())
        calls = [{"id": name, "tokens": tokens} for name in "ab"]
        answers.append([worker.call("/prefill", call)[2] for call in calls])
    for first, second in answers:
        assert first["token"] == second["token"]
    assert answers[0][0]["kv"] == answers[1][0]["kv"]


def test_decode_serves(run):
    service = run(module="examples.prefill.decode")
    request = {"id": "a", "kv": {"handle": "1234", "worker": "http://w"}, "max_tokens": 3}
    status, _, answer = service.call("/v1/decode", request)
    assert status == 200
    assert len(answer["tokens"]) == 3
    service.terminate()
    assert service.wait() == 0


def test_many_connections_are_served_at_once(worker, gate):
    gate.write(OPEN)
    statuses = []

    def call(number):
        statuses.append(worker.call("/prefill", {"id": str(number), "count": 100})[0])

    threads = [threading.Thread(target=call, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert statuses == [200] * 32
