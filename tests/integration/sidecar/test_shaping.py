"""The kernel's HTB: what is applied is what is observed, and windows change the measured rate."""

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.sidecars import PACKAGE, SINK, Bed, flow, result, wait

pytestmark = pytest.mark.net
MakeBed = Callable[..., Bed]
MB = 1_000_000

APPLY_TWICE = """
import json
from geotrain.adapters.netlink import Htb
from geotrain.errors import KernelError
from geotrain.shaping.diff import diff
from geotrain.shaping.tree import Share, tree
htb = Htb("eth0")
shares = [Share(1, 50e6, 5e6), Share(2, 50e6, 5e6)]
counts = []
for wanted in (tree(shares, 50e6, {1: 50e6}), tree(shares, 50e6, {2: 50e6}), tree(shares, None),
               tree(shares[:1], 50e6), None):
    for _ in range(2):
        operations = diff(htb.observe(), wanted)
        counts.append(len(operations))
        for operation in operations:
            htb.apply(operation)
    observed = htb.observe()
    assert observed == wanted or set(observed.classes) == set(wanted.classes), observed
try:
    Htb("nowhere")
except KernelError as error:
    counts.append(str(error))
print(json.dumps(counts))
"""


def test_a_second_application_changes_nothing(make_bed: MakeBed) -> None:
    bed = make_bed([])
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    process = bed.lab.start("p0", [sys.executable, "-c", APPLY_TWICE], env=environment)
    out, _ = process.communicate(timeout=60)
    assert json.loads(out) == [6, 0, 2, 0, 4, 0, 4, 0, 1, 0, "there is no interface nowhere"]


def test_the_pods_rate_holds_for_all_of_its_cross_dc_traffic(make_bed: MakeBed) -> None:
    bed = make_bed([flow(1, 0, 2, connections=4, rate=20e6, idleRate=2e6)], perPodRate=20e6)
    bed.start()
    bed.serve(2, "sink", SINK)
    bed.serve(3, "sink", SINK)
    bed.serve(1, "sink", SINK)
    striped = bed.begin(0, "send", bed.addresses[2], SINK, 4 * MB)
    plain = bed.begin(0, "send", bed.addresses[3], SINK, 2 * MB)
    seconds = max(result(striped)["seconds"], result(plain)["seconds"])
    assert 15e6 < 6 * MB * 8 / seconds < 21e6
    local = bed.traffic(0, "send", bed.addresses[1], SINK, 20 * MB)
    assert 20 * MB * 8 / local["seconds"] > 60e6


class Trainer(threading.Thread):
    """Signals iterations of ``period`` to a sidecar until it is stopped."""

    def __init__(self, path: Path, period: float) -> None:
        super().__init__(daemon=True)
        self.path = str(path)
        self.period = period
        self.stopped = threading.Event()

    def run(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            iteration = 0
            while not self.stopped.is_set():
                now = time.monotonic()
                for message in (
                    {"event": "iteration", "iteration": iteration, "time": now},
                    {"event": "compute", "action": "0F0", "time": now, "seconds": 0.01},
                    {"event": "wait", "time": now, "until": now + self.period},
                ):
                    channel.sendto(json.dumps(message).encode(), self.path)
                self.stopped.wait(self.period)
                done = {"event": "finished", "iteration": iteration, "time": time.monotonic()}
                message = {**done, "seconds": self.period, "loss": 1.5}
                channel.sendto(json.dumps(message).encode(), self.path)
                iteration += 1


def test_windows_change_the_measured_rate(make_bed: MakeBed) -> None:
    """Two flows compete; each has nearly everything in its window and its idle rate outside."""
    period = 4.0
    flows = [
        flow(1, 0, 2, connections=4, rate=20e6, idleRate=2e6),
        flow(2, 0, 3, connections=4, rate=20e6, idleRate=2e6),
    ]
    windows = [
        {"flow": 1, "offset": 0.0, "length": 2.0, "rate": 20e6},
        {"flow": 2, "offset": 2.0, "length": 2.0, "rate": 20e6},
    ]
    plan = {"period": period, "windows": windows, "firstAction": {"0": 0.0}}
    bed = make_bed(flows, perPodRate=20e6, bubbles={"0": [[1.0, 2.0]]}, **plan)
    bed.start()
    bed.serve(2, "sink", SINK)
    bed.serve(3, "sink", SINK)
    trainer = Trainer(bed.file(0, "signal.sock"), period)
    trainer.start()
    transfers = [bed.begin(0, "send", bed.addresses[r], SINK, 14 * MB) for r in (2, 3)]
    try:
        wait(lambda: (bed.status(0) or {"iteration": 0})["iteration"] >= 3, 60)
        status = bed.status(0)
    finally:
        trainer.stopped.set()
        trainer.join()
    assert status is not None
    for number in ("1", "2"):
        account = status["flows"][number]
        assert account["bytesInWindow"] > 4 * account["bytesAgainst"], status
    assert status["windowsEnforced"] is True, status
    assert status["loss"] == 1.5
    assert bed.file(0, "gate").stat().st_size == 4096
    for transfer in transfers:
        assert result(transfer)["answers"]


def test_without_signals_flows_share_and_the_status_says_why(make_bed: MakeBed) -> None:
    windows = [{"flow": 1, "offset": 0.0, "length": 2.0, "rate": 20e6}]
    plan = {"period": 4.0, "windows": windows, "perPodRate": 20e6}
    bed = make_bed([flow(1, 0, 2, connections=2, rate=20e6)], **plan)
    bed.start(0)
    status = bed.status(0)
    assert status is not None
    assert status["windowsEnforced"] is False
    assert status["reason"].startswith("NoSignal")
    wait(lambda: "htb 1:101" in bed.lab.run("p0", "tc", "class", "show", "dev", "eth0"), 5)
