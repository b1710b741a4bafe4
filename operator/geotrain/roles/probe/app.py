"""Answers on TCP with its own name, and connects to other probes when asked over HTTP.

``geotrain join`` and ``geotrain doctor --connect`` start one in each data centre and ask it through
the API server. Both ports are those of a training pod, so that what lets one through lets the other
through. Questions need the key from the environment: nobody else can make the pod connect anywhere.
"""

import asyncio
import contextlib
import hmac
import logging
import os
import signal
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from geotrain.api.labels import PORT_PEER, PORT_STATUS
from geotrain.units import Seconds

NAME: Final = "GEOTRAIN_PROBE_NAME"
KEY: Final = "GEOTRAIN_PROBE_KEY"
_PATIENCE: Final[Seconds] = 5.0
_LIFE: Final[Seconds] = 300.0  # whoever started it is gone by then
_LONGEST_NAME: Final = 256

_log = logging.getLogger(__name__)


def main() -> int:
    """Run until SIGTERM, or for five minutes. 2: it was not told its name and key."""
    name, key = os.environ.get(NAME, ""), os.environ.get(KEY, "")
    if not name or not key:
        _log.error("a probe is started by `geotrain join`; %s and %s are not set", NAME, KEY)
        return 2
    asyncio.run(run(name, key, _LIFE))
    return 0


async def run(
    name: str, key: str, life: Seconds, peer_port: int = PORT_PEER, http_port: int = PORT_STATUS
) -> None:
    """Serve for ``life`` seconds, or until SIGTERM or SIGINT."""

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            writer.write(f"{name}\n".encode())
            await writer.drain()
        writer.close()

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    server = await asyncio.start_server(greet, None, peer_port)
    runner = web.AppRunner(_application(key), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, None, http_port).start()
    _log.info("probe %s answers", name)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(life):
            await stop.wait()
    server.close()
    await runner.cleanup()


def _application(key: str) -> web.Application:
    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def asked(request: web.Request) -> web.Response:
        if not hmac.compare_digest(request.match_info["key"], key):
            raise web.HTTPNotFound
        try:
            address, port = request.query["address"], int(request.query["port"])
        except (KeyError, ValueError) as error:
            raise web.HTTPBadRequest(text="give address and port") from error
        return web.json_response(await connect(address, port))

    application = web.Application()
    application.add_routes([web.get("/healthz", healthz), web.get("/{key}/connect", asked)])
    return application


async def connect(address: str, port: int, patience: Seconds = _PATIENCE) -> Mapping[str, Any]:
    """Connect and read the other's name: ``{"name": …}``, or ``{"fault": …, "said": …}``.

    A fault is ``timeout``, ``refused`` or ``unreachable``.
    """
    writer = None
    try:
        async with asyncio.timeout(patience):
            reader, writer = await asyncio.open_connection(address, port)
            name = (await reader.read(_LONGEST_NAME)).decode(errors="replace").strip()
        return {"name": name}
    except TimeoutError:
        return {"fault": "timeout", "said": f"no answer within {patience:g} s"}
    except ConnectionError as error:
        return {"fault": "refused", "said": str(error)}
    except OSError as error:
        return {"fault": "unreachable", "said": str(error)}
    finally:
        if writer is not None:
            writer.close()
