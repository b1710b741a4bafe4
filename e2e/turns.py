"""Traffic from stage 0 to stage 1 that all wants to go at once; runs in a job of two stages.

A rank of stage 0 signals iterations of the planned length that begin at whole multiples of it, and
at each beginning sends nearly all that the plan has for an iteration, as one piece, to the rank of
its replica in stage 1: what keeps it back are the turns. CLOCK_MONOTONIC is the same in all pods
of the bed, so the receiver knows where in the iteration a byte arrives: every few seconds it
prints the bytes that came in each slice of the iteration.
"""

import json
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

from geotrain.progress import Progress

PORT = 9000
SLICE = 0.05  # seconds
RAMP = 2  # iterations that are not counted: lanes open, the first window comes
SHARE = 0.85  # of what the windows hold, headers too: an iteration must not run into the next


def network() -> dict[str, Any]:
    """What the plan says."""
    return dict(json.loads(Path("/etc/geotrain/network.json").read_text()))


def quota(plan: dict[str, Any], rank: int) -> int:
    """Bytes that a rank sends in an iteration."""
    (flow,) = (each for each in plan["flows"] if each["source"] == rank)
    paths = 1 + len(flow["mates"])
    bits = sum(w["length"] * w["rate"] for w in plan["windows"] if w["flow"] == flow["id"])
    return int(SHARE * paths * bits / 8)


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


def send(host: str, length: float, size: int) -> None:
    """Send an iteration's bytes at its beginning, until the receiver is gone, and then again."""
    piece = bytes(size)
    while True:
        try:
            with socket.create_connection((host, PORT), timeout=5) as connection:
                connection.settimeout(None)
                while True:
                    number = int(time.monotonic() / length) + 1
                    time.sleep(max(0.0, number * length - time.monotonic()))
                    connection.sendall(piece)
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
    plan, rank = network(), int(os.environ["RANK"])
    length = float(plan["period"])
    if os.environ["GEOTRAIN_STAGE"] == "1":
        receive(length)
        return
    threading.Thread(target=signal, args=[length], daemon=True).start()
    target = rank + int(os.environ["GEOTRAIN_DATA"])
    send(f"{name}-r{target}.{name}.{namespace}.svc", length, quota(plan, rank))


if __name__ == "__main__":
    main()
