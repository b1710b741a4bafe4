import pytest

from geotrain.model.workload import LayerCosts
from support.planning import workload


def test_a_backward_is_both_gradients():
    assert LayerCosts(1.0, 2.0, 3.0).backward == 5.0


@pytest.mark.parametrize("field", ["forward", "input_gradient", "activation", "parameters"])
def test_negative_costs_are_refused(field):
    values = {"forward": 1.0, "input_gradient": 1.0, "weight_gradient": 1.0, field: -1}
    with pytest.raises(ValueError, match=f"a layer's {field} is -1; give 0 or more"):
        LayerCosts(**values)


def test_a_replica_runs_its_share_of_the_batch_or_none_where_it_does_not_divide():
    work = workload(global_batch=32, micro_batch=2)
    assert work.micro_batches(4) == 4
    assert work.micro_batches(3) == 0


def test_the_state_of_a_layer_is_what_its_parameters_take():
    assert LayerCosts(1.0, 1.0, 1.0, parameters=6, state=(1, 2, 3)).state == (1, 2, 3)
    with pytest.raises(ValueError, match="state must add up"):
        LayerCosts(1.0, 1.0, 1.0, parameters=7, state=(1, 2, 3))


@pytest.mark.parametrize(
    ("layers", "says"),
    [
        ((4, 4), "4, 4 are 2 stages of 8 layers; the pipeline has 4 of 8"),
        ((2, 2, 2, 1), "4 stages of 7 layers; the pipeline has 4 of 8"),
        ((3, 3, 2, 0), "every stage needs a layer"),
    ],
)
def test_layers_of_stages_are_those_of_the_model(layers, says):
    assert workload(layers=(1, 2, 3, 2)).layers == (1, 2, 3, 2)
    with pytest.raises(ValueError, match=says):
        workload(layers=layers)
