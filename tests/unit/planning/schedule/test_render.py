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
