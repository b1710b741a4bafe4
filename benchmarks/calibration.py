"""Calibrate the constants of vTrain's cluster on half of its runs, and test on everything else.

    python -m benchmarks.calibration [--half first|second] [--fit]

Prints JSON lines: the errors of the constants in the code (and with ``--fit`` those found here) on
both halves of vTrain's 73 runs and on table 5 of arXiv 2205.05198, to which nothing was fitted.
The halves are every second row from the first or the second on. The loss is the mean absolute
logarithm of predicted over measured, cut at 13 % so that disturbed runs do not pull, with what
exceeds 10 % counted sevenfold, because a planner is misled by its large errors.
"""

import csv
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from geotrain.planning.costs.clusters import SELENE, VTRAIN
from geotrain.planning.costs.iterations import Cluster, Layout, iteration
from geotrain.planning.costs.layers import Training
from geotrain.planning.costs.memory import MIXED_MAIN_GRADIENTS, Recompute
from geotrain.planning.costs.shapes import Shape
from geotrain.planning.costs.tiers import Constant, Tier
from geotrain.units import Seconds

DATA = Path(__file__).parents[1] / "tests" / "data"
FULL = Training(recompute=Recompute.ALL, state=MIXED_MAIN_GRADIENTS)
SELECTIVE = replace(FULL, recompute=Recompute.ATTENTION, sequence_parallel=True)
VOCABULARY = 51_200


@dataclass(frozen=True, slots=True)
class Run:
    """A model that somebody trained, and how long an iteration took."""

    shape: Shape
    layout: Layout
    training: Training
    measured: Seconds

    def error(self, cluster: Cluster) -> float:
        """Predicted over measured, less 1."""
        return iteration(self.shape, self.layout, cluster, self.training) / self.measured - 1


def vtrain() -> list[Run]:
    """The runs of vTrain's ground truth, in the file's order."""
    with (DATA / "vtrain" / "ground_truth_multi.csv").open() as lines:
        rows = list(csv.reader(lines))[1:]
    found = []
    for _, _, batch, micro, hidden, heads, layers, sequence, *degrees, time in rows:
        tensor, data, pipeline = map(int, degrees)
        shape = Shape(int(layers), int(hidden), int(heads), int(sequence), VOCABULARY, int(micro))
        layout = Layout(tensor, data, pipeline, int(batch))
        found.append(Run(shape, layout, FULL, float(time) / 1e3))
    return found


MODELS = {
    "megatron-22B": (Shape(48, 6144, 64, 2048, VOCABULARY, 4), Layout(8, 1, 1, 4)),
    "gpt3-175B": (Shape(96, 12288, 96, 2048, VOCABULARY), Layout(8, 1, 8, 64, chunks=3)),
    "turing-530B": (Shape(105, 20480, 128, 2048, VOCABULARY), Layout(8, 1, 35, 280, chunks=3)),
    "megatron-1T": (Shape(128, 25600, 160, 2048, VOCABULARY), Layout(8, 1, 64, 512)),
}
"""Table 3 of arXiv 2205.05198."""


def calculon() -> dict[str, Run]:
    """Table 5 of arXiv 2205.05198: full recompute, and selective with sequence parallelism."""
    text = (DATA / "calculon" / "reference_values.json").read_text()
    times = json.loads(text)["arXiv2205.05198_table5_iteration_s"]
    return {
        f"{name}/{kind}": Run(shape, layout, training, times[name][kind])
        for name, (shape, layout) in MODELS.items()
        for kind, training in (("full", FULL), ("seqsel", SELECTIVE))
    }


def quantile(errors: Sequence[float], share: float) -> float:
    """The absolute error that ``share`` of the rows stay within."""
    return sorted(map(abs, errors))[math.ceil(share * len(errors)) - 1]


def with_constants(constants: Sequence[float]) -> Cluster:
    """vTrain's cluster with other constants, in the order of ``constants_of``."""
    matrix, memory, overhead, rate, contention = constants
    accelerator = replace(
        VTRAIN.accelerator, matrix_share=matrix, memory_share=memory, overhead=overhead
    )
    far = Tier(Constant(rate))
    node = replace(VTRAIN.node, far=far)
    return replace(VTRAIN, accelerator=accelerator, node=node, contention=contention)


def constants_of(cluster: Cluster) -> list[float]:
    """What is calibrated: matrix and memory share, overhead, rate of a node, contention."""
    one = cluster.accelerator
    rate = cluster.node.far.rates.rate(1.0)
    return [one.matrix_share, one.memory_share, one.overhead, rate, cluster.contention]


def loss(runs: Sequence[Run], cluster: Cluster) -> float:
    """See the module."""
    errors = [min(0.13, abs(math.log1p(run.error(cluster)))) for run in runs]
    return math.fsum(e + 6 * max(0.0, e - 0.1) for e in errors) / len(errors)


def search(value: Callable[[Sequence[float]], float], start: Sequence[float]) -> list[float]:
    """Pattern search: each constant a step up or down, steps halved when nothing helps."""
    best, at, step = value(start), list(start), 0.16
    while step > 0.004:
        improved = False
        for i in range(len(at)):
            for factor in (1 + step, 1 / (1 + step)):
                tried = [*at[:i], at[i] * factor, *at[i + 1 :]]
                found = value(tried)
                if found < best:
                    best, at, improved = found, tried, True
        step = step if improved else step / 2
    return at


def report(name: str, cluster: Cluster) -> None:
    """Print the errors of a cluster's constants."""
    errors = [run.error(cluster) for run in vtrain()]
    parts = {"all": errors, "first_half": errors[::2], "second_half": errors[1::2]}
    for part, some in parts.items():
        for share in (0.5, 0.9):
            line = f"{name}_vtrain_{part}_error_p{100 * share:.0f}"
            _print(line, 100 * quantile(some, share), "%")
    bare = replace(cluster, contention=SELENE.contention)
    for model, run in calculon().items():
        _print(f"{name}_calculon_{model}_error", 100 * run.error(bare), "%")


def _print(name: str, value: float, unit: str) -> None:
    print(json.dumps({"name": name, "value": round(value, 4), "unit": unit}), flush=True)


def main(arguments: Sequence[str]) -> None:
    """Report, and fit where asked to."""
    report("code", VTRAIN)
    if "--fit" in arguments:
        half = vtrain()["second" in arguments :: 2]
        found = search(lambda some: loss(half, with_constants(some)), constants_of(VTRAIN))
        names = ("matrix_share", "memory_share", "overhead_s", "node_rate_bps", "contention")
        for name, value in zip(names, found, strict=True):
            print(json.dumps({"name": f"fit_{name}", "value": float(f"{value:.4g}"), "unit": ""}))
        report("fit", with_constants(found))


if __name__ == "__main__":
    main(sys.argv[1:])
