"""What we export is what ``torch.distributed.pipelining`` reads, where it is installed."""

import pytest

from geotrain.planning.schedule.actions import write_order
from geotrain.planning.schedule.lowering import lower
from geotrain.planning.schedule.policies import POLICIES
from geotrain.planning.schedule.uniform import Uniform

schedules = pytest.importorskip(
    "torch.distributed.pipelining.schedules",
    reason="torch with torch.distributed.pipelining is not installed",
)


@pytest.mark.parametrize("name", sorted(set(POLICIES) - {"optimal"}))
@pytest.mark.parametrize("messages", [False, True])
def test_torch_reads_every_action_as_we_wrote_it(name, messages):
    chosen = POLICIES[name]
    costs = Uniform(1.0, 1.0, 1.0).costs(chosen.layout(4, chosen.chunks or 2))
    order = chosen.order(costs, None, 8)
    for line in write_order(lower(order) if messages else order).splitlines():
        for cell in line.split(","):
            assert str(schedules._Action.from_str(cell)) == cell
