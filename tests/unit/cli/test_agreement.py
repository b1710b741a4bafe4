"""Plan, explore and costs price one layout alike, whatever the model and its place."""

from math import prod
from random import Random

import pytest

from geotrain.api import exploration
from geotrain.planning.explore.search import Explorer
from geotrain.planning.placement.choose import choose
from geotrain.planning.schedule import breakdown, costs
from support import measured

LAYOUTS = 200
_ACCELERATORS = ("A100", "h100-80gb", "H200", "L40S", "GH-96", "NVIDIA-B200")


def layout(seed):
    """A job in one data centre that plan and explore can express, from a seed."""
    random = Random(seed)
    tensor = random.choice([1, 2, 4, 8])
    data, pipeline = random.choice([1, 2, 3, 4]), random.choice([1, 2, 4])
    micro, count = random.choice([1, 2]), random.choice([1, 3, 4, 8])
    heads = 8 * random.choice([1, 2])
    layers = pipeline * random.choice([1, 2]) + random.choice([0, 1, 3])
    model = {
        "layers": layers,
        "hiddenSize": heads * random.choice([64, 128]),
        "heads": heads,
        "keyValueHeads": random.choice([heads, heads // 4]),
        "sequenceLength": random.choice([512, 2048]),
        "vocabularySize": random.choice([1000, 32_000, 128_256]),
        "attention": random.choice(["Fused", "Unfused"]),
        "parameterDtype": random.choice(["bfloat16", "float32"]),
        **random.choice([{}, {}, {"gradientBytes": 4}, {"optimizerBytes": 8}]),
        **random.choice(
            [{}, {"feedForward": 1536}, {"feedForward": 1536, "gated": False},
             {"experts": {"count": 8, "perToken": 2, "feedForward": 768}}]
        ),
    }  # fmt: skip
    parallelism = {"sequenceParallel": random.choice([True, False])}
    if random.random() < 0.3:
        few, more = divmod(layers, pipeline)
        parallelism["layersPerStage"] = [few + more, *[few] * (pipeline - 1)]
    spec = {
        "parallelism": parallelism,
        "schedule": {"policy": "OneFOneB", "recompute": random.choice([True, False])},
        "network": {
            "boundaries": random.choice(["Scattered", "Replicated"]),
            "sends": random.choice(["Overlapped", "Blocking"]),
        },
    }
    network = random.choice(
        [
            {},
            {"podRate": "400G"},
            {"gpuRate": "400G", "latency": "5us"},
            {"podRate": "800G", "gpuRate": "200G"},
            {"podRate": "100G", "nodeRate": "256G", "nodeGpus": 4},
        ]
    )
    degrees = (tensor, data, pipeline)
    job = measured.job(model, degrees, count * data * micro, micro, **spec)
    return job, measured.place(prod(degrees), random.choice(_ACCELERATORS), network)


@pytest.mark.parametrize("begin", range(0, LAYOUTS, 40))
def test_one_layout_has_one_price(begin):
    for seed in range(begin, begin + 40):
        found = measured.read(*layout(seed))
        (job,) = found.jobs
        topology, work = found.topology(job), found.workload(job, None)
        plan = choose(topology, work)
        ((_, problem, given),) = exploration.of_job(job, topology, found.data_centers)
        explored = Explorer(problem, given).evaluate(given)
        assert explored.seconds == pytest.approx(plan.iteration, rel=1e-9), seed
        whole = costs.costs(topology, work, plan.placement, plan.layers)
        held = []
        for number, stage in enumerate(whole.stages):
            first = sum(plan.layers[:number])
            some = work.profile.layers[first : first + plan.layers[number]]
            time = breakdown.time(stage, some, work.recompute)
            assert time.total == pytest.approx(stage.forward + stage.backward, rel=1e-9), seed
            memory = breakdown.memory(work.profile, some, work.recompute, plan.in_flight[number])
            assert memory.total == stage.fixed + plan.in_flight[number] * stage.held
            held.append(memory.total)
        assert explored.memory == pytest.approx(max(held), rel=1e-9), seed
