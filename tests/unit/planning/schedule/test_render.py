import json

from geotrain.planning.placement.choose import choose
from geotrain.planning.schedule import render
from support.planning import links, profile, topology, workload

PLACES = topology({"a": 2, "b": 2}, links(("a", "b"), capacity=1.6e9, round_trip=0.02))
PLAN = choose(
    PLACES,
    workload(profile=profile(2), pipeline=2, global_batch=4, schedule="GPipe", sharing="Spatial"),
)


def test_a_grid_has_a_row_a_stage_and_a_column_a_step():
    assert render.grid([["0F0", "0B0"], ["1F0"]]) == ("step    0   1\nstage 0 0F0 0B0\nstage 1 1F0")


def test_no_rows_make_only_a_head():
    assert render.grid([]) == "step"


def test_a_mark_beyond_a_row_shows_that_something_is_missing():
    assert render.grid([["0F0"], []], (1, 0)).splitlines()[-1] == "stage 1 ><"


def test_the_time_grid_reads_like_a_figure():
    assert render.time_grid(PLAN, 13) == "a 0 ab.......AABB\nb 1 ...abAABB...."


def test_a_plan_without_time_has_no_grid():
    nothing = workload(
        profile=profile(2, 0, forward=0.0, input_gradient=0.0, weight_gradient=0.0),
        pipeline=1, data=1, global_batch=1,
    )  # fmt: skip
    plan = choose(topology({"a": 1}), nothing)
    assert render.time_grid(plan) == "nothing takes any time"


def test_the_trace_has_a_process_a_data_centre_and_a_thread_a_rank_or_flow():
    trace = json.loads(json.dumps(render.chrome_trace(PLAN)))
    events = trace["traceEvents"]
    named = {e["args"]["name"] for e in events if e["ph"] == "M"}
    assert {"a", "b", "rank 0 (stage 0.0)", "rank 3 (stage 1.1)", "to b: rank 0 to 2"} <= named
    assert {e["cat"] for e in events if e["ph"] == "X"} == {"compute", "bubble", "transfer"}
    first = next(e for e in events if e.get("name") == "0F0")
    assert (first["ts"], first["dur"]) == (0.0, 10_000.0)
    for event in events:
        assert event["ph"] == "M" or event["ts"] + event["dur"] <= PLAN.iteration * 1e6 + 1


def test_lanes_are_ranks_and_flows_by_data_centre():
    lanes = render.lanes(PLAN)
    assert [(lane.data_center, lane.name) for lane in lanes] == [
        ("a", "stage 0 replica 0"),
        ("a", "stage 0 replica 1"),
        ("a", "to b replica 0"),
        ("a", "to b replica 1"),
        ("b", "stage 1 replica 0"),
        ("b", "stage 1 replica 1"),
        ("b", "to a replica 0"),
        ("b", "to a replica 1"),
    ]
    assert [bar.kind for bar in lanes[0].bars] == [
        "forward", "forward", "bubble", "backward", "backward",
    ]  # fmt: skip
    assert [(bar.kind, bar.micro_batch) for bar in lanes[2].bars] == [
        ("transfer", 0),
        ("transfer", 1),
    ]
