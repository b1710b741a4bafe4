"""The main job, end to end, on the three local clusters; prints a summary and keeps it as JSON."""

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from e2e.demo import prefill, training
from e2e.demo.measure import Run, Runs, caveats, summary, valid
from e2e.demo.training import EXAMPLE, NAMESPACE, Stretch, Training
from e2e.install import install
from e2e.lab import DATA_CENTERS, HUB, ROOT, Cluster, LabError, hub, run
from e2e.testbed import cpuwatch, images, places, prepare
from e2e.testbed.config import Bed, load
from geotrain.errors import GeotrainError

OUT = ROOT / ".demo"
SINGLE_ITERATIONS = 2  # of the second: in the first, connections are opened
WARM_ITERATIONS = 2
MEASURED_ITERATIONS = 8
TRACE_SPEED = 8.0

RUNS_SECONDS = 420.0  # from the clusters that are up to the summary, on two cores

console = Console(highlight=False)


def main() -> int:
    """Run the demo; the exit code is 1 when a step failed, and its words say which and why."""
    OUT.mkdir(exist_ok=True)
    began = time.monotonic()
    try:
        figures = demo(load())
    except (LabError, GeotrainError, RuntimeError) as error:
        console.print(f"[red]✗[/] {error}", markup=True)
        console.print("  what is up stays up: make clusters-status, make clusters-down")
        return 1
    console.print(f"\ndone in {(time.monotonic() - began) / 60:.1f} min")
    return 1 if figures["void"] else 0


def demo(bed: Bed) -> dict[str, Any]:
    """All steps, one after another; the figures."""
    prepare.bed(bed, loaded=[images.OPERATOR], after=RUNS_SECONDS)
    with step("installing geotrain, and loading the trainer into the nodes", "1 min"):
        prepare.together([install, lambda: images.load(bed, [images.TRAINER])])
        _clear()
        for name in DATA_CENTERS:
            Cluster(name).apply_files(EXAMPLE / "namespace.yaml")
        hub().apply_files(*(EXAMPLE / f"{n}.yaml" for n in ("links", "profile")))
    job = training.manifest()
    measured = partial(_valid, bed)

    with step("training over one connection a pair, without turns", "2 min"):
        single = measured(
            lambda: _single(Training(training.single_connection(job, SINGLE_ITERATIONS)))
        )
    geotrain = Training(job)
    with step("training as geotrain plans it", "2 min"):
        geotrain.start()
        geotrain.await_iteration(WARM_ITERATIONS, timeout=300)
        alone = measured(lambda: geotrain.measure(MEASURED_ITERATIONS, timeout=300))
    with step("starting prefill workers beside the trainers", "1 min"):
        prefill.start()
    with step("replaying the trace's first 200 requests", "1 min"):
        served: list[dict[str, Any]] = []
        shared = measured(lambda: _replay(geotrain, served))
    with step("drawing the plan", "5 s"):
        _draw()
    figures = summary(Runs(single, alone, shared), geotrain.planned(), served[-1], bed)
    (OUT / "summary.json").write_text(json.dumps(figures, indent=2) + "\n")
    _show(geotrain, figures, bed)
    return figures


def _valid(bed: Bed, measure: Callable[[], Run]) -> Run:
    """A measured stretch; a void one is measured once more, with somebody who watches the CPU."""

    def watched() -> Run:
        cpuwatch.ensure_running(bed.sample_every)
        return measure()

    return valid(
        watched,
        lambda run: run.void(bed.minimum_idle),
        lambda said: console.print(f"[yellow]{said}[/]"),
    )


def _replay(job: Training, served: list[dict[str, Any]]) -> Run:
    """Training while prompts are served, and (appended) what the prompts' sender saw."""
    stretch = Stretch(job)
    served.append(prefill.replay(TRACE_SPEED, stretch))
    return stretch.run()


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


def _show(job: Training, figures: dict[str, Any], bed: Bed) -> None:
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
    console.print()
    for sentence in caveats(bed):
        console.print(f"[dim]{sentence}[/]")
    for name, why in figures["void_reasons"].items():
        console.print(f"[red]✗ void:[/] {name}: {why}")
    if figures["void"]:
        console.print("  close what else runs on this machine, and run make demo again")
    console.print()
    for what, how in _next(job):
        console.print(f"{what:<8} {how}", soft_wrap=True)


def _next(job: Training) -> Iterator[tuple[str, str | Path]]:
    """What to look at now, and with which command."""
    look = f"kubectl --context kind-{HUB}"
    yield "figures", OUT / "summary.json"
    yield "Gantt", OUT / "plan.png"
    yield "trace", f"{OUT / 'plan.trace.json'}  (open in ui.perfetto.dev)"
    if not shutil.which("kubectl"):
        yield "first", f'export PATH="$PATH:{places.PROGRAMS}"  (kubectl and helm)'
    yield "look", f"{look} get gtj,pfp,dc,wan,bws -A"
    yield "", f"{look} describe gtj -n {NAMESPACE}"
    rank = f"{job.name}-r0 -c trainer --tail=5"
    yield "log", f"kubectl --context {job.first_cluster.context} logs -n {NAMESPACE} {rank}"
    yield "plan", f".venv/bin/geotrain plan -f {EXAMPLE.relative_to(ROOT)}"
    yield "stop", f"{look} delete gtj,pfp --all -n {NAMESPACE}"
    yield "remove", "make clusters-down"


if __name__ == "__main__":
    sys.exit(main())
