"""How long the extender takes to answer the scheduler, over one keep-alive connection.

The cluster has as many nodes as names are asked for, each with two training pods; in the worst
case all of them pass. ``_p50`` and ``_p99`` are what the scheduler waits, ``_cpu`` is the server's
processor time a call, which holds on a busy machine too. ``load`` is the machine's load average
for each core: above 1 the waits say more of the machine than of the extender.

Run ``python benchmarks/extender.py``; prints JSON lines.
"""

import asyncio
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from geotrain.api import labels
from geotrain.api.facts import node_from_manifest, pod_from_manifest
from geotrain.fitting import Occupancy
from geotrain.roles.extender.routes import Routes

NAMES = (500, 5000)
CALLS = 200
WARM_UP = 20
TICK = 1 / os.sysconf("SC_CLK_TCK")  # seconds


class Known:
    """A mirror that shows a made-up cluster."""

    synced = True

    def __init__(self, nodes: int) -> None:
        manifests = (_node(number) for number in range(nodes))
        pods = (_pod(rank, f"n{rank // 2}") for rank in range(2 * nodes))
        self.occupancy = Occupancy(map(node_from_manifest, manifests), map(pod_from_manifest, pods))


def main() -> None:
    for nodes in NAMES:
        mine, theirs = multiprocessing.Pipe()
        server = multiprocessing.Process(target=_serve, args=(nodes, theirs), daemon=True)
        server.start()
        try:
            url = f"http://127.0.0.1:{mine.recv()}"
            for line in asyncio.run(_measure(url, nodes, server.pid or 0)):
                print(json.dumps(line), flush=True)
        finally:
            server.terminate()
            server.join()
    load = round(os.getloadavg()[0] / (os.cpu_count() or 1), 2)
    print(json.dumps({"name": "load", "value": load, "unit": "per core"}))


def _serve(nodes: int, told: Connection) -> None:
    async def serve() -> None:
        runner = web.AppRunner(Routes(Known(nodes)).application(), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        told.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    asyncio.run(serve())


async def _measure(url: str, nodes: int, server: int) -> list[dict[str, Any]]:
    names = [f"n{number}" for number in range(nodes)]
    lines: list[dict[str, Any]] = []
    async with aiohttp.ClientSession() as session:
        for verb, center in (
            ("filter", "dc-east"),
            ("filter", "dc-west"),
            ("prioritize", "dc-east"),
        ):
            question = json.dumps({"Pod": _pod(0, "", center), "NodeNames": names}).encode()
            for _ in range(WARM_UP):
                await _ask(session, f"{url}/{verb}", question)
            before = _processor_time(server)
            times = [await _ask(session, f"{url}/{verb}", question) for _ in range(CALLS)]
            spent = (_processor_time(server) - before) / CALLS
            verdict = "all_pass" if center == "dc-east" else "all_fail"
            lines += _lines(f"extender_{verb}_{nodes}_{verdict}", times, spent)
    return lines


async def _ask(session: aiohttp.ClientSession, url: str, question: bytes) -> float:
    begin = time.perf_counter()
    async with session.post(url, data=question) as answer:
        await answer.read()
        assert answer.status == 200
    return time.perf_counter() - begin


def _processor_time(process: int) -> float:
    """Seconds of processor time that a process has used (proc(5): utime and stime)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK


def _lines(name: str, times: list[float], spent: float) -> Iterator[dict[str, Any]]:
    cuts = statistics.quantiles(times, n=100)
    for suffix, seconds in (("p50", cuts[49]), ("p99", cuts[98]), ("cpu", spent)):
        yield {"name": f"{name}_{suffix}", "value": round(seconds * 1000, 3), "unit": "ms"}


def _node(number: int) -> dict[str, Any]:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    metadata = {"name": f"n{number}", "labels": {labels.DATA_CENTER: "dc-east"}}
    return {"metadata": metadata, "status": {"allocatable": amounts}}


def _pod(rank: int, node: str, center: str = "dc-east") -> dict[str, Any]:
    tags = {
        labels.ROLE: labels.ROLE_TRAINER,
        labels.JOB: "gpt" if not node else f"job-{rank % 50}",
        labels.RANK: str(rank),
        labels.STAGE: str(rank // 2),
        labels.REPLICA: str(rank % 2),
    }
    requests = {"cpu": "4", "memory": "32Gi", "nvidia.com/gpu": "1", labels.MANAGED_RESOURCE: "1"}
    spec = {
        "nodeName": node,
        "nodeSelector": {labels.DATA_CENTER: center},
        "containers": [{"name": "trainer", "resources": {"requests": requests}}],
    }
    name = labels.pod_name(tags[labels.JOB], rank)
    return {"metadata": {"namespace": "team-a", "name": name, "labels": tags}, "spec": spec}


if __name__ == "__main__":
    main()
