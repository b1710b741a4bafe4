"""Traffic that never rests, from stage 0 to stage 1; runs in the ranks of a job of two stages.

A rank of stage 0 sends without end to the rank of its replica in stage 1, and signals iterations
of the planned length that begin at whole multiples of it. CLOCK_MONOTONIC is the same in all pods
of the bed, so the receiver knows where in the iteration a byte arrives: every few seconds it
prints the bytes that came in each slice of the iteration.
"""

import json
import os
import socket
import threading
import time
from pathlib import Path

from geotrain.progress import Progress

PORT = 9000
SLICE = 0.05  # seconds
RAMP = 2  # iterations that are not counted: lanes open, the first window comes
CHUNK = bytes(65536)


def period() -> float:
    """The planned length of an iteration, in seconds."""
    return float(json.loads(Path("/etc/geotrain/network.json").read_text())["period"])


def signal(length: float) -> None:
    """Tell the sidecar of one iteration after another."""
    progress = Progress.from_environment()
    while True:
        number = int(time.monotonic() / length) + 1
        time.sleep(max(0.0, number * length - time.monotonic()))
        progress.iteration(number)
        progress.computing("0F0", 0.01)
        progress.waiting((number + 1) * length)
        time.sleep(0.9 * length)
        progress.finished(number, length)


def send(host: str) -> None:
    """Send until the receiver is gone, and then again."""
    while True:
        try:
            with socket.create_connection((host, PORT), timeout=5) as connection:
                connection.settimeout(None)
                while True:
                    connection.sendall(CHUNK)
        except OSError:
            time.sleep(0.5)


def receive(length: float) -> None:
    """Count what arrives by its place in the iteration."""
    with socket.create_server(("", PORT)) as server:
        connection, _ = server.accept()
    begin = told = time.monotonic() + RAMP * length
    slices = [0] * (int(length / SLICE) + 1)
    while data := connection.recv(1 << 18):
        now = time.monotonic()
        if now < begin:
            continue
        slices[int(now % length / SLICE)] += len(data)
        if now - told > length:
            told = now
            print(json.dumps({"iterations": (now - begin) / length, "slices": slices}), flush=True)


def main() -> None:
    """Do what the rank's stage does."""
    namespace, name = os.environ["GEOTRAIN_JOB"].split("/")
    if os.environ["GEOTRAIN_STAGE"] == "1":
        receive(period())
        return
    threading.Thread(target=signal, args=[period()], daemon=True).start()
    target = int(os.environ["RANK"]) + int(os.environ["GEOTRAIN_DATA"])
    send(f"{name}-r{target}.{name}.{namespace}.svc")


if __name__ == "__main__":
    main()
