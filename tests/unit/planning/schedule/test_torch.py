"""PyTorch loads what we export and we read what it dumps, where it is installed."""

from types import SimpleNamespace

import pytest

from geotrain.planning.schedule import checks
from geotrain.planning.schedule.actions import compute_only, read_order, write_order
from geotrain.planning.schedule.layouts import layout_of
from geotrain.planning.schedule.lowering import lower
from geotrain.planning.schedule.policies import POLICIES
from geotrain.planning.schedule.uniform import Uniform

schedules = pytest.importorskip(
    "torch.distributed.pipelining.schedules",
    reason="torch with torch.distributed.pipelining is not installed",
)

RANKS, MICRO_BATCHES = 4, 8
PATTERNS = (
    "LoopedBFS",
    "Interleaved1F1B",
    "InterleavedZeroBubble",
    "ZBVZeroBubble",
    "DualPipeV",
)
"""PyTorch's own schedules of two stages a rank. Its others don't pass its own checks (2.15)."""


def order_of(name):
    chosen = POLICIES[name]
    costs = Uniform(1.0, 1.0, 1.0).costs(chosen.layout(RANKS, chosen.chunks or 2))
    return chosen.order(costs, None, MICRO_BATCHES)


def stages(each):
    """What a schedule asks of the stages of rank 0."""
    one = SimpleNamespace(
        group_rank=0,
        group_size=RANKS,
        num_stages=RANKS * each,
        stage_index=0,
        submod=None,
        has_backward=True,
    )
    return [one] * each


def runtime(each):
    return schedules._PipelineScheduleRuntime(stages(each), MICRO_BATCHES)


def as_text(rows):
    return [[str(action) for action in rows[rank] if action is not None] for rank in sorted(rows)]


@pytest.mark.parametrize("name", sorted(set(POLICIES) - {"optimal"}))
def test_torch_loads_every_order_and_finds_it_sound(name, tmp_path):
    order = order_of(name)
    path = tmp_path / "order.csv"
    path.write_text(write_order(order))
    loaded = runtime(len(layout_of(order)) // RANKS)
    loaded._load_csv(str(path))  # checks it, and adds sends and receives
    assert as_text(loaded.pipeline_order) == [[str(action) for action in row] for row in order]
    owners = dict(enumerate(layout_of(order)))
    assert loaded.stage_index_to_group_rank == owners
    schedules._simulate_comms_compute(
        schedules._add_send_recv(loaded.pipeline_order, owners.get, len(owners)),
        owners.get,
        len(owners),
    )


@pytest.mark.parametrize("name", sorted(set(POLICIES) - {"optimal"}))
def test_torch_finds_no_deadlock_in_our_sends_and_receives(name):
    lowered = lower(order_of(name))
    rows = {
        rank: [schedules._Action.from_str(str(action)) for action in row]
        for rank, row in enumerate(lowered)
    }
    assert as_text(rows) == [[str(action) for action in row] for row in lowered]
    layout = layout_of(compute_only(lowered))
    schedules._simulate_comms_compute(rows, dict(enumerate(layout)).get, len(layout))


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("form", ["compute_only", "compute_comms"])
def test_we_read_what_torch_dumps(name, form, tmp_path):
    made = schedules.get_schedule_class(name)(stages(2), MICRO_BATCHES)
    dumped = runtime(2)
    dumped.pipeline_order = made.pipeline_order
    dumped._prepare_schedule_with_comms(made.pipeline_order)
    path = tmp_path / "dumped.csv"
    dumped._dump_csv(str(path), format=form)
    order = compute_only(read_order(path.read_text()))
    assert checks.problems(order) == []
    assert dict(enumerate(layout_of(order))) == dumped.stage_index_to_group_rank
