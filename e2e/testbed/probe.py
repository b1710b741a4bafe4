"""Measures the network between two pods; runs in them, with the standard library alone.

python3 probe.py serve PORT                       answers the other commands
python3 probe.py rtt HOST PORT                    prints the median round-trip time in seconds
python3 probe.py rate HOST PORT CONNECTIONS S     prints bit/s received over that many connections
python3 probe.py reach HOST PORT                  prints whether a connection comes about in 3 s
"""

import asyncio
import socket
import statistics
import sys
import time

PING, STREAM = b"p", b"s"
PINGS = 15
CHUNK = bytes(65536)
RAMP = 1.5  # seconds before the counting begins: connections open and windows grow


async def serve(port: int) -> None:
    """Echoes single bytes to those that ask for pings, and streams zeros to the others."""

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            kind = await reader.readexactly(1)
            while True:
                if kind == PING:
                    writer.write(await reader.readexactly(1))
                else:
                    writer.write(CHUNK)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(converse, None, port, backlog=256)
    async with server:
        await server.serve_forever()


def rtt(host: str, port: int) -> float:
    """The median time between a byte and its echo."""
    times = []
    with socket.create_connection((host, port), timeout=10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(PING)
        for _ in range(PINGS):
            begin = time.monotonic()
            connection.sendall(b"x")
            connection.recv(1)
            times.append(time.monotonic() - begin)
    return statistics.median(times)


async def rate(host: str, port: int, connections: int, seconds: float) -> float:
    """What arrives over some connections together, after a ramp."""
    received = 0

    async def receive() -> None:
        nonlocal received
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(STREAM)
        try:
            while data := await reader.read(1 << 18):
                received += len(data)
        finally:
            writer.close()

    tasks = [asyncio.create_task(receive()) for _ in range(connections)]
    await asyncio.sleep(RAMP)
    begin, before = time.monotonic(), received
    await asyncio.sleep(seconds)
    result = (received - before) * 8 / (time.monotonic() - begin)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return result


def reach(host: str, port: int) -> bool:
    """Whether the server accepts a connection in time."""
    try:
        with socket.create_connection((host, port), timeout=3):
            return True
    except OSError:
        return False


def main(command: str, *words: str) -> None:
    """Runs one command."""
    if command == "serve":
        asyncio.run(serve(int(words[0])))
    elif command == "rtt":
        print(rtt(words[0], int(words[1])))
    elif command == "rate":
        print(asyncio.run(rate(words[0], int(words[1]), int(words[2]), float(words[3]))))
    elif command == "reach":
        print(reach(words[0], int(words[1])))


if __name__ == "__main__":
    main(*sys.argv[1:])
