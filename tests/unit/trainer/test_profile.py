import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from examples.trainer.profile import ProfileError, split, stage_profile
from geotrain.model.topology import Topology
from geotrain.model.workload import LayerCosts, Profile
from geotrain.planning.schedule.balance import balanced_layers
from geotrain.planning.schedule.costs import stage_costs

DOCUMENT = {
    "layers": [
        {"count": 4, "forward": "2ms", "inputGradient": "3ms", "weightGradient": "1ms"},
        {"forward": "1m2s3ms4us5ns", "inputGradient": "0s", "weightGradient": "0s"},
    ],
    "boundaryBytes": "1Ki",
    "optimizerStep": "5ms",
}


def read(stage, stages, recompute=False, **changes):
    return stage_profile(json.dumps({**DOCUMENT, **changes}), stage, stages, recompute)


def test_a_stage_costs_what_its_layers_cost():
    profile = read(0, 2)
    assert profile.seconds == pytest.approx({"F": 0.008, "B": 0.016, "I": 0.012, "W": 0.004})
    assert profile.boundary == 1024
    assert profile.optimizer_step == 0.005
    assert read(1, 2).seconds["F"] == pytest.approx(62.003004005)


def test_recompute_repeats_the_forward_before_the_input_gradient():
    seconds = read(0, 2, recompute=True).seconds
    assert seconds == pytest.approx({"F": 0.008, "B": 0.024, "I": 0.020, "W": 0.004})


def test_a_layer_may_have_its_own_recompute_and_step():
    own = {"recompute": "500us", "optimizerStep": "1ms"}
    entries = [{**DOCUMENT["layers"][0], **own}, DOCUMENT["layers"][1]]
    profile = read(0, 2, recompute=True, layers=entries)
    assert profile.seconds["I"] == pytest.approx(0.012 + 4 * 0.0005)
    assert profile.optimizer_step == pytest.approx(0.005 + 4 * 0.001)


@pytest.mark.parametrize("stages", [1, 2, 3, 6, 7])
@pytest.mark.parametrize("recompute", [False, True])
def test_the_planner_counts_the_same(stages, recompute):
    entries = [
        {"count": 5, "forward": "2.586ms", "inputGradient": "3.979ms", "weightGradient": "2.302ms"},
        {"count": 3, "forward": "1ms", "inputGradient": "1ms", "weightGradient": "2ms"},
    ]
    layers = (LayerCosts(0.002586, 0.003979, 0.002302),) * 5 + (
        LayerCosts(0.001, 0.001, 0.002),
    ) * 3
    planned = stage_costs(
        Profile(layers, 1024),
        balanced_layers(layers, stages),
        2,
        recompute=recompute,
        topology=Topology(()),
    )
    for stage, costs in enumerate(planned):
        mine = read(stage, stages, recompute, layers=entries).seconds
        assert mine["F"] == pytest.approx(costs.forward)
        assert mine["B"] == pytest.approx(costs.backward)
        assert mine["I"] == pytest.approx(costs.input_gradient)
        assert mine["W"] == pytest.approx(costs.weight_gradient)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.integers(1, 12))
def test_the_planner_splits_the_same(milliseconds, stages):
    assume(stages <= len(milliseconds))
    layers = tuple(LayerCosts(n / 1000, 0.0, 0.0) for n in milliseconds)
    times = [round(layer.forward * 1e12) + 1 for layer in layers]
    assert split(times, stages) == balanced_layers(layers, stages)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting property name"),
        ("[]", "TypeError"),
        (json.dumps({"layers": []}), "0 layers cannot make 2 stages"),
        (json.dumps({**DOCUMENT, "boundaryBytes": "1Q"}), "'1Q' is not a quantity such as 64Mi"),
        (json.dumps({**DOCUMENT, "optimizerStep": "-1ms"}), "'-1ms' is not a duration"),
        (json.dumps({**DOCUMENT, "optimizerStep": "fast"}), "'fast' is not a duration"),
        (json.dumps({k: v for k, v in DOCUMENT.items() if k != "layers"}), "KeyError('layers')"),
    ],
)
def test_a_wrong_profile_is_refused(text, message):
    with pytest.raises(ProfileError) as error:
        stage_profile(text, 0, 2, recompute=True)
    assert message in str(error.value)
