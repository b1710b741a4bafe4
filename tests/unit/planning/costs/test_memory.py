"""Memory against figure 1 of Korthikanti et al., byte for byte."""

import json
from math import ceil
from pathlib import Path

import pytest

from benchmarks.calibration import MODELS
from geotrain.planning.costs import memory
from geotrain.planning.costs.memory import Recompute, Sharing, StateBytes
from geotrain.planning.costs.shapes import Experts, Shape

DATA = Path(__file__).parents[3] / "data"
FIGURE = json.loads((DATA / "calculon" / "reference_values.json").read_text())[
    "arXiv2205.05198_fig1_GiB"
]


@pytest.mark.parametrize("model", FIGURE)
@pytest.mark.parametrize(
    ("figure", "recompute", "sequence_parallel"),
    [("none", Recompute.NOTHING, False), ("seqsel", Recompute.ATTENTION, True)],
)
def test_the_first_stage_holds_what_the_paper_says(model, figure, recompute, sequence_parallel):
    shape, layout, _ = MODELS[model]
    tensor, pipeline = layout.degrees.tensor, layout.degrees.pipeline
    one = memory.layer_activation(shape, tensor, recompute, sequence_parallel=sequence_parallel)
    # With v chunks the first of P devices holds 1 + (P - 1) / (P v) times the activations that it
    # holds with one (ibid., section 4.2.3).
    share = 1 + (pipeline - 1) / (pipeline * layout.chunks)
    share = share if layout.chunks > 1 else 1
    assert one * shape.layers * share / 2**30 == pytest.approx(FIGURE[model][figure]["act"])


@pytest.mark.parametrize("model", FIGURE)
def test_weights_gradients_and_optimizer_state_are_what_the_paper_says(model):
    shape, layout, _ = MODELS[model]
    degrees = layout.degrees
    weights = shape.layer_weights * shape.layers / degrees.tensor / degrees.pipeline
    per_weight = memory.MIXED_MAIN_GRADIENTS.per_weight()
    assert weights * per_weight / 2**30 == pytest.approx(FIGURE[model]["none"]["par_opt"])


SHAPE = Shape(4, 1024, 16, 512, 1000)


def test_a_full_recompute_keeps_the_input_alone():
    assert memory.layer_activation(SHAPE, 8, Recompute.ALL) == SHAPE.boundary
    shared = memory.layer_activation(SHAPE, 8, Recompute.ALL, sequence_parallel=True)
    assert shared == SHAPE.boundary / 8


def test_a_fused_attention_keeps_no_scores():
    fused = Shape(4, 1024, 16, 512, 1000, fused=True)
    assert memory.layer_activation(fused, 2, Recompute.NOTHING) == memory.layer_activation(
        SHAPE, 2, Recompute.ATTENTION
    )


def test_a_recomputed_feed_forward_keeps_its_inputs_alone():
    partly = memory.layer_activation(SHAPE, 1, Recompute.FEED_FORWARD)
    whole = memory.layer_activation(SHAPE, 1, Recompute.NOTHING)
    assert whole - partly == 16 * 512 * 1024


def test_a_lean_trainer_keeps_norms_inputs_and_two_values_of_a_gate():
    gated = Shape(4, 1024, 16, 512, 1000, gated=True, fused=True, kv_heads=4)
    whole, lean = (
        memory.layer_activation(gated, 1, Recompute.NOTHING, lean=on) for on in (False, True)
    )
    assert whole == 512 * (10 * 1024 + 2 * (2 * 1024 + 2 * 256 + 3 * 4096))
    assert lean == 512 * (4 * 1024 + 2 * (2 * 1024 + 2 * 256 + 2 * 4096))
    half = memory.layer_activation(gated, 1, Recompute.NOTHING, lean=True, context=2)
    assert half == lean / 2


def test_experts_keep_the_tokens_that_they_were_sent():
    mixture = Shape(4, 1024, 16, 512, 1000, fused=True, experts=Experts(8, 2, 512))
    kept = memory.layer_activation(mixture, 1, Recompute.NOTHING)
    assert kept == 512 * (10 * 1024 + 2 * (4 * 1024 + 2 * 1024 + 2 * 2 * 512))


@pytest.mark.parametrize(
    ("sharded", "expected"), [(0, (50, 50, 300)), (1, (50, 50, 75)), (2, (50, 12.5, 75)),
                              (3, (12.5, 12.5, 75))],
)  # fmt: skip
def test_each_device_holds_its_part_of_the_state(sharded, expected):
    kept = StateBytes(sharded=sharded)
    found = memory.state(60, 40, kept, Sharing(tensor=4, expert=1, replicas=4))
    assert found == tuple(map(ceil, expected))


def test_experts_and_other_weights_are_shared_apart():
    weight, gradient, optimizer = memory.state(
        64, 32, StateBytes(sharded=1), Sharing(tensor=2, expert=4, shard=8, replicas=16)
    )
    assert weight == gradient == 2 * (64 / 16 + 32 / 8)
    assert optimizer == 12 * 96 / 32


@pytest.mark.parametrize(("stage", "expected"), [(0, 16), (1, 7), (2, 5.5), (3, 4)])
def test_sharding_divides_optimizer_then_gradients_then_weights(stage, expected):
    assert StateBytes(sharded=stage).per_weight(4) == expected
