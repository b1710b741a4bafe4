import json
from itertools import accumulate

import pytest

from examples.trainer.profile import ProfileError, stage_profile
from examples.trainer.settings import Place
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


def place(stage, stages, recompute="none", **values):
    return Place(stage, stage, 0, stages, 1, 4, 1, "", 1, 0, None, recompute=recompute, **values)


def read(where, **changes):
    return stage_profile(json.dumps({**DOCUMENT, **changes}), where)


def test_a_stage_costs_what_its_layers_cost():
    profile = read(place(0, 2, first_layer=0, layers=4))
    assert profile.seconds == pytest.approx({"F": 0.008, "B": 0.016, "I": 0.012, "W": 0.004})
    assert profile.boundary == 1024
    assert profile.optimizer_step == 0.005
    assert profile.early == 0.0
    last = read(place(1, 2, first_layer=4, layers=1))
    assert last.seconds["F"] == pytest.approx(62.003004005)


def test_without_a_plan_layers_are_dealt_out_evenly():
    assert read(place(0, 2)).seconds["F"] == pytest.approx(2 * 0.002)
    assert read(place(1, 2)).seconds["F"] == pytest.approx(2 * 0.002 + 62.003004005)


def test_recompute_repeats_the_forward_before_the_input_gradient():
    seconds = read(place(0, 2, "late", first_layer=0, layers=4)).seconds
    assert seconds == pytest.approx({"F": 0.008, "B": 0.024, "I": 0.020, "W": 0.004})


def test_an_early_recompute_is_that_of_the_layers_that_fit_into_one_ones_memory():
    entries = [
        {**DOCUMENT["layers"][0], "count": 3, "activationBytes": "1Mi"},
        {**DOCUMENT["layers"][0], "count": 1, "activationBytes": "512Ki"},
    ]
    where = place(0, 1, "early", first_layer=0, layers=4)
    profile = read(where, layers=entries)
    assert profile.early == pytest.approx(0.002)
    assert profile.seconds["I"] == pytest.approx(0.012 + 3 * 0.002)
    assert read(where, layers=entries[1:] * 4).early == pytest.approx(0.002)


def test_a_layer_may_have_its_own_recompute_and_step():
    own = {"recompute": "500us", "optimizerStep": "1ms"}
    entries = [{**DOCUMENT["layers"][0], **own}, DOCUMENT["layers"][1]]
    profile = read(place(0, 2, "late", first_layer=0, layers=4), layers=entries)
    assert profile.seconds["I"] == pytest.approx(0.012 + 4 * 0.0005)
    assert profile.optimizer_step == pytest.approx(0.005 + 4 * 0.001)


@pytest.mark.parametrize("stages", [1, 2, 3, 6, 7])
@pytest.mark.parametrize("recompute", ["none", "late", "early"])
def test_the_planner_counts_the_same(stages, recompute):
    entries = [
        {"count": 5, "forward": "2.586ms", "inputGradient": "3.979ms", "weightGradient": "2.302ms"},
        {"count": 3, "forward": "1ms", "inputGradient": "1ms", "weightGradient": "2ms"},
    ]
    for entry, size in zip(entries, ("1000", "400"), strict=True):
        entry["activationBytes"] = size
    layers = (LayerCosts(0.002586, 0.003979, 0.002302, 1000),) * 5 + (
        LayerCosts(0.001, 0.001, 0.002, 400),
    ) * 3
    counts = balanced_layers(layers, stages)
    planned = stage_costs(
        Profile(layers, 1024),
        counts,
        recompute=recompute != "none",
        early=recompute == "early",
    )
    begins = accumulate(counts, initial=0)
    for stage, (costs, begin) in enumerate(zip(planned, begins, strict=False)):
        where = place(stage, stages, recompute, first_layer=begin, layers=counts[stage])
        mine = read(where, layers=entries)
        assert mine.early == pytest.approx(costs.early)
        assert mine.seconds["F"] == pytest.approx(costs.forward)
        assert mine.early + mine.seconds["B"] == pytest.approx(costs.backward)
        assert mine.early + mine.seconds["I"] == pytest.approx(costs.input_gradient)
        assert mine.seconds["W"] == pytest.approx(costs.weight_gradient)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expecting property name"),
        ("[]", "TypeError"),
        (json.dumps({"layers": []}), "0 layers have no layers 0 to 1"),
        (json.dumps({**DOCUMENT, "boundaryBytes": "1Q"}), "'1Q' is not a quantity such as 64Mi"),
        (json.dumps({**DOCUMENT, "optimizerStep": "-1ms"}), "'-1ms' is not a duration"),
        (json.dumps({**DOCUMENT, "optimizerStep": "fast"}), "'fast' is not a duration"),
        (json.dumps({k: v for k, v in DOCUMENT.items() if k != "layers"}), "KeyError('layers')"),
    ],
)
def test_a_wrong_profile_is_refused(text, message):
    with pytest.raises(ProfileError) as error:
        stage_profile(text, place(0, 2, "late", first_layer=0, layers=2))
    assert message in str(error.value)
