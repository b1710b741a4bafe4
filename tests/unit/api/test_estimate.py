"""Costs from a job's few figures, and how near a measurement they come."""

from dataclasses import replace

import pytest

from geotrain.api import estimate
from geotrain.api.estimate import Shape
from geotrain.planning.costs.accelerators import ACCELERATORS

SHAPE = Shape(layers=4, hidden=4096, sequence=4096, vocabulary=50_000)
H200 = ACCELERATORS["H200"]


def test_an_estimate_is_within_a_seventh_of_a_measured_layer() -> None:
    """An H200 took 2.586 ms forward and 6.281 ms backward for this layer."""
    layer = estimate.training_profile(SHAPE, H200).layers[1]
    assert layer.forward == pytest.approx(2.586e-3, rel=0.15)
    assert layer.backward == pytest.approx(6.281e-3, rel=0.15)


def test_the_ends_carry_embedding_and_output() -> None:
    first, inner, *_, last = estimate.training_profile(SHAPE, H200).layers
    embedding = 16 * 50_000 * 4096
    assert first.parameters - inner.parameters == embedding
    assert last.parameters - inner.parameters == embedding
    assert first.forward == inner.forward
    assert last.forward > inner.forward


def test_a_single_layer_holds_the_embedding_once() -> None:
    (only,) = estimate.training_profile(replace(SHAPE, layers=1), H200).layers
    assert only.parameters == 16 * (12 * 4096**2 + 50_000 * 4096)


def test_tensor_parallelism_divides_memory_but_not_the_boundary_nor_all_of_the_time() -> None:
    alone = estimate.training_profile(SHAPE, H200)
    eight = estimate.training_profile(replace(SHAPE, tensor=8), H200)
    assert 1 < alone.layers[1].forward / eight.layers[1].forward < 8
    assert eight.layers[1].parameters * 8 == alone.layers[1].parameters
    assert 1 < alone.layers[1].activation / eight.layers[1].activation < 8
    assert eight.gradient_bytes_per_layer * 8 == alone.gradient_bytes_per_layer
    assert eight.boundary == alone.boundary == 4096 * 4096 * 2


def test_a_larger_micro_batch_and_type_send_more() -> None:
    profile = estimate.training_profile(replace(SHAPE, micro_batch=2, dtype="float32"), H200)
    assert profile.boundary == 2 * 4096 * 4096 * 4
    assert profile.layers[1].parameters == 16 * 12 * 4096**2


def test_a_narrow_model_has_a_head() -> None:
    assert estimate.training_profile(replace(SHAPE, hidden=64), H200).layers[0].forward > 0


def test_prefill_grows_faster_than_the_prompt() -> None:
    profile = estimate.prefill_profile(32, 4096, H200.peak)
    assert profile.layer_time(8192) > 4 * profile.layer_time(2048)
    assert profile.layer_time(2048) == pytest.approx(1.6e-3, rel=0.15)  # measured on an H200
