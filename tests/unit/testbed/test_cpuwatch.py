"""Headroom: how idle the machine was between two moments."""

import json
import threading
import time
from pathlib import Path

import pytest

from e2e.testbed.cpuwatch import Sample, headroom, headroom_soon, idle_share, parse_stat

STAT = "cpu  100 5 50 800 20 3 2 20 7 0\ncpu0 50 2 25 400 10 1 1 10 3 0\n"
# Ten seconds of two CPUs at 100 ticks: idle, then full from 4 to 6.
SAMPLES = [Sample(t, 200 * t - 200 * min(max(t - 4, 0), 2), 200 * t) for t in range(11)]


def test_waiting_for_disks_is_idle_and_stolen_time_is_not() -> None:
    assert parse_stat(STAT) == (820, 1000)


@pytest.mark.parametrize(
    ("begin", "end", "share"), [(0, 4, 1.0), (4, 6, 0.0), (3, 7, 0.5), (4.2, 5.8, 0.0)]
)
def test_the_share_is_that_of_the_interval(begin: float, end: float, share: float) -> None:
    assert idle_share(SAMPLES, begin, end) == pytest.approx(share)


@pytest.mark.parametrize(("begin", "end"), [(-1, 3), (8, 11)])
def test_an_interval_that_was_not_watched_whole_has_no_share(begin: float, end: float) -> None:
    assert idle_share(SAMPLES, begin, end) is None


def test_an_interval_within_one_sample_has_no_share() -> None:
    assert idle_share([Sample(1.0, 5, 10)], 1.0, 1.0) is None


def test_samples_are_read_from_the_file_without_a_half_written_end(tmp_path: Path) -> None:
    path = tmp_path / "cpu.jsonl"
    path.write_text("".join(json.dumps(vars(s)) + "\n" for s in SAMPLES) + '{"time": 11, "id')
    assert headroom(4, 6, path) == pytest.approx(0.0)
    assert headroom(4, 6, tmp_path / "absent") is None


def write(path: Path, *samples: Sample) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(vars(sample)) + "\n" for sample in samples)


def test_an_interval_that_has_just_ended_waits_for_the_sample_after_it(tmp_path: Path) -> None:
    path = tmp_path / "cpu.jsonl"
    write(path, *SAMPLES[:7])
    assert headroom(4, 6.5, path) is None
    later = threading.Timer(0.3, write, (path, SAMPLES[7]))
    later.start()
    assert headroom_soon(4, 6.5, 30.0, path) == pytest.approx(1 / 3)
    later.join()


def test_nobody_who_watches_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    begin = time.monotonic()
    assert headroom_soon(4, 6, 0.2, tmp_path / "absent") is None
    assert time.monotonic() - begin < 5
