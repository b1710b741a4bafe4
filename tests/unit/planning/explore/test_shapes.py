import pytest

from geotrain.planning.explore.shapes import Experts, Shape

DENSE = Shape(126, 16384, 8192, 53248, 128, 8, 128_256)
MIXTURE = Shape(61, 7168, 4096, 0, 128, 128, 129_280, Experts(256, 8, 2048, 1))


def test_known_models_have_their_size():
    assert DENSE.parameters == pytest.approx(405e9, rel=0.01)
    # a layer's attention is smaller in the real one (latent), and three of its layers are dense
    assert MIXTURE.parameters == pytest.approx(671e9, rel=0.08)


def test_a_token_costs_two_operations_a_weight_that_it_uses():
    assert DENSE.matrix_operations == pytest.approx(2 * DENSE.dense_weights)
    used = MIXTURE.dense_weights + MIXTURE.expert_weights * 8 / 256
    assert MIXTURE.matrix_operations == pytest.approx(2 * used)
    assert DENSE.attention_operations == 2 * 8192 * 16384
    assert DENSE.head_operations == 2 * 16384 * 128_256


@pytest.mark.parametrize("shape", [DENSE, MIXTURE])
def test_recompute_keeps_less(shape):
    assert shape.kept("none") > shape.kept("selective") > shape.kept("full")
    assert shape.kept("full") == 2 * shape.hidden
    assert shape.transient("none") == 0
    assert shape.transient("full") == shape.kept("none")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"layers": 0}, "layers is 0"),
        ({"feed_forward": 0}, "feed-forward width"),
        ({"key_value_heads": 3}, "do not divide 16 heads"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(changes, says):
    plain = {
        "layers": 2, "hidden": 64, "sequence": 8, "feed_forward": 128, "heads": 16,
        "key_value_heads": 4,
    }  # fmt: skip
    with pytest.raises(ValueError, match=says):
        Shape(**{**plain, **changes})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [((4, 5, 8), "5 of 4 experts"), ((4, 2, 0), "feed-forward width"), ((4, 2, 8, -1), "shared")],
)
def test_a_mixture_that_cannot_be_is_refused(arguments, says):
    with pytest.raises(ValueError, match=says):
        Experts(*arguments)
