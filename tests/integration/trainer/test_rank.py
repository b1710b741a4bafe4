"""How a rank behaves in its pod: signals, the accelerator, checkpoints, SIGTERM, lost peers."""

import json
import signal
import socket
import time
from itertools import pairwise

import pytest

PROFILE = {
    "layers": [
        {"count": 2, "forward": "10ms", "inputGradient": "12ms", "weightGradient": "8ms"},
    ],
    "boundaryBytes": "100000",
    "optimizerStep": "5ms",
}


@pytest.fixture
def profile(tmp_path):
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(PROFILE))
    return str(path)


def test_the_accelerator_is_held_for_the_profiles_time(make_ranks, profile, accelerator):
    ranks = make_ranks(2, 1, 3)
    ranks.start(
        *("--iterations", "4", "--profile", profile),
        GEOTRAIN_ACCELERATOR=accelerator.path,
        GEOTRAIN_JOB="team-a/gpt",
    )
    assert ranks.wait() == [0, 0], ranks.errors(0)
    devices = accelerator.busy()
    assert set(devices) == {"team-a_gpt_r0", "team-a_gpt_r1"}
    for device in devices.values():
        # forward 10 ms, backward 10 + 12 + 8 ms with recompute, the optimizer's step 5 ms
        assert device["training"] == pytest.approx(4 * (3 * 0.040 + 0.005), abs=1e-6)
        assert device["trainingKernels"] == 4 * 7
    # 1F1B of two stages takes (3 + 1) x (F + B) and a step, as planned
    assert min(line["seconds"] for line in ranks.lines(0)) >= 0.160


def test_an_early_recompute_runs_while_the_rank_waits_for_its_gradient(
    make_ranks, tmp_path, accelerator
):
    slow_last = [
        {"forward": "10ms", "inputGradient": "10ms", "weightGradient": "10ms"},
        {"forward": "60ms", "inputGradient": "60ms", "weightGradient": "60ms"},
    ]
    path = tmp_path / "profile.json"
    path.write_text(json.dumps({"layers": slow_last, "boundaryBytes": "1000"}))
    ranks = make_ranks(2, 1, 1)
    ranks.start(
        *("--iterations", "4", "--recompute", "early", "--profile", str(path)),
        *("--trace", str(tmp_path / "trace")),
        GEOTRAIN_ACCELERATOR=accelerator.path,
        GEOTRAIN_JOB="team-a/gpt",
    )
    assert ranks.wait() == [0, 0], ranks.errors(0)
    # the recompute counts, and it is over when the gradient comes: what follows takes 20 ms
    assert accelerator.busy()["team-a_gpt_r0"]["training"] == pytest.approx(4 * 0.040, abs=1e-6)
    lines = (tmp_path / "trace" / "actions-r0.jsonl").read_text().splitlines()
    backwards = [line for line in map(json.loads, lines) if line["action"] == "0B0"]
    assert len(backwards) == 4
    assert 0.020 <= min(line["end"] - line["arrived"] for line in backwards) < 0.030


def test_signals_tell_what_the_rank_does(make_ranks, profile, accelerator, tmp_path):
    path = str(tmp_path / "signal.sock")
    ranks = make_ranks(2, 1, 2)
    options = ("--iterations", "4", "--profile", profile)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sidecar:
        sidecar.bind(path)
        ranks.start(*options, GEOTRAIN_ACCELERATOR=accelerator.path, signals={1: path})
        events = list(received(sidecar))
    assert ranks.wait() == [0, 0], ranks.errors(1)

    kinds = [event["event"] for event in events]
    assert kinds[-1] == "done"
    assert [e["iteration"] for e in events if e["event"] == "iteration"] == [0, 1, 2, 3]
    computed = [e["action"] for e in events if e["event"] == "compute"]
    assert computed == ["1F0", "1B0", "1F1", "1B1", "step"] * 4
    times = [event["time"] for event in events[:-1]]
    assert times == sorted(times)
    finished = [e for e in events if e["event"] == "finished"]
    assert [e["loss"] for e in finished] == [line["loss"] for line in ranks.lines(1)]

    # Once two iterations have begun, the wait for the next is foretold to end a period later.
    begins = [event["time"] for event in events if event["event"] == "iteration"]
    waits = [
        (event["until"], sum(begin < event["time"] for begin in begins))
        for event, after in pairwise(events)
        if event["event"] == "wait" and after["event"] == "iteration"
    ]
    foretold = [(until, begun) for until, begun in waits if begun >= 2]
    assert foretold
    for until, begun in foretold:
        expected = 2 * begins[begun - 1] - begins[begun - 2]
        assert until == pytest.approx(expected, abs=0.05)


def received(sidecar):
    """All signals up to the last."""
    sidecar.settimeout(60)
    while True:
        event = json.loads(sidecar.recv(4096))
        yield event
        if event["event"] == "done":
            return


def test_a_run_goes_on_from_the_newest_checkpoint_that_all_have(make_ranks, tmp_path):
    directory = tmp_path / "checkpoints"
    options = ("--checkpoint-dir", str(directory), "--checkpoint-every", "4")
    whole = make_ranks(2, 1, 3).alone()
    first = make_ranks(2, 1, 3)
    first.start(*options, "--iterations", "12")
    assert first.wait() == [0, 0], first.errors(0)
    (directory / "stage-1-of-2-replica-0" / "00000012.pt").unlink()  # a crash before its rename
    second = make_ranks(2, 1, 3)
    second.start(*options)
    assert second.wait() == [0, 0], second.errors(0)
    lines = second.lines(1)
    assert [line["iteration"] for line in lines] == list(range(8, 20))
    assert [line["loss"] for line in lines] == pytest.approx(whole[8:], abs=1e-4)
    kept = sorted(path.name for path in (directory / "stage-0-of-2-replica-0").iterdir())
    assert kept == ["00000012.pt", "00000016.pt", "00000020.pt"]


def test_sigterm_ends_a_rank_after_its_action(make_ranks, eventually):
    ranks = make_ranks(2, 1, 3)
    ranks.start("--iterations", "1000000")
    eventually(lambda: len(ranks.lines(1)) > 2, "iteration")
    begin = time.monotonic()
    for process in ranks.processes:
        process.send_signal(signal.SIGTERM)
    assert ranks.wait() == [143, 143]
    assert time.monotonic() - begin < 5


def test_sigterm_ends_a_rank_that_waits_for_the_others(make_ranks):
    ranks = make_ranks(2, 1, 3)
    process = ranks.start_one(RANK="1", MASTER_ADDR="nobody.invalid", MASTER_PORT="1")
    ranks.processes.append(process)
    time.sleep(3)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(15) == 143


def test_a_lost_peer_ends_the_rank(make_ranks, eventually):
    ranks = make_ranks(2, 1, 3)
    ranks.start("--iterations", "1000000")
    eventually(lambda: len(ranks.lines(1)) > 2, "iteration")
    ranks.processes[0].kill()
    assert ranks.processes[1].wait(30) == 1
    assert "PeerError" in ranks.errors(1)


@pytest.mark.parametrize(
    ("variables", "options", "message"),
    [
        ({"GEOTRAIN_DATA": "none"}, (), "GEOTRAIN_DATA is 'none'"),
        ({"GEOTRAIN_SCHEDULE": "/missing"}, (), "the schedule cannot be read"),
        ({}, ("--profile", "/missing"), "the profile cannot be read"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_2(make_ranks, variables, options, message):
    ranks = make_ranks(2, 1, 3)
    process = ranks.start_one(*options, RANK="0", **variables)
    assert process.wait(60) == 2
    assert ranks.errors(0).startswith(f"trainer: {message}")
    assert len(ranks.errors(0).splitlines()) == 1
