"""A layer's times from its shape, by hand; and where the ends of a model count."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from geotrain.api import calibrations
from geotrain.model.workload import LayerCosts
from geotrain.planning.costs import layers
from geotrain.planning.costs.accelerators import ACCELERATORS, Accelerator
from geotrain.planning.costs.calibrations import Calibration, Device, Node
from geotrain.planning.costs.layers import Exchanges, Overlap, Parts, Split, Training
from geotrain.planning.costs.memory import SINGLE, Recompute, Sharing
from geotrain.planning.costs.shapes import Experts, Shape
from geotrain.planning.costs.tiers import Constant, Tier
from geotrain.planning.schedule.costs import gradients, stage_costs

DATA = Path(__file__).parents[3] / "data"
SHAPE = Shape(layers=4, hidden=64, heads=4, sequence=32, vocabulary=1000, micro_batch=2)
TOKENS = 64
ONE = Device(Accelerator("one", 1e9, 2**30, 1e9), Calibration(overhead=1e-3))
NODE = Node(8, Tier(Constant(8e6)), Tier(Constant(8e5)))


def split(tensor=1, pipeline=1, **shares):
    return Split(Sharing(tensor=tensor, **shares), pipeline)


def made(shape=SHAPE, exchanges=None, tensor=1, pipeline=1, shares=None, device=ONE, **training):
    divided = split(tensor, pipeline, **(shares or {}))
    return layers.profile(shape, device, Training(**training), divided, exchanges or Exchanges())


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
    layer = made(exchanges=layers.inside(NODE, 4), tensor=4).layers[1]
    operations = (24 * TOKENS * 64**2 + 4 * TOKENS * 32 * 64) / 4
    moved = (11 + 14 / 4) * 2 * TOKENS * 64 + 9 * 4 * TOKENS * 32 / 4
    exchange = 2 * (3 / 4) * 2 * TOKENS * 64 / 1e6
    assert layer.forward == pytest.approx((operations + moved) / 1e9 + 1e-3 + 2 * exchange)


def test_sequence_parallelism_divides_norms_and_gathers_again():
    plain, apart = (
        made(exchanges=layers.inside(NODE, 4), tensor=4, sequence_parallel=on).layers[1]
        for on in (False, True)
    )
    saved = 11 * 3 / 4 * 2 * TOKENS * 64 / 1e9
    exchange = 2 * (3 / 4) * 2 * TOKENS * 64 / 1e6
    assert plain.forward - apart.forward == pytest.approx(saved)
    assert apart.input_gradient - plain.input_gradient == pytest.approx(exchange - saved)


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
    sharded = made(state=replace(SINGLE, sharded=1), shares={"replicas": 4})
    assert sharded.layers[1].parameters == (4 + 4 + 2) * 12 * 64**2
    assert sharded.layers[1].step == pytest.approx(made().layers[1].step / 4)


def test_a_recomputed_feed_forward_pays_two_of_its_three_products():
    plain, partly = (
        made(recompute=kind).layers[1] for kind in (Recompute.NOTHING, Recompute.FEED_FORWARD)
    )
    again = 2 / 3 * 16 * TOKENS * 64**2 / 1e9
    assert partly.input_gradient - plain.input_gradient == pytest.approx(again)


def test_experts_exchange_their_tokens_in_place_of_one_all_reduce():
    shape = replace(SHAPE, experts=Experts(8, 2, 64))
    alone, four = made(shape), made(shape, exchanges=layers.inside(NODE, 4), tensor=4)
    assert alone.layers[1].forward > 0
    reduced = 2 * 3 / 4 * shape.boundary / 1e6
    routed = 2 * 3 / 4 * shape.routed / 4 / 1e6
    block = layers.block(shape, ONE, Training(), split(4), layers.inside(NODE, 4))
    assert block.forward.tensor == pytest.approx(reduced)
    assert block.forward.experts == pytest.approx(routed)
    assert four.layers[1].parameters == 16 * shape.layer_weights // 4


def test_what_is_sharded_is_gathered_behind_compute():
    def sharding(data):
        cover = Training(overlap=Overlap(data=data))
        exchanges = Exchanges(shard=lambda size: size / 1e3)
        return layers.block(SHAPE, ONE, cover, split(shard=2), exchanges)

    bare, hidden = sharding(0.0), sharding(1.0)
    size = SHAPE.dense_weights * 2 / 1e3
    assert bare.forward.sharding == pytest.approx(size)
    assert bare.input_gradient.sharding == pytest.approx(2 * size)
    assert hidden.forward.total == pytest.approx(size)


def test_tensor_groups_that_share_a_node_of_a_pipeline_contend():
    device = replace(ONE, calibration=Calibration(overhead=1e-3, contention=0.1))

    def block(tensor, pipeline):
        return layers.block(SHAPE, device, Training(), split(tensor, pipeline), Exchanges())

    assert block(8, 2).forward.contention == block(4, 1).forward.contention == 0
    four = block(4, 2).forward
    assert four.total == pytest.approx(1.1 * (four.total - four.contention))
    two = block(2, 2).forward
    assert two.total == pytest.approx(1.2 * (two.total - two.contention))
    head = layers.head(SHAPE, device, split(4, 2))
    assert head.contention == pytest.approx(0.1 * (head.total - head.contention))


def test_parts_add_up():
    one = Parts(1, 2, 3, 4, 5, 6, 7, 8, 9)
    assert one.total == 45
    assert one.plus(one.times(2)).total == 135


def test_tied_tables_are_one_in_a_single_stage_and_exchanged_between_two():
    tied = replace(SHAPE, tied=True)
    alone, two = made(tied), made(tied, pipeline=2)
    assert alone.layers[0].parameters == alone.layers[1].parameters
    assert alone.layers[0].step == alone.layers[1].step
    assert alone.tied == 0
    assert two.layers[0].parameters == made().layers[0].parameters
    assert two.tied == 2 * 64 * 1000


def test_a_replicated_boundary_is_sent_by_every_device_and_kept_once():
    usual, whole = made(tensor=4), made(tensor=4, replicated=True)
    assert whole.boundary == 4 * usual.boundary
    assert whole.recomputed == usual.recomputed == usual.boundary
    assert made(tensor=4, sequence_parallel=True).recomputed == usual.boundary / 4


def test_the_last_layer_keeps_the_logits():
    profile = made(tensor=2)
    extra = profile.layers[-1].activation - profile.layers[1].activation
    assert extra == 4 * TOKENS * 1000 / 2


def test_what_is_spent_once_is_in_the_optimizers_step():
    assert made(device=replace(ONE, calibration=Calibration(fixed=0.01))).optimizer_step == 0.01


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
        device = calibrations.usual(ACCELERATORS["H200"])
        profile = layers.profile(shape, device, Training(), split(), Exchanges())
        assert profile.layers[0].forward * 1e3 == pytest.approx(block["forward_ms"], rel=0.2)
        assert profile.layers[0].backward * 1e3 == pytest.approx(block["backward_ms"], rel=0.2)
        assert profile.boundary == block["boundary_bytes"]
