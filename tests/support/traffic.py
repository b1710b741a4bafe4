"""The two ends of a test connection, as a program: ``traffic.py sink|echo|send|ping …``.

sink PORT                       accepts; answers each stream's end with its length and SHA-256
echo PORT                       sends back what comes
send ADDRESS PORT BYTES [N]     over N connections; prints {"seconds", "sha256", "answers"}
ping ADDRESS PORT COUNT         64-byte ping-pong; prints {"least", "p50", "p99"} in seconds
"""

import hashlib
import json
import socket
import sys
import threading
import time


def pattern(size: int) -> bytes:
    """Bytes that no shift, loss or repetition leaves alike."""
    seed = hashlib.sha256(b"geotrain").digest()
    block = b"".join(hashlib.sha256(seed + i.to_bytes(4, "big")).digest() for i in range(4096))
    return (block * (size // len(block) + 1))[:size]


def _each(port: int, serve: object) -> None:
    listener = socket.create_server(("0.0.0.0", port))
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


def _sink(connection: socket.socket) -> None:
    digest, size, buffer = hashlib.sha256(), 0, bytearray(1 << 20)
    with connection:
        while count := connection.recv_into(buffer):
            digest.update(memoryview(buffer)[:count])
            size += count
        connection.sendall(json.dumps({"bytes": size, "sha256": digest.hexdigest()}).encode())


def _echo(connection: socket.socket) -> None:
    with connection:
        while data := connection.recv(1 << 16):
            connection.sendall(data)


def _send(address: str, port: int, size: int, count: int) -> None:
    data = pattern(size // count)
    answers: list[object] = []

    def one() -> None:
        with socket.create_connection((address, port)) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
            answers.append(json.loads(answer))

    begun = time.monotonic()
    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - begun
    digest = hashlib.sha256(data).hexdigest()
    print(json.dumps({"seconds": seconds, "sha256": digest, "answers": answers}), flush=True)


def _ping(address: str, port: int, count: int) -> None:
    times = []
    with socket.create_connection((address, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            begun = time.monotonic()
            connection.sendall(bytes(64))
            connection.recv(64)
            times.append(time.monotonic() - begun)
    times.sort()
    print(
        json.dumps({"least": times[0], "p50": times[count // 2], "p99": times[count * 99 // 100]}),
        flush=True,
    )


if __name__ == "__main__":
    verb, *words = sys.argv[1:]
    if verb == "sink":
        _each(int(words[0]), _sink)
    elif verb == "echo":
        _each(int(words[0]), _echo)
    elif verb == "send":
        _send(words[0], int(words[1]), int(words[2]), int(words[3]) if words[3:] else 1)
    else:
        _ping(words[0], int(words[1]), int(words[2]))
