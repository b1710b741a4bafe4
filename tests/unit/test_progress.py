import json

import pytest

from geotrain.progress import Progress


@pytest.fixture
def sent():
    return []


@pytest.fixture
def progress(sent):
    return Progress(lambda message: sent.append(json.loads(message)), clock=lambda: 12.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.iteration(7), {"event": "iteration", "iteration": 7, "time": 12.5}),
        (
            lambda p: p.computing("2F0", 0.0103),
            {"event": "compute", "action": "2F0", "time": 12.5, "seconds": 0.0103},
        ),
        (lambda p: p.waiting(), {"event": "wait", "time": 12.5, "until": None}),
        (lambda p: p.waiting(12.75), {"event": "wait", "time": 12.5, "until": 12.75}),
        (
            lambda p: p.finished(7, 1.64, 5.1),
            {"event": "finished", "iteration": 7, "time": 12.5, "seconds": 1.64, "loss": 5.1},
        ),
        (
            lambda p: p.finished(7, 1.64),
            {"event": "finished", "iteration": 7, "time": 12.5, "seconds": 1.64, "loss": None},
        ),
        (lambda p: p.done(), {"event": "done"}),
    ],
)
def test_each_signal_is_one_json_object(progress, sent, call, message):
    call(progress)
    assert sent == [message]


def test_a_signal_that_nobody_takes_is_dropped():
    def refuse(_):
        raise BlockingIOError

    progress = Progress(refuse)
    progress.iteration(0)
    progress.done()
    assert progress.dropped == 2


def test_without_the_variable_signals_go_to_nobody():
    progress = Progress.from_environment({})
    progress.iteration(0)
    progress.close()
    assert progress.dropped == 0


def test_where_nobody_listens_training_goes_on(tmp_path):
    progress = Progress.from_environment({"GEOTRAIN_SIGNAL": str(tmp_path / "signal.sock")})
    progress.iteration(0)
    progress.close()
    progress.iteration(1)
    assert progress.dropped == 2
