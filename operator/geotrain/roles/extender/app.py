"""Wires the extender: credentials, watches, HTTP server."""

import asyncio
import contextlib
import logging
import signal
from pathlib import Path
from typing import Final

from aiohttp import web

from geotrain.adapters.cluster import HttpCluster
from geotrain.adapters.credentials import from_file, in_cluster
from geotrain.roles.extender.mirror import Mirror
from geotrain.roles.extender.ports import Cluster
from geotrain.roles.extender.routes import Routes
from geotrain.units import Seconds

HOST: Final = "127.0.0.1"  # the scheduler is in the same pod
PORT: Final = 8888
HEALTH_PORT: Final = 8889  # for the kubelet and for scraping, on all addresses
_SHUTDOWN: Final[Seconds] = 2.0  # for answers that are under way
_log = logging.getLogger(__name__)


async def serve(
    cluster: Cluster, *, host: str = HOST, port: int = PORT, health_port: int | None = None
) -> None:
    """Watch and answer until cancelled, or until a watch fails for a reason that is a bug."""
    mirror = Mirror(cluster)
    routes = Routes(mirror)
    async with contextlib.AsyncExitStack() as stack:
        await _listen(stack, routes.application(), host, port)
        if health_port is not None:
            await _listen(stack, routes.health(), None, health_port)
        _log.info("answering on %s:%d", host, port)
        await mirror.follow()


async def _listen(
    stack: contextlib.AsyncExitStack, application: web.Application, host: str | None, port: int
) -> None:
    # The scheduler keeps one connection alive; closing it from here would race with its requests.
    runner = web.AppRunner(application, access_log=None, keepalive_timeout=3600.0)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, host, port, shutdown_timeout=_SHUTDOWN).start()


async def run(
    kubeconfig: Path | None = None,
    *,
    host: str = HOST,
    port: int = PORT,
    health_port: int | None = None,
) -> None:
    """Run on a cluster, this pod's own where no kubeconfig is given, until SIGTERM or SIGINT."""
    cluster = HttpCluster(from_file(kubeconfig) if kubeconfig else in_cluster())
    task = asyncio.current_task()
    assert task is not None  # a coroutine that runs has one
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await serve(cluster, host=host, port=port, health_port=health_port)
    finally:
        await cluster.close()
