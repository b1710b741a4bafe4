"""Runs the example's job on the bed and takes its measure."""

import copy
import json
import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import yaml

from e2e.demo.measure import Busy, Run, gpu_busy
from e2e.lab import DATA_CENTERS, ROOT, Cluster, LabError, condition, hub, run, said, wait_for
from e2e.testbed import cpuwatch
from geotrain.units import parse_duration

EXAMPLE = ROOT / "examples/three-dc"
NAMESPACE = "team-a"
SECONDS_BETWEEN_LOOKS = 8  # each look takes CPU from what is measured
_ASK_BUSY = (
    "import socket;s=socket.socket(socket.AF_UNIX);"
    "s.connect('/proc/1/root/run/geotrain/accelerator.sock');"
    's.sendall(b\'{"query": "busy"}\\n\');print(s.makefile().readline())'
)


def manifest() -> dict[str, Any]:
    """The example's GeoTrainingJob."""
    documents = yaml.safe_load_all((EXAMPLE / "job.yaml").read_text())
    return next(d for d in documents if d and d["kind"] == "GeoTrainingJob")


def single_connection(job: Mapping[str, Any], iterations: int) -> dict[str, Any]:
    """The same job as one would run it without geotrain: 1F1B, one TCP connection a pair."""
    job = copy.deepcopy(dict(job))
    job["metadata"]["name"] += "-single"
    job["spec"]["schedule"]["policy"] = "OneFOneB"
    job["spec"]["network"] = {"connections": 1, "sharing": "Spatial"}
    with_iterations(job, iterations)
    return job


def with_iterations(job: dict[str, Any], iterations: int) -> None:
    """Set how long the trainer runs."""
    command = job["spec"]["template"]["spec"]["containers"][0]["command"]
    command[command.index("--iterations") + 1] = str(iterations)


class Training:
    """A job that runs on the bed."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self.name: str = job["metadata"]["name"]
        self.job = job

    def start(self, timeout: float = 300) -> None:
        """Apply the job and wait until all its pods run."""
        hub().apply(self.job)
        wait_for(f"running gang of {self.name}", self._runs, timeout, seen=self.why)

    def stop(self) -> None:
        """Delete the job and wait until nothing of it is left."""
        hub().delete("gtj", self.name, NAMESPACE)

    def resource(self) -> dict[str, Any]:
        """The job as the hub has it."""
        found = hub().get("gtj", self.name, NAMESPACE)
        if found is None:
            raise LabError(f"job {self.name} is gone")
        return found

    def why(self) -> str:
        """What the conditions say."""
        return said(self.resource())

    def planned(self) -> float:
        """The planned iteration, in seconds."""
        return parse_duration(self.resource()["status"]["plan"]["iterationTime"])

    def iterations(self) -> list[float]:
        """How long each iteration took so far, by rank 0's own clock."""
        text = self.first_cluster.kubectl(
            "logs", "-n", NAMESPACE, f"{self.name}-r0", "-c", "trainer"
        )
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return [line["seconds"] for line in lines if "iteration" in line]

    def await_iteration(self, number: int, timeout: float) -> int:
        """Wait until ``number`` iterations are done; return how many are."""

        def look() -> int:
            if (done := len(self.iterations())) >= number:
                return done
            self._must_live()
            return 0

        what = f"iteration {number} of {self.name}"
        return int(wait_for(what, look, timeout, every=SECONDS_BETWEEN_LOOKS))

    def measure(self, iterations: int, timeout: float) -> Run:
        """Measure so many iterations from the next one on."""
        with Stretch(self) as stretch:
            self.await_iteration(stretch.first + iterations, timeout)
        return stretch.run()

    def _runs(self) -> bool:
        self._must_live()
        return condition(self.resource(), "PodsReady").get("status") == "True"

    def _must_live(self) -> None:
        failed = condition(self.resource(), "Failed")
        if failed.get("status") == "True":
            raise RuntimeError(f"job {self.name} failed: {failed['message']}")

    @cached_property
    def first_cluster(self) -> Cluster:
        """Where rank 0 runs."""
        stages = self.resource()["status"]["plan"]["stages"]
        return Cluster(next(s["dataCenter"] for s in stages if s["firstStage"] == 0))


class Stretch:
    """A measured stretch of a job's life: what was read at its begin and at its end."""

    def __init__(self, training: Training) -> None:
        self._training = training

    def __enter__(self) -> "Stretch":
        self._iterations = len(self._training.iterations())
        self._busy, self._time = read_busy(self._training.name), time.time()
        return self

    def __exit__(self, *_: object) -> None:
        self._busy_end, self._time_end = read_busy(self._training.name), time.time()
        self._times = self._training.iterations()

    @property
    def first(self) -> int:
        """Iterations that were done at the begin."""
        return self._iterations

    def run(self) -> Run:
        """The iterations that ended inside; each took its time by the trainer's own clock."""
        times = self._times[self._iterations :]
        if not times:
            raise LabError(f"no iteration of {self._training.name} was measured whole")
        idle = cpuwatch.headroom_soon(self._time, self._time_end)
        return Run(tuple(times), gpu_busy(self._busy, self._busy_end), idle)


def read_busy(job: str) -> list[Busy]:
    """What each node's accelerator says of the job's devices."""
    ask = ("python3", "-c", _ASK_BUSY)
    readings = [json.loads(run("docker", "exec", f"{n}-accelerator", *ask)) for n in DATA_CENTERS]
    mine = f"{NAMESPACE}_{job}_r"
    for reading in readings:
        reading["devices"] = {k: v for k, v in reading["devices"].items() if k.startswith(mine)}
    return readings
