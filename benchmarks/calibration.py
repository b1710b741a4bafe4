"""How far predicted iterations are from measured ones, with the constants that plans count with.

    python -m benchmarks.calibration

Prints JSON lines: the errors on both parts of vTrain's 73 runs (one row in three, from the first
on, is held out; the others calibrated the A100) and on table 5 of arXiv 2205.05198, to which
nothing was fitted. ``geotrain calibrate`` fits such constants (docs/costs.md).
"""

import json
from dataclasses import replace
from pathlib import Path

from geotrain.api import calibrations, measured_runs
from geotrain.model.topology import Lan
from geotrain.planning.costs.accelerators import ACCELERATORS
from geotrain.planning.costs.calibrations import Device
from geotrain.planning.costs.layers import Training
from geotrain.planning.costs.memory import MIXED_MAIN_GRADIENTS, Recompute
from geotrain.planning.costs.shapes import Shape
from geotrain.planning.explore import fitting
from geotrain.planning.explore.fitting import Cluster, Run
from geotrain.planning.explore.layouts import Degrees, Layout, Placement, Schedule

DATA = Path(__file__).parents[1] / "tests" / "data"
VOCABULARY = 51_200
A100 = calibrations.usual(ACCELERATORS["A100"])
POD_RATE = 766e9
"""What a node of vTrain's cluster reaches of another with four adapters of 200 Gbit/s; fitted."""
VTRAIN = Cluster(A100, Lan(POD_RATE))
SELENE = Cluster(Device(A100.accelerator, replace(A100.calibration, contention=0.0)), Lan(POD_RATE))
"""The same nodes; nothing was calibrated on it."""


def vtrain() -> tuple[Run, ...]:
    """The runs of vTrain's ground truth, in the file's order."""
    path = DATA / "vtrain" / "ground_truth_multi.csv"
    return measured_runs.runs(path.read_text(encoding="utf-8"), path.name)


def _layout(tensor: int, pipeline: int, micro: int = 1, chunks: int = 1) -> Layout:
    schedule: Schedule = "Interleaved" if chunks > 1 else "OneFOneB"
    axes = Placement(("tensor", "context", "data", "pipeline"))
    return Layout(Degrees(tensor, 1, 1, pipeline), axes, schedule, chunks, micro, transport="tcp")


MODELS = {
    "megatron-22B": (Shape(48, 6144, 64, 2048, VOCABULARY, 4), _layout(8, 1, 4), 4),
    "gpt3-175B": (Shape(96, 12288, 96, 2048, VOCABULARY), _layout(8, 8, chunks=3), 64),
    "turing-530B": (Shape(105, 20480, 128, 2048, VOCABULARY), _layout(8, 35, chunks=3), 280),
    "megatron-1T": (Shape(128, 25600, 160, 2048, VOCABULARY), _layout(8, 64), 512),
}
"""Table 3 of arXiv 2205.05198: model, layout, global batch."""


def calculon() -> dict[str, Run]:
    """Table 5 of arXiv 2205.05198: full recompute, and selective with sequence parallelism."""
    text = (DATA / "calculon" / "reference_values.json").read_text(encoding="utf-8")
    times = json.loads(text)["arXiv2205.05198_table5_iteration_s"]
    full = Training(state=MIXED_MAIN_GRADIENTS)
    selective = replace(full, sequence_parallel=True)
    kinds = (("full", full, Recompute.ALL), ("seqsel", selective, Recompute.ATTENTION))
    return {
        f"{name}/{kind}": Run(
            shape, replace(layout, recompute=again), training, batch, times[name][kind]
        )
        for name, (shape, layout, batch) in MODELS.items()
        for kind, training, again in kinds
    }


def main() -> None:
    """Print every error."""
    errors = [fitting.error(run, VTRAIN) for run in vtrain()]
    parts = {"all": errors, "held_out": errors[::3]}
    parts["calibrated"] = [each for n, each in enumerate(errors) if n % 3]
    for part, some in parts.items():
        for share in (0.5, 0.9):
            line = f"vtrain_{part}_error_p{100 * share:.0f}"
            _print(line, 100 * fitting.quantile(some, share), "%")
    for model, run in calculon().items():
        _print(f"calculon_{model}_error", 100 * fitting.error(run, SELENE), "%")


def _print(name: str, value: float, unit: str) -> None:
    print(json.dumps({"name": name, "value": round(value, 4), "unit": unit}), flush=True)


if __name__ == "__main__":
    main()
