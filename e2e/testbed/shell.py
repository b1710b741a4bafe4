"""Running programs, and telling the user which slow step runs and how long it should take."""

import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar

from rich.console import Console

from geotrain.errors import GeotrainError

console = Console(highlight=False, soft_wrap=True)
T = TypeVar("T")
R = TypeVar("R")


class TestbedError(GeotrainError):
    """The test bed cannot do what was asked; the message says what to do about it."""

    __test__ = False


def run(
    *command: str | Path,
    stdin: str | bytes | IO[bytes] | None = None,
    timeout: float | None = None,
    check: bool = True,
    cwd: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Runs a program to its end and returns what it printed.

    Raises:
        TestbedError: it failed or did not end in ``timeout`` seconds; holds what it said.
    """
    words = [str(word) for word in command]
    piped: dict[str, object] = {"stdin": subprocess.DEVNULL}
    if isinstance(stdin, (str, bytes)):
        piped = {"input": stdin.encode() if isinstance(stdin, str) else stdin}
    elif stdin is not None:
        piped = {"stdin": stdin}
    try:
        done = subprocess.run(  # type: ignore[call-overload]
            words,
            capture_output=True,
            timeout=timeout,
            check=False,
            cwd=cwd,
            env=environment,
            **piped,
        )
    except FileNotFoundError as missing:
        raise TestbedError(f"{words[0]} is not installed") from missing
    except subprocess.TimeoutExpired as late:
        raise TestbedError(f"{' '.join(words[:6])}… took over {timeout:.0f} s") from late
    if check and done.returncode:
        said = (done.stderr + done.stdout).decode(errors="replace").strip()
        raise TestbedError(f"{' '.join(words[:6])}… failed: {said[-1500:]}")
    return str(done.stdout.decode(errors="replace"))


def succeeds(*command: str | Path, timeout: float = 30.0) -> bool:
    """Whether a program runs and ends well within ``timeout`` seconds."""
    try:
        run(*command, timeout=timeout)
    except TestbedError:
        return False
    return True


@contextmanager
def step(what: str, expected: str) -> Iterator[None]:
    """Prints what begins, how long that should take, and afterwards how long it took."""
    console.print(f"[bold]·[/] {what} [dim](expected {expected})[/]")
    begin = time.monotonic()
    yield
    console.print(f"[green]✓[/] {what} [dim]{time.monotonic() - begin:.1f} s[/]")


def each(items: Iterable[T], action: Callable[[T], R]) -> list[R]:
    """Does ``action`` to all items side by side; the first error is raised when all have ended."""
    listed = list(items)
    with ThreadPoolExecutor(max_workers=max(1, len(listed))) as pool:
        return list(pool.map(action, listed))


def await_until(
    what: str, condition: Callable[[], bool], timeout: float, interval: float = 0.5
) -> None:
    """Waits for a condition.

    Raises:
        TestbedError: it did not come true in ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TestbedError(f"{what}: not so after {timeout:.0f} s")
        time.sleep(interval)


def absent(programs: Sequence[str]) -> list[str]:
    """Those of ``programs`` that are not on the PATH."""
    return [name for name in programs if not succeeds("sh", "-c", f"command -v {name}")]
