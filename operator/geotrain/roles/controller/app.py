"""Wires the controller: credentials, clusters, kopf, health; ends all together."""

import argparse
import asyncio
import base64
import logging
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import kopf
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from geotrain.adapters import credentials, logs
from geotrain.adapters.clock import SystemClock
from geotrain.adapters.cluster import HttpCluster
from geotrain.adapters.credentials import Credentials
from geotrain.api.crd import definitions as own_definitions
from geotrain.api.objects import DEFINITIONS, Object
from geotrain.errors import GeotrainError, NotFound, Refused, TooManyRequests, Unreachable
from geotrain.roles.controller import definitions, handlers
from geotrain.roles.controller.controller import Controller
from geotrain.settings import VARIABLE, Settings
from geotrain.units import Seconds

_AGAIN: Final[Seconds] = 2.0  # until a hub that does not answer is asked again
_log = logging.getLogger(__name__)


def main(arguments: Sequence[str]) -> int:
    """Run until SIGTERM or SIGINT. Returns the exit status: 1 when it cannot start."""
    options = _options(arguments)
    try:
        settings = Settings.from_file(options.settings) if options.settings else Settings()
        logs.configure(settings.log.level, settings.log.form)
        logging.getLogger("kopf").setLevel(logging.WARNING)
        access = (
            credentials.from_file(options.kubeconfig)
            if options.kubeconfig
            else credentials.in_cluster()
        )
        asyncio.run(run(access, settings, options.namespace))
    except GeotrainError as error:
        logging.getLogger(__name__).error("%s", error)
        return 1
    return 0


async def run(access: Credentials, settings: Settings, namespace: str) -> None:
    """Run until kopf ends, which is at SIGTERM or SIGINT, or until cancelled.

    Raises Refused where a CustomResourceDefinition of the hub is missing or too old.
    """
    own = settings.controller
    hub = HttpCluster(access, in_flight=own.in_flight)
    try:
        await _require_definitions(hub)
    except BaseException:
        await hub.close()
        raise

    def open_cluster(kubeconfig: str) -> HttpCluster:
        member = credentials.from_document(credentials.parse(kubeconfig))
        return HttpCluster(member, in_flight=own.in_flight)

    controller = Controller(hub, open_cluster, SystemClock(), own, namespace)
    work = asyncio.create_task(controller.run(), name="controller")
    watch = asyncio.create_task(_watch(access, controller), name="kopf")
    health = await _serve_health(own.health_port, lambda: not (work.done() or watch.done()))
    try:
        done, _ = await asyncio.wait((work, watch), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in (work, watch):
            task.cancel()
        await asyncio.gather(work, watch, return_exceptions=True)
        await health.cleanup()
        await hub.close()


async def _require_definitions(hub: HttpCluster) -> None:
    wanted = own_definitions()
    served: dict[str, Object] = {}
    for name in (each["metadata"]["name"] for each in wanted):
        try:
            served[name] = await _patiently(hub, name)
        except NotFound:
            continue
    if said := definitions.problem(wanted, served):
        raise Refused(said)


async def _patiently(hub: HttpCluster, name: str) -> Object:
    """A definition, asked for until the hub answers: an outage is no reason to end."""
    while True:
        try:
            return await hub.get(DEFINITIONS, "", name)
        except (Unreachable, TooManyRequests) as error:
            _log.warning("the hub's definitions cannot be read yet: %s", error)
            await asyncio.sleep(_AGAIN)


async def _watch(access: Credentials, controller: Controller) -> None:
    """Run kopf in this loop, on our credentials."""
    registry, settings = kopf.OperatorRegistry(), kopf.OperatorSettings()
    handlers.configure(settings)
    handlers.register(registry, controller)

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        return _connection(access)

    # Left out, kopf asks for the user's name, and a container's user has none. Its type is private.
    identity: Any = socket.gethostname()
    await kopf.operator(
        registry=registry,
        settings=settings,
        standalone=True,
        clusterwide=True,
        identity=identity,
    )


def _connection(access: Credentials) -> kopf.ConnectionInfo:
    scheme, _, token = (access.authorization or "").partition(" ")
    certificate, key = access.client_certificate or (None, None)
    return kopf.ConnectionInfo(
        server=access.host,
        ca_path=access.authority,
        insecure=access.insecure,
        scheme=scheme or None,
        token=token or None,
        certificate_path=certificate,
        private_key_path=key,
        proxy_url=_proxy_url(access),
    )


def _proxy_url(access: Credentials) -> str | None:
    """With user and password in the URL, since that is where kopf's client looks for them."""
    proxy = access.proxy
    if proxy is None or not proxy.authorization:
        return None if proxy is None else proxy.url
    pair = base64.b64decode(proxy.authorization.removeprefix("Basic ")).decode()
    user, _, password = pair.partition(":")
    return proxy.url.replace("://", f"://{quote(user, '')}:{quote(password, '')}@", 1)


async def _serve_health(port: int, is_alive: Any) -> web.AppRunner:
    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok") if is_alive() else web.Response(status=503, text="ended")

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    application = web.Application()
    application.add_routes([web.get("/healthz", healthz), web.get("/metrics", metrics)])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, port=port).start()
    for host, *rest in (address[:2] for address in runner.addresses):
        _log.info("health on %s:%s", host, *rest)
    return runner


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m geotrain controller",
        description="Reconciles geotrain's resources on a hub cluster.",
    )
    parser.add_argument(
        "--kubeconfig", type=Path, help="the hub's kubeconfig; without it the pod's own account"
    )
    parser.add_argument(
        "--namespace",
        default=os.environ.get("GEOTRAIN_NAMESPACE", "geotrain-system"),
        help="where geotrain is installed, in every cluster (default %(default)s)",
    )
    parser.add_argument(
        "--settings", type=Path, default=os.environ.get(VARIABLE), help="a YAML file of settings"
    )
    return parser.parse_args(arguments)
