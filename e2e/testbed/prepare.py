"""Makes everything that the bed is made from, side by side: compiling keeps the processors busy,
packages the network.
"""

import os
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from e2e.testbed import clusters, docker, images, places, programs
from e2e.testbed.config import Bed
from e2e.testbed.shell import console

SECONDS = {  # on two cores
    "programs": programs.COLD_SECONDS,
    "images": 120.0,
    "node image": 60.0,
    "clusters": 60.0,
    "load": 60.0,
}


def expected(absent: Sequence[str]) -> str:
    """How long the parts that are absent should take together, as text."""
    seconds = sum(SECONDS[part] for part in absent)
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def build(names: Sequence[str], after: float = 0.0) -> None:
    """Makes what is missing of programs and images, and tells how long that should take.

    Args:
        names: the programs that must be there, where images do not come from a registry.
        after: seconds that the caller needs afterwards, for the estimate of the whole.
    """
    docker.start()
    pulled = docker.registry_answers()
    wanted = [name for name in names if not pulled or name not in programs.PULLED]
    absent = _absent(wanted)
    if absent:
        whole = sum(SECONDS[part] for part in absent) + after
        rest = f", {whole / 60:.0f} min with what comes then" if after else ""
        console.print(f"to make: {', '.join(absent)}: about {expected(absent)}{rest}")

    def compiled() -> None:
        programs.ensure(wanted)
        images.node()

    together([compiled, images.node_root, images.trainer, images.operator])


def bed(
    description: Bed,
    names: Sequence[str] = programs.BED,
    loaded: Sequence[str] = (images.OPERATOR, images.TRAINER),
    after: float = 0.0,
) -> None:
    """Brings the bed up from whatever there is: programs, images, clusters, images in the nodes.

    Args:
        description: the bed.
        names: as for ``build``.
        loaded: the images to put into the nodes.
        after: as for ``build``.
    """
    build(names, after)
    clusters.up(description)
    images.load(description, loaded)


def _absent(names: Sequence[str]) -> list[str]:
    """The parts that must be made, by name in SECONDS. Only an estimate hangs on it."""
    parts = {
        "programs": bool(programs.missing(names)),
        "images": not docker.image_id(images.TRAINER) and not _archived("torch"),
        "node image": not _archived("node"),
        "clusters": not clusters.STATE.exists(),
    }
    parts["load"] = parts["clusters"]
    return [part for part, missing in parts.items() if missing]


def _archived(kind: str) -> bool:
    return any(places.IMAGES.glob(f"geotrain-bed-{kind}-*.tar"))


def together(actions: Sequence[Callable[[], object]]) -> None:
    """Does all at the same time. The first error ends what the others run, and is raised."""
    with ThreadPoolExecutor(max_workers=len(actions)) as pool:
        running = [pool.submit(action) for action in actions]
        done, late = wait(running, return_when=FIRST_EXCEPTION)
        failed = next((each for each in done if each.exception()), None)
        while failed and late:
            _end_children()
            late = {each for each in late if not each.done()}
            time.sleep(0.2)
    if failed:
        failed.result()


def _end_children() -> None:
    """Asks the programs that this process waits for to end; a daemon has a session of its own."""
    for task in Path("/proc/self/task").iterdir():
        for word in (task / "children").read_text().split():
            child = int(word)
            try:
                if os.getsid(child) == os.getsid(0):
                    os.kill(child, signal.SIGTERM)
            except ProcessLookupError:
                continue
