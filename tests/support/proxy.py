"""A real HTTP proxy on loopback: CONNECT tunnels, with or without a password, by HTTP or TLS."""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field


@dataclass
class Proxy:
    """``seen`` lists what was asked for; every name leads to loopback, at the asked port."""

    port: int = 0
    login: str = ""  # user:password, '' for none
    seen: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        line, *headers = head.splitlines()
        method, target, _ = line.split()
        self.seen.append(f"{method} {target}")
        if self.login and not self._knows(headers):
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            writer.close()
            return
        far_reader, far_writer = await asyncio.open_connection(
            "127.0.0.1", int(target.rpartition(":")[2])
        )
        try:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
        finally:  # whoever is cut off before it copies has not closed
            far_writer.close()
            writer.close()

    def _knows(self, headers: list[str]) -> bool:
        wanted = f"Basic {base64.b64encode(self.login.encode()).decode()}"
        return f"Proxy-Authorization: {wanted}" in headers


@contextlib.asynccontextmanager
async def running(login: str = "", tls: ssl.SSLContext | None = None) -> AsyncIterator[Proxy]:
    """A proxy for the length of the block."""
    proxy = Proxy(login=login)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await proxy.serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
