"""Machines and models to explore: by hand, and at random from a seed."""

from dataclasses import replace
from itertools import product
from math import inf
from random import Random

from geotrain.planning.costs.accelerators import Accelerator
from geotrain.planning.costs.calibrations import Device
from geotrain.planning.costs.layers import Overlap
from geotrain.planning.costs.shapes import Experts, Shape
from geotrain.planning.explore.layouts import Degrees, Layout, Placement
from geotrain.planning.explore.network import Network, Tier, Transport
from geotrain.planning.explore.search import Space, fault, whole_space
from geotrain.planning.explore.steps import EXPLORED, Problem

GIGABYTE = 10**9


def device(operations, memory):
    """One whose kernels between the products take no time."""
    return Device(Accelerator("given", operations, memory, inf))


def hiding(overlap):
    """As an exploration trains, with other exchanges behind compute."""
    return replace(EXPLORED, overlap=overlap)


def machine(rings="aware", *, units=(2, 2, 2), rates=(800e9, 100e9, 10e9), port=None):
    """Nodes, a building, a region."""
    names, latencies = ("node", "building", "region"), (1e-6, 1e-5, 1e-3)
    tiers = tuple(
        Tier(name, count, rate, latency, port if port and port > rate else None)
        for name, count, rate, latency in zip(names, units, rates, latencies, strict=True)
    )
    plain = Transport("plain", (0.8, 0.8, 0.5))
    return Network(tiers, (plain, Transport("tuned", (0.9, 0.9, 0.9))), rings)


def problem(network=None, *, memory=80 * GIGABYTE, experts=None, vocabulary=0, batch=32, **shape):
    """A small model on a small machine."""
    dense = {
        "layers": 8, "hidden": 2048, "sequence": 2048, "feed_forward": 8192, "heads": 16,
        "kv_heads": 4, "gated": True, "fused": True,
    }  # fmt: skip
    return Problem(
        Shape(**{**dense, **shape}, experts=experts, vocabulary=vocabulary),
        network or machine(),
        device(100e12, memory),
        batch,
    )


def given(task, transport="plain", **changes):
    """Two tensor ranks, two stages, data over the rest, outermost."""
    degrees = {"tensor": 2, "pipeline": 2, "data": task.network.devices // 4}
    degrees |= {name: changes.pop(name) for name in Degrees.__slots__ if name in changes}
    return Layout(Degrees(**degrees), Placement(), transport=transport, **changes)


def random_problem(seed):
    """A machine, a model and a layout that can run on it, from a seed."""
    random = Random(seed)
    while True:
        task = _random_task(random)
        layout = _random_layout(random, task)
        if layout is not None:
            return task, layout


def _random_task(random):
    tiers, rate, port = [], random.choice([200e9, 800e9]), None
    for level in range(random.choice([2, 3])):
        units = random.choice([1, 2, 2, 3])
        port = rate if level and random.random() < 0.5 else None
        rate /= random.choice([1, 2, 8, 16]) if level else 1
        latency = random.choice([1e-6, 1e-5, 1e-3, 2e-2])
        tiers.append(Tier(f"tier{level}", units, rate, latency, port))
    transports = [
        Transport(
            f"way{number}",
            tuple(random.choice([0.4, 0.7, 1.0]) for _ in tiers),
            random.choice([1.0, 0.9]),
        )
        for number in range(random.choice([1, 2]))
    ]
    heads = random.choice([4, 12, 16])
    experts = Experts(random.choice([4, 12]), 2, 1024, random.choice([0, 1]))
    shape = Shape(
        layers=random.choice([4, 6, 7]),
        hidden=heads * 64,
        sequence=random.choice([512, 1536]),
        feed_forward=4096,
        heads=heads,
        kv_heads=random.choice([heads, heads // 4]),
        gated=True,
        fused=True,
        vocabulary=random.choice([0, 32_000]),
        experts=random.choice([None, None, experts]),
    )
    return Problem(
        shape,
        Network(tuple(tiers), tuple(transports), random.choice(["aware", "oblivious"])),
        device(random.choice([5e12, 50e12]), round(random.choice([0.5, 2, 20]) * GIGABYTE)),
        random.choice([12, 24]),
        hiding(random.choice([Overlap(), Overlap(0.5, 0.5, 0.5, 0.5), Overlap(0, 0, 0, 0)])),
    )


def _random_layout(random, task):
    start = Layout(Degrees(data=task.network.devices), transport=task.network.transports[0].name)
    space = whole_space(task, start)
    for _ in range(100):
        schedule, chunks = random.choice(space.schedules)
        found = Layout(
            random.choice(space.degrees),
            random.choice(space.placements),
            schedule,
            chunks,
            random.choice(space.micro_batches),
            random.choice(space.recomputes),
            random.choice(space.transports),
        )
        if fault(task, found) is None:
            return found
    return None


def layouts(task, space: Space):
    """Every layout of a space that can run, whether it fits into memory or not."""
    for each, (schedule, chunks), micro_batch, recompute in product(
        space.degrees, space.schedules, space.micro_batches, space.recomputes
    ):
        first = Layout(each, Placement(), schedule, chunks, micro_batch, recompute)
        if fault(task, first) is None:
            for placement, transport in product(space.placements, space.transports):
                yield Layout(each, placement, schedule, chunks, micro_batch, recompute, transport)
