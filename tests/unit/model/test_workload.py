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
