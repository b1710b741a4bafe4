"""Wires the sidecar of one pod together and runs it until SIGTERM."""

import asyncio
import contextlib
import logging
import os
import resource
import signal as process_signals
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import web

from geotrain.adapters import metrics, netlink
from geotrain.api.labels import PORT_STATUS
from geotrain.errors import InputError, KernelError
from geotrain.gate import GateWriter
from geotrain.roles.sidecar import intercept, network, status
from geotrain.roles.sidecar.pump import Limits, Pump, View
from geotrain.roles.sidecar.resolver import Resolver
from geotrain.roles.sidecar.shape import Shaper
from geotrain.roles.sidecar.sidecar import Environment, Parts, Sidecar
from geotrain.roles.sidecar.signals import SignalSocket
from geotrain.units import Seconds

_LOOK: Seconds = 1.0
"""Between two looks at the mounted network.json, which the kubelet swaps by a symbolic link."""
_REPUBLISH: Seconds = 2.0
"""Between two writings of the gate's page without a signal, so that it does not go stale."""

log = logging.getLogger(__name__)


def main() -> int:
    """Run until SIGTERM. 2: the environment or network.json is unusable, and why is logged."""
    try:
        environment = Environment.from_variables()
        plan = network.parse(Path(environment.config).read_text())
    except (KeyError, ValueError, OSError, InputError) as error:
        log.error("the sidecar cannot start: %s: %s", type(error).__name__, error)
        return 2
    _open_many_files()
    return asyncio.run(_run(environment, plan))


def _open_many_files() -> None:
    """Every connection is a file, and the usual soft limit is 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _run(environment: Environment, plan: network.Network) -> int:
    """0 after SIGTERM; 1 when a part failed, so that the kubelet starts the sidecar anew."""
    pump = Pump(View(environment.rank, plan), _limits())
    shaper = _shaper(environment, pump)
    parts = Parts(pump, shaper, _page(environment), intercept.apply, time.monotonic)
    pump.start()
    sidecar = Sidecar(environment.rank, plan, parts)
    resolver = Resolver(sidecar.located)
    resolver.update(plan)
    moved = asyncio.Event()
    listener = SignalSocket(environment.signal)
    loop = asyncio.get_running_loop()

    def heard() -> None:
        for signal in listener.read():
            if sidecar.hear(signal):
                moved.set()

    def planned(new: network.Network) -> None:
        sidecar.plan(new)
        resolver.update(new)
        moved.set()

    loop.add_reader(listener.fileno(), heard)
    stop = asyncio.Event()
    for number in (process_signals.SIGTERM, process_signals.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = await _serve(sidecar)
    tasks = [
        asyncio.create_task(job)
        for job in (
            _until(stop),
            resolver.run(),
            _follow(sidecar, shaper, moved),
            _watch(Path(environment.config), planned),
            _republish(sidecar),
        )
    ]
    log.info("rank %d of %s/%s is ready", environment.rank, environment.namespace, environment.job)
    ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    failures = [task.exception() for task in ended if task.exception() is not None]
    for failure in failures:
        log.error("a part of the sidecar failed", exc_info=failure)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    loop.remove_reader(listener.fileno())
    listener.close()
    pump.stop()
    await server.cleanup()
    log.info("ended")
    return int(bool(failures))


async def _until(stop: asyncio.Event) -> None:
    await stop.wait()


def _limits() -> Limits:
    """Sizes may be set by the environment, in bytes and seconds; otherwise they are derived."""
    block = os.environ.get("GEOTRAIN_BLOCK")
    buffer = os.environ.get("GEOTRAIN_BUFFER")
    rest = os.environ.get("GEOTRAIN_REST")
    return Limits(
        block=int(block) if block else None,
        buffer=int(buffer) if buffer else None,
        rest=float(rest) if rest else Limits().rest,
    )


def _shaper(environment: Environment, pump: Pump) -> Shaper:
    try:
        return Shaper(netlink.Htb(environment.interface), pump.meters.by_flow)
    except (KernelError, OSError) as error:
        log.warning("the interface is not shaped: %s", error)
        return Shaper(None, pump.meters.by_flow, str(error))


def _page(environment: Environment) -> GateWriter | None:
    try:
        return GateWriter(environment.gate)
    except OSError as error:
        log.warning("no bubbles are published: %s", error)
        return None


async def _follow(sidecar: Sidecar, shaper: Shaper, moved: asyncio.Event) -> None:
    """Set the windows at each of their edges, and whenever the iteration was aligned anew."""
    while True:
        moved.clear()
        now = time.monotonic()
        again = shaper.follow(sidecar.alignment, now)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(again - now):
                await moved.wait()


async def _watch(path: Path, changed: Callable[[network.Network], None]) -> None:
    """Read network.json again when it is another file; a broken one changes nothing."""
    seen = _identity(path)
    while True:
        await asyncio.sleep(_LOOK)
        found = _identity(path)
        if found in (seen, None):
            continue
        seen = found
        try:
            changed(network.parse(path.read_text()))
            log.info("network.json was read again")
        except (InputError, OSError) as error:
            log.error("the new network.json is not used: %s", error)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


async def _republish(sidecar: Sidecar) -> None:
    """Keep the page fresh while the trainer is alive but silent in a long action or wait."""
    while True:
        await asyncio.sleep(_REPUBLISH)
        if sidecar.alignment.is_aligned(time.monotonic()):
            sidecar.publish()


async def _serve(sidecar: Sidecar) -> web.AppRunner:
    application = web.Application()
    application.add_routes(
        [
            web.get("/healthz", _answer(lambda: web.Response(text="ok\n"))),
            web.get(
                "/status",
                _answer(lambda: web.json_response(status.document(sidecar.facts()))),
            ),
            web.get("/metrics", _answer(lambda: _metrics(sidecar))),
        ]
    )
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, port=PORT_STATUS).start()
    return runner


def _answer(
    make: Callable[[], web.Response],
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(_: web.Request) -> web.Response:
        return make()

    return handle


def _metrics(sidecar: Sidecar) -> web.Response:
    families = [
        metrics.Family(
            name,
            text,
            "counter" if kind == "counter" else "gauge",
            (label,) if label else (),
            {((key,) if label else ()): value for key, value in samples.items()},
        )
        for name, (kind, text, label, samples) in status.numbers(sidecar.facts()).items()
    ]
    body = metrics.render(families)
    return web.Response(body=body, headers={"Content-Type": metrics.CONTENT_TYPE})
