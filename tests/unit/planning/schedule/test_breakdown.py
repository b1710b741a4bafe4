"""Parts add up to what the replay counts with."""

from dataclasses import replace

import pytest

from geotrain.model.workload import LayerCosts, Profile
from geotrain.planning.costs.layers import Block, Parts
from geotrain.planning.costs.shapes import Shape
from geotrain.planning.schedule import breakdown
from geotrain.planning.schedule.costs import stage_costs

LAYER = LayerCosts(3.0, 4.0, 2.0, 100, 60, state=(10, 20, 30))
PROFILE = Profile((LAYER,) * 4, boundary=7)


def test_measured_layers_are_a_whole_beside_their_recompute_and_sends():
    (stage,) = stage_costs(PROFILE, (4,), recompute=True)
    found = breakdown.time(replace(stage, forward=stage.forward + 0.5), PROFILE.layers, True)
    assert (found.measured, found.recompute, found.output) == (36, 12, 0)
    assert found.sends == pytest.approx(0.5)
    assert found.total == pytest.approx(stage.forward + stage.backward + 0.5)


def test_estimated_layers_have_parts_and_the_last_stage_an_output():
    block = Block(Parts(3.0), Parts(2.0, 1.5), Parts(2.0), again=Parts(0.5))
    (stage,) = stage_costs(PROFILE, (4,), recompute=False)
    head = Parts(0.25)
    stage = replace(stage, forward=stage.forward + 0.75)
    found = breakdown.time(stage, PROFILE.layers, False, (block, head))
    assert (found.layers.matrices, found.layers.attention) == (28, 6)
    assert (found.recompute, found.output, found.measured) == (2, 0.75, 0)
    assert found.sends == pytest.approx(0)
    assert found.total == pytest.approx(stage.forward + stage.backward)
    assert breakdown.time(stage, PROFILE.layers, False, (block, None)).sends == pytest.approx(0.75)


def test_memory_is_the_stages_whatever_is_known_of_it():
    for recompute in (True, False):
        (stage,) = stage_costs(PROFILE, (4,), recompute=recompute)
        found = breakdown.memory(PROFILE, PROFILE.layers, recompute, 3)
        assert (found.weights, found.gradients, found.optimizer, found.state) == (40, 80, 120, 0)
        assert found.total == stage.fixed + 3 * stage.held
    bare = tuple(replace(layer, state=None) for layer in PROFILE.layers)
    found = breakdown.memory(PROFILE, bare, True, 1)
    assert (found.weights, found.state, found.transient) == (0, 240, 100)


def test_utilisation_counts_what_is_computed_again_for_the_hardware_alone():
    shape = Shape(2, 64, 4, 32, 0)
    layer = shape.matrix_operations + shape.attention_operations
    plain = breakdown.utilisation(shape, 5, False, 2.0, 1e9)
    assert plain.model == plain.hardware == pytest.approx(5 * 6 * layer / 2e9)
    again = breakdown.utilisation(shape, 5, True, 2.0, 1e9)
    assert again.hardware == pytest.approx(plain.model * 4 / 3)
    nothing = breakdown.Utilisation(0.0, 0.0)
    assert breakdown.utilisation(shape, 5, True, 0.0, 1e9) == nothing
