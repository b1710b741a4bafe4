"""Real sidecar processes in the pods of a ``Lab``: two data centres, two ranks in each.

Ranks 0 and 1 (replicas of stage 0) are in ``west``, ranks 2 and 3 (stage 1) in ``east``.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.wan import Lab

TRAFFIC = str(Path(__file__).parent / "traffic.py")
PACKAGE = Path(__file__).parents[2] / "operator"
DATA_CENTERS = ("west", "west", "east", "east")
SINK, ECHO = 5000, 5001


class Bed:
    """Four pods, a sidecar in each; ``flows`` and ``options`` go into network.json."""

    def __init__(self, lab: Lab, folder: Path, flows: list[dict[str, Any]], **options: Any) -> None:
        self.lab = lab
        self.folder = folder
        self.addresses = [lab.pod(self.name(r), int(r > 1)) for r in range(4)]
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.plan(flows, **options)

    @staticmethod
    def name(rank: int) -> str:
        return f"p{rank}"

    def plan(self, flows: list[dict[str, Any]], **options: Any) -> None:
        """Write network.json of every pod."""
        for rank in range(4):
            near = DATA_CENTERS[rank]
            far, cidr = ("east", "10.2.0.0/16") if near == "west" else ("west", "10.1.0.0/16")
            document = {
                "job": "test/job",
                "dataCenter": near,
                "localCidrs": ["10.1.0.0/16" if near == "west" else "10.2.0.0/16"],
                "remoteCidrs": {far: [cidr]},
                "ranks": {
                    str(r): {
                        "address": self.addresses[r],
                        "dataCenter": DATA_CENTERS[r],
                        "stage": r // 2,
                        "replica": r % 2,
                    }
                    for r in range(4)
                },
                "connectionWindow": self.lab.window,
                "flows": flows,
                **options,
            }
            self.file(rank, "network.json").write_text(json.dumps(document))

    def file(self, rank: int, name: str) -> Path:
        folder = self.folder / self.name(rank)
        folder.mkdir(exist_ok=True)
        return folder / name

    def start(self, *ranks: int) -> None:
        """Start sidecars, and return when they are healthy."""
        for rank in ranks or range(4):
            environment = {
                **os.environ,
                "PYTHONPATH": str(PACKAGE),
                "RANK": str(rank),
                "GEOTRAIN_JOB": "test/job",
                "GEOTRAIN_NETWORK": str(self.file(rank, "network.json")),
                "GEOTRAIN_SIGNAL": str(self.file(rank, "signal.sock")),
                "GEOTRAIN_GATE": str(self.file(rank, "gate")),
            }
            log = self.file(rank, "log").open("wb")
            command = [sys.executable, "-m", "geotrain", "sidecar"]
            self.processes[rank] = self.lab.start(
                self.name(rank), command, env=environment, stderr=log, stdout=log
            )
            log.close()
        for rank in ranks or range(4):
            wait(lambda rank=rank: self.status(rank) is not None, 60)  # type: ignore[misc]

    def status(self, rank: int) -> dict[str, Any] | None:
        """The sidecar's /status; None while it does not answer."""
        try:
            return dict(json.loads(self.get(rank, "status")))
        except (RuntimeError, ValueError):
            return None

    def get(self, rank: int, page: str) -> str:
        url = f"http://127.0.0.1:15003/{page}"
        script = f"import urllib.request as u; print(u.urlopen({url!r}, timeout=5).read().decode())"
        return self.lab.run(self.name(rank), sys.executable, "-S", "-c", script)

    def serve(self, rank: int, verb: str, port: int) -> None:
        """Start a traffic program that accepts."""
        process = self.lab.start(self.name(rank), [sys.executable, TRAFFIC, verb, str(port)])
        assert process.stdout is not None
        process.stdout.readline()

    def traffic(self, rank: int, *words: object) -> dict[str, Any]:
        """Run a traffic program that connects; what it printed."""
        text = self.lab.run(self.name(rank), sys.executable, TRAFFIC, *map(str, words))
        return dict(json.loads(text))

    def begin(self, rank: int, *words: object) -> subprocess.Popen[bytes]:
        """Start one beside others; ``result`` waits for it."""
        return self.lab.start(self.name(rank), [sys.executable, TRAFFIC, *map(str, words)])


def result(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """What a traffic program printed, once it has ended."""
    out, _ = process.communicate(timeout=120)
    return dict(json.loads(out))


def flow(number: int, source: int, target: int, **more: Any) -> dict[str, Any]:
    """A flow as it stands in network.json."""
    base = {"id": number, "source": source, "target": target, "mates": [], "connections": 1}
    return {**base, "rate": 1e9, "idleRate": 1e6, **more}


def wait(condition: Callable[[], object], seconds: float) -> None:
    """Until it holds; fails after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)
