"""The client against the test bed's server."""

import threading
import time

import pytest

from examples.trainer.accelerator import Accelerator, AcceleratorError, NoDevice, device_for_rank


@pytest.fixture
def connect(accelerator):
    clients = []

    def make(owner="training", **options):
        clients.append(Accelerator(accelerator.path, "team-a_gpt_r2", owner, **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def test_a_kernel_takes_its_time(connect):
    device, begin = connect(), time.monotonic()
    device.run("2F0", 0.05)
    assert 0.05 <= time.monotonic() - begin < 0.08


def test_real_work_is_done_while_the_device_is_held(connect):
    device, begin = connect(), time.monotonic()
    device.start("2F0", 0.1)
    time.sleep(0.08)
    device.finish()
    assert 0.1 <= time.monotonic() - begin < 0.14


def test_training_and_prefill_exclude_each_other(connect):
    training, prefill = connect(), connect("prefill")
    begin = time.monotonic()
    other = threading.Thread(target=prefill.run, args=("layer", 0.06))
    other.start()
    training.run("2F0", 0.06)
    other.join()
    assert time.monotonic() - begin >= 0.12


def test_a_kernel_without_time_asks_nobody(tmp_path):
    device = Accelerator(str(tmp_path / "nobody"), "d", "training", patience=0.0)
    device.run("2F0", 0.0)


def test_a_server_that_starts_again_is_found(connect, accelerator):
    device = connect()
    device.run("2F0", 0.001)
    accelerator.stop()
    threading.Timer(0.3, accelerator.start).start()
    begin = time.monotonic()
    device.run("2F1", 0.01)
    assert time.monotonic() - begin > 0.3


def test_a_server_that_dies_while_the_kernel_runs_runs_it_again(connect, accelerator):
    device = connect()
    device.start("2F0", 0.3)
    accelerator.stop()
    accelerator.start()
    begin = time.monotonic()
    device.finish()
    assert time.monotonic() - begin >= 0.3


def test_patience_ends(tmp_path):
    device = Accelerator(str(tmp_path / "nobody"), "d", "training", patience=0.1)
    with pytest.raises(AcceleratorError, match="nobody answers at"):
        device.run("2F0", 0.01)


def test_a_refused_kernel_is_an_error(connect):
    with pytest.raises(AcceleratorError, match="owner must be one of"):
        connect("somebody").run("2F0", 0.01)


def test_a_rank_finds_its_device_in_the_environment(accelerator):
    variables = {
        "GEOTRAIN_ACCELERATOR": accelerator.path, "GEOTRAIN_JOB": "team-a/gpt", "RANK": "2"
    }  # fmt: skip
    device = device_for_rank(variables)
    device.run("2F0", 0.001)
    device.close()
    assert device._device == "team-a_gpt_r2"
    idle = device_for_rank({})
    assert isinstance(idle, NoDevice)
    idle.run("2F0", 100.0)
