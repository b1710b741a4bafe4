from dataclasses import replace

from geotrain.model.plan import Interval
from geotrain.planning.placement.choose import choose
from geotrain.planning.schedule.charts import Bar, BarKind, action_bar, lanes
from support.planning import links, profile, topology, workload

PLACES = topology({"a": 2, "b": 2}, links(("a", "b"), capacity=1.6e9, round_trip=0.02))
JOB = workload(profile=profile(2), pipeline=2, global_batch=4, schedule="GPipe", sharing="Spatial")
PLAN = choose(PLACES, JOB)


def test_lanes_are_ranks_and_flows_by_data_centre():
    found = lanes(PLAN)
    assert [(lane.data_center, lane.name, lane.replica) for lane in found] == [
        ("a", "stage 0 replica 0", 0),
        ("a", "stage 0 replica 1", 1),
        ("a", "to b replica 0", 0),
        ("a", "to b replica 1", 1),
        ("b", "stage 1 replica 0", 0),
        ("b", "stage 1 replica 1", 1),
        ("b", "to a replica 0", 0),
        ("b", "to a replica 1", 1),
    ]
    assert [bar.kind for bar in found[0].bars] == [
        "forward", "forward", "bubble", "backward", "backward",
    ]  # fmt: skip


def test_a_window_comes_before_the_transfers_in_it():
    flow = lanes(PLAN)[2]
    assert [(bar.kind, bar.micro_batch) for bar in flow.bars] == [
        ("window", -1),
        ("transfer", 0),
        ("transfer", 1),
    ]
    window, first, last = flow.bars
    assert (window.begin, window.end) == (first.begin, last.end)


def test_every_kind_of_action_has_its_own_bar():
    kinds = {text: action_bar(Interval(text, 1.0, 2.0)).kind for text in ("0F1", "0B1", "0I1")}
    assert kinds == {"0F1": "forward", "0B1": "backward", "0I1": "input gradient"}
    assert action_bar(Interval("3W7", 1.0, 2.0)) == Bar(BarKind.WEIGHT_GRADIENT, 1.0, 2.0, "3W7", 7)


def test_what_ends_an_iteration_is_shown_where_it_takes_time():
    step = replace(JOB, profile=replace(JOB.profile, optimizer_step=0.005))
    bars = lanes(choose(PLACES, step))[0].bars
    assert bars[-1].kind == BarKind.STEP
    assert round(bars[-1].end - bars[-1].begin, 9) == 0.005
    assert bars[-1].begin == bars[-2].end
