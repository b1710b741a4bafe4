"""Which layouts a job can express: the search among them meets every one and no other."""

from itertools import product

import pytest

from geotrain.planning.explore.expressible import expressible, foreign
from geotrain.planning.explore.layouts import Degrees, Layout, Placement
from geotrain.planning.explore.search import whole_space
from support import exploring

WIDE = exploring.machine(units=(4, 2, 2))
ONE = exploring.machine(units=(4, 2, 1))
OUTSIDE = Placement(("tensor", "context", "data", "pipeline"), "pipeline", 1)


@pytest.mark.parametrize(
    ("degrees", "changes", "parts"),
    [
        (Degrees(2, 1, 4, 2), {}, []),
        (Degrees(2, 2, 2, 2), {}, ["context 2"]),
        (Degrees(2, 1, 4, 2, shard=4), {}, ["shard 4"]),
        (Degrees(2, 1, 4, 2, expert=2), {}, ["expert 2"]),
        (
            Degrees(2, 1, 4, 2),
            {"schedule": "Interleaved", "chunks": 2},
            ["Interleaved with 2 chunks"],
        ),
        (Degrees(2, 1, 4, 2), {"recompute": "selective"}, ["recompute selective"]),
        (Degrees(8, 1, 1, 2), {}, ["tensor 8 over several nodes"]),
        (Degrees(2, 1, 8, 1), {}, ["data 8 over several data centres"]),
        (
            Degrees(16, 1, 1, 1),
            {},
            ["tensor 16 over several nodes", "tensor 16 over several data centres"],
        ),
    ],
)
def test_what_no_job_can_say_is_named(degrees, changes, parts):
    assert list(foreign(WIDE, Layout(degrees, OUTSIDE, **changes))) == parts


@pytest.mark.parametrize("network", [WIDE, ONE])
def test_all_that_is_searched_can_be_said_and_all_that_can_be_said_is_searched(network):
    task = exploring.problem(network)
    space = whole_space(task, exploring.given(task, recompute="full"))
    part = expressible(network, space)
    (placement,), (schedule,) = part.placements, part.schedules
    for degrees, recompute in product(part.degrees, part.recomputes):
        layout = Layout(degrees, placement, *schedule, recompute=recompute)
        assert not list(foreign(network, layout))
    for degrees, where in product(space.degrees, space.placements):
        if not list(foreign(network, Layout(degrees, where))):
            assert degrees in part.degrees
    assert len(part.turned) == len(part.degrees) > 1
    assert set(part.recomputes) == {"none", "full"}
