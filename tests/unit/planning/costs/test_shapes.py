"""Known models have their size, and a token costs two operations a weight that it uses."""

from dataclasses import replace

import pytest

from geotrain.planning.costs.shapes import Experts, Shape

DENSE = Shape(
    126, 16384, 128, 8192, 128_256, feed_forward=53248, kv_heads=8, gated=True, fused=True
)
MIXTURE = Shape(
    61, 7168, 128, 4096, 129_280, gated=True, fused=True, experts=Experts(256, 8, 2048, 1)
)
MIXTRAL = Shape(
    32, 4096, 32, 8192, 32_000, kv_heads=8, gated=True, fused=True, experts=Experts(8, 2, 14336)
)


def test_known_models_have_their_size():
    assert DENSE.parameters == pytest.approx(405e9, rel=0.01)
    # a layer's attention is smaller in the real one (latent), and three of its layers are dense
    assert MIXTURE.parameters == pytest.approx(671e9, rel=0.08)
    assert MIXTRAL.parameters == pytest.approx(46.7e9, rel=0.01)
    assert replace(MIXTRAL, tied=True).parameters == MIXTRAL.parameters - 32_000 * 4096


def test_gated_and_grouped_layers_have_their_own_weights():
    """Llama 3 8B: 6.98e9 weights in 32 layers."""
    llama = Shape(32, 4096, 32, 8192, 128256, feed_forward=14336, kv_heads=8, gated=True)
    assert 32 * llama.layer_weights == pytest.approx(6.979e9, rel=1e-3)
    assert llama.width == 14336
    assert llama.expert_weights == llama.routed == 0


@pytest.mark.parametrize("shape", [DENSE, MIXTURE, MIXTRAL])
def test_a_token_costs_two_operations_a_weight_that_it_uses(shape):
    used = shape.dense_weights
    if shape.experts:
        used += shape.expert_weights * shape.experts.per_token / shape.experts.count
    assert shape.matrix_operations == pytest.approx(2 * shape.tokens * used)
    assert shape.attention_operations == 2 * shape.tokens * shape.sequence * shape.hidden
    assert shape.head_operations == 2 * shape.tokens * shape.hidden * shape.vocabulary
    layer = shape.matrix_operations + shape.attention_operations
    whole = 3 * (shape.layers * layer + shape.head_operations)
    assert shape.model_operations == pytest.approx(whole)


def test_what_is_routed_is_sent_once_for_each_expert():
    assert MIXTRAL.routed == 2 * MIXTRAL.boundary


def test_kernels_between_products_move_more_where_a_gate_is():
    plain = Shape(1, 64, 4, 32, 100)
    assert plain.divided_bytes == 14 * plain.boundary
    assert replace(plain, gated=True).divided_bytes > plain.divided_bytes


PLAIN = Shape(4, 64, 4, 32, 1000)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"layers": 0}, "a model's layers is 0; give 1 or more"),
        ({"hidden": 0}, "hidden is 0"),
        ({"heads": 0}, "heads is 0"),
        ({"sequence": 0}, "sequence is 0"),
        ({"vocabulary": -1}, "vocabulary is -1; give 0 or more"),
        ({"feed_forward": -1}, "feed_forward is -1; give 0 or more"),
        ({"kv_heads": 3}, "3 key-value heads do not divide 4 heads"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(changes, says):
    with pytest.raises(ValueError, match=says):
        replace(PLAIN, **changes)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [((4, 5, 8), "5 of 4 experts"), ((4, 2, 0), "feed-forward width"), ((4, 2, 8, -1), "shared")],
)
def test_a_mixture_that_cannot_be_is_refused(arguments, says):
    with pytest.raises(ValueError, match=says):
        Experts(*arguments)
