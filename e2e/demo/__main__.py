"""The main job, end to end, on the three local clusters; prints a summary and keeps it as JSON."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from e2e.demo import prefill, training
from e2e.demo.measure import Run, summary
from e2e.demo.training import EXAMPLE, NAMESPACE, Stretch, Training
from e2e.install import install
from e2e.lab import DATA_CENTERS, HUB, ROOT, Cluster, LabError, hub, run
from geotrain.errors import GeotrainError

OUT = ROOT / ".demo"
SINGLE_ITERATIONS = 3
WARM_ITERATIONS = 3
MEASURED_ITERATIONS = 12
TRACE_SPEED = 8.0

console = Console(highlight=False)


def main() -> int:
    """Run the demo; the exit code is 1 when a step failed, and its words say which and why."""
    OUT.mkdir(exist_ok=True)
    try:
        demo()
    except (LabError, GeotrainError, RuntimeError) as error:
        console.print(f"[red]✗[/] {error}", markup=True)
        console.print("  the clusters are still up: make clusters-status, make clusters-down")
        return 1
    return 0


def demo() -> None:
    """All steps, one after another."""
    with step("installing geotrain on hub and members, registering the data centres", "1 min"):
        install()
        _clear()
        for name in DATA_CENTERS:
            Cluster(name).apply_files(EXAMPLE / "namespace.yaml")
        hub().apply_files(*(EXAMPLE / f"{n}.yaml" for n in ("links", "profile")))
    job = training.manifest()

    with step("training over one connection a pair, without turns", "3 min"):
        single = _single(Training(training.single_connection(job, SINGLE_ITERATIONS)))
    geotrain = Training(job)
    with step("training as geotrain plans it", "2 min"):
        geotrain.start()
        geotrain.await_iteration(WARM_ITERATIONS, timeout=300)
        alone = geotrain.measure(MEASURED_ITERATIONS, timeout=300)
    with step("starting prefill workers beside the trainers", "1 min"):
        prefill.start()
    with step("replaying the trace's first 200 requests", "1 min"):
        stretch = Stretch(geotrain)
        served = prefill.replay(TRACE_SPEED, stretch)
        shared = stretch.run()
    with step("drawing the plan", "5 s"):
        _draw()
    figures = summary(single, alone, shared, geotrain.planned(), served)
    (OUT / "summary.json").write_text(json.dumps(figures, indent=2) + "\n")
    _show(geotrain, figures)


@contextmanager
def step(what: str, expected: str) -> Iterator[None]:
    """Say what is being done, how long it should take and how long it took."""
    began = time.monotonic()
    with console.status(f"{what} (about {expected})"):
        if not console.is_terminal:
            console.print(f"… {what} (about {expected})")
        yield
    console.print(f"[green]✓[/] {what} [dim]{time.monotonic() - began:.0f} s[/]")


def _clear() -> None:
    """Remove what an earlier demo left running."""
    for kind in ("pfp", "gtj", "job"):
        hub().kubectl("delete", kind, "--all", "-n", NAMESPACE, "--ignore-not-found", timeout=240)


def _single(job: Training) -> Run:
    """The whole run but its first iteration, in which connections are opened."""
    job.start()
    job.await_iteration(1, timeout=300)
    with Stretch(job) as stretch:
        job.await_iteration(SINGLE_ITERATIONS, timeout=400)
    job.stop()
    return stretch.run()


def _draw() -> None:
    """Gantt and trace of the plan, from the manifests: the live clusters have no GPU left now."""
    run(
        str(Path(sys.executable).with_name("geotrain")), "plan",
        "-f", str(EXAMPLE / "job.yaml"), "-f", str(EXAMPLE / "profile.yaml"),
        "--topology", str(EXAMPLE / "topology.yaml"),
        "--gantt", str(OUT / "plan.png"), "--trace", str(OUT / "plan.trace.json"),
    )  # fmt: skip


def _show(job: Training, figures: dict[str, Any]) -> None:
    console.print()
    placed = Table("data centre", "stages", "ranks", box=None, header_style="bold", pad_edge=False)
    for part in job.resource()["status"]["plan"]["stages"]:
        last = part["firstStage"] + part["stages"] - 1
        placed.add_row(part["dataCenter"], f"{part['firstStage']} to {last}", str(part["ranks"]))
    console.print(placed)
    console.print()
    table = Table(box=None, show_header=False, pad_edge=False)
    seconds, busy = figures["iteration_seconds"], figures["gpu_busy"]
    table.add_row("iteration, one connection a pair", f"{seconds['single_connection']:.2f} s")
    table.add_row("iteration, geotrain", f"{seconds['geotrain']:.2f} s")
    table.add_row("iteration, planned", f"{seconds['planned']:.2f} s")
    table.add_row("speed-up", f"{figures['speedup']:.1f} x")
    table.add_row("plan error", f"{figures['plan_error']:.1%}")
    table.add_row("GPU busy, training alone", f"{busy['training']:.1%}")
    table.add_row("GPU busy, with prefill", f"{busy['with_prefill']:.1%}")
    table.add_row("training stretched by", f"{figures['training_stretch']:.1%}")
    served = figures["prefill"]
    table.add_row("prompts served / refused", f"{served['served']} / {served['refused']}")
    table.add_row(
        "time to first token, p50 / p99",
        f"{served['ttft_p50']:.2f} s / {served['ttft_p99']:.2f} s",
    )
    console.print(table)
    for name in figures["void"]:
        console.print(f"[yellow]void:[/] {name} was measured without CPU to spare")
    console.print(f"\nfigures  {OUT / 'summary.json'}")
    console.print(f"Gantt    {OUT / 'plan.png'}")
    console.print(f"trace    {OUT / 'plan.trace.json'}  (open in ui.perfetto.dev)")
    console.print(f"\nlook     kubectl --context kind-{HUB} get gtj,pfp,dc,wan,bws -A")
    console.print(f"         kubectl --context kind-{HUB} describe gtj -n {NAMESPACE}")
    console.print("remove   make clusters-down")


if __name__ == "__main__":
    sys.exit(main())
