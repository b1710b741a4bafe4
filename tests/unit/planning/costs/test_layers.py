"""A layer's times from its shape, by hand; and where the ends of a model count."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from geotrain.model.workload import LayerCosts
from geotrain.planning.costs import layers
from geotrain.planning.costs.accelerators import ACCELERATORS, Accelerator
from geotrain.planning.costs.layers import Node, Training
from geotrain.planning.costs.memory import SINGLE, Recompute
from geotrain.planning.costs.shapes import Shape
from geotrain.planning.costs.tiers import Constant, Tier
from geotrain.planning.schedule.costs import gradients, stage_costs

DATA = Path(__file__).parents[3] / "data"
SHAPE = Shape(layers=4, hidden=64, heads=4, sequence=32, vocabulary=1000, micro_batch=2)
TOKENS = 64
ONE = Accelerator("one", 1e9, 2**30, 1e9, 8e9, 1.0, 1.0, 1e-3)
QUIET = Node()


def made(shape=SHAPE, node=QUIET, **training):
    return layers.profile(shape, ONE, Training(**training), node)


def test_a_layer_takes_its_products_its_bytes_and_its_overhead():
    layer = made().layers[1]
    products, attention = 24 * TOKENS * 64**2, 4 * TOKENS * 32 * 64
    moved, scores = 25 * 2 * TOKENS * 64, 9 * 4 * TOKENS * 32
    assert layer.forward == pytest.approx((products + attention + moved + scores) / 1e9 + 1e-3)
    assert layer.input_gradient == pytest.approx(
        (products + 2 * attention + moved + 2 * scores) / 1e9 + 1e-3
    )
    assert layer.weight_gradient == pytest.approx(products / 1e9 + 1e-3)
    assert layer.step == pytest.approx(36 * 12 * 64**2 / 1e9)
    assert layer.parameters == 16 * 12 * 64**2
    assert layer.recompute is None


def test_tensor_ranks_divide_products_repeat_norms_and_exchange_twice():
    node = Node(8, Tier(Constant(8e6)))
    layer = made(node=node, tensor=4).layers[1]
    operations = (24 * TOKENS * 64**2 + 4 * TOKENS * 32 * 64) / 4
    moved = (11 + 14 / 4) * 2 * TOKENS * 64 + 9 * 4 * TOKENS * 32 / 4
    exchange = 2 * (3 / 4) * 2 * TOKENS * 64 / 1e6
    assert layer.forward == pytest.approx((operations + moved) / 1e9 + 1e-3 + 2 * exchange)


def test_sequence_parallelism_divides_norms_and_gathers_again():
    node = Node(8, Tier(Constant(8e6)))
    plain, split = (
        made(node=node, tensor=4, sequence_parallel=on).layers[1] for on in (False, True)
    )
    saved = 11 * 3 / 4 * 2 * TOKENS * 64 / 1e9
    exchange = 2 * (3 / 4) * 2 * TOKENS * 64 / 1e6
    assert plain.forward - split.forward == pytest.approx(saved)
    assert split.input_gradient - plain.input_gradient == pytest.approx(exchange - saved)


def test_recomputed_attention_is_part_of_the_input_gradient():
    plain, selective = (
        made(recompute=kind).layers[1] for kind in (Recompute.NOTHING, Recompute.ATTENTION)
    )
    again = (4 * TOKENS * 32 * 64 + 9 * 4 * TOKENS * 32) / 1e9
    assert selective.input_gradient - plain.input_gradient == pytest.approx(again)
    assert selective.activation < plain.activation


def test_a_full_recompute_brings_back_all_activations_of_a_layer():
    assert made(recompute=Recompute.ALL).layers[1].activation == made().layers[1].activation


def test_embedding_and_output_count_where_they_run_and_are_not_recomputed():
    first, inner, _, last = made().layers
    head = 2 * TOKENS * 64 * 1000 / 1e9 + 12 * TOKENS * 1000 / 1e9
    assert last.forward - inner.forward == pytest.approx(head)
    assert last.backward - inner.backward == pytest.approx(2 * head)
    assert first.forward == inner.forward
    for end in (first, last):
        assert end.recompute == inner.forward
        assert end.parameters - inner.parameters == 16 * 64 * 1000
        assert end.step > inner.step
        assert end.gradients == 2 * (12 * 64**2 + 64 * 1000)


def test_a_stage_sums_the_recompute_steps_and_gradients_of_its_layers():
    profile = made()
    found = stage_costs(profile, (2, 2), recompute=True)
    first, inner, _, last = profile.layers
    assert found[1].input_gradient == pytest.approx(
        inner.input_gradient + last.input_gradient + 2 * inner.forward
    )
    assert found[0].step == pytest.approx(first.step + inner.step)
    assert gradients(profile, profile.layers[:2]) == first.gradients + 2 * 12 * 64**2


def test_a_single_layer_holds_the_embedding_once():
    (only,) = made(replace(SHAPE, layers=1)).layers
    assert only.parameters == 16 * (12 * 64**2 + 64 * 1000)
    assert only.recompute == made().layers[1].forward


def test_state_may_be_sharded_and_single():
    assert made(state=SINGLE, tensor=4).layers[1].parameters == 16 * 12 * 64**2 // 4
    sharded = made(state=replace(SINGLE, sharded=1), replicas=4)
    assert sharded.layers[1].parameters == (4 + 4 + 2) * 12 * 64**2
    assert sharded.layers[1].step == pytest.approx(made().layers[1].step / 4)


def test_gated_and_grouped_layers_have_their_own_weights():
    """Llama 3 8B: 6.98e9 weights in 32 layers."""
    llama = Shape(32, 4096, 32, 8192, 128256, feed_forward=14336, kv_heads=8, gated=True)
    assert 32 * llama.layer_weights == pytest.approx(6.979e9, rel=1e-3)
    assert llama.width == 14336


@pytest.mark.parametrize("field", ["layers", "hidden", "heads", "sequence", "vocabulary"])
def test_a_shape_without_extent_is_refused(field):
    with pytest.raises(ValueError, match=f"a model's {field} is 0; give at least 1"):
        replace(SHAPE, **{field: 0})


def test_a_negative_width_is_refused():
    with pytest.raises(ValueError, match="feed_forward is -1; give 0 or more"):
        replace(SHAPE, feed_forward=-1)


@pytest.mark.parametrize("field", ["step", "recompute", "gradients"])
def test_a_negative_cost_is_refused(field):
    with pytest.raises(ValueError, match=f"a layer's {field} is -1; give 0 or more"):
        LayerCosts(1, 1, 1, **{field: -1})


def test_layers_of_an_h200_come_within_a_fifth_of_the_measured():
    """What the H200's constants were calibrated on; width 2048 is left out (36 % off)."""
    blocks = json.loads((DATA / "h200" / "h200_profile.json").read_text())["layers"]
    for block in blocks:
        if block["hidden"] < 4096:
            continue
        shape = Shape(1, block["hidden"], 32, block["seq"], 1, fused=True)
        profile = layers.profile(shape, ACCELERATORS["H200"], Training(), Node())
        assert profile.layers[0].forward * 1e3 == pytest.approx(block["forward_ms"], rel=0.2)
        assert profile.layers[0].backward * 1e3 == pytest.approx(block["backward_ms"], rel=0.2)
        assert profile.boundary == block["boundary_bytes"]
