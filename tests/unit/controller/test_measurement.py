"""What sidecars report, as status and condition; reports are not believed blindly."""

import pytest

from geotrain.roles.controller import measurement
from support.world import World, job


@pytest.fixture
async def world():
    made = World()
    async with made.running():
        yield made


def say(world, **changes):
    """Let every sidecar report; ``changes`` are those of the fields."""
    for center in world.clusters:
        for name in world.pods(center):
            world.clusters[center].reports["team-a", name] = {
                "iteration": 7,
                "iterationSeconds": 0.5,
                "windowsEnforced": True,
                "reason": "",
                "flows": {"1": {"bytesInWindow": 900, "bytesOutside": 100}},
                "linkBytes": {"dc-east": 1000},
                "loss": 5.25,
                **changes,
            }


async def running(world, **changes):
    world.submit(job())
    await world.settle()
    say(world, **changes)
    await world.later(measurement.PERIOD)


async def test_measured_windows_are_enforced_and_figures_are_shown(world):
    await running(world)
    assert world.condition("WindowsEnforced")[:2] == ("True", "WindowsMeasured")
    observed = world.status()["observed"]
    assert observed["iteration"] == 7
    assert observed["iterationTime"] == "500ms"
    assert observed["loss"] == 5.25
    assert observed["inWindowShare"] == 0.9
    assert observed["ranksReady"] == 12
    assert {"from": "dc-central", "to": "dc-east", "bytes": 3000} in observed["linkBytes"]


async def test_the_status_is_not_written_more_often_than_needed(world):
    await running(world)
    say(world, iteration=8)
    await world.later(measurement.PERIOD - 1)
    assert world.status()["observed"]["iteration"] == 7
    await world.later(measurement.PERIOD)
    assert world.status()["observed"]["iteration"] == 8


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("NoSignal: the trainer told no iteration", "NoSignal"),
        ("12 % were sent outside", "WindowsMissed"),
        ("", "WindowsMissed"),
        ("NotShaped: no NET_ADMIN", "NotShaped"),
        ("TrainingDone: the trainer has ended", "TrainingDone"),
    ],
)
async def test_a_sidecar_that_cannot_keep_windows_says_why(world, said, reason):
    await running(world, windowsEnforced=False, reason=said)
    assert world.condition("WindowsEnforced")[:2] == ("False", reason)


async def test_old_reports_count_for_nothing(world):
    await running(world)
    for cluster in world.clusters.values():
        cluster.reports.clear()
    await world.later(4 * measurement.PERIOD)
    assert world.condition("WindowsEnforced")[:2] == ("Unknown", "NoReport")


async def test_no_iteration_is_shown_before_one_was_told(world):
    await running(world, iteration=0, iterationSeconds=None)
    assert not {"iteration", "iterationTime"} & world.status()["observed"].keys()


async def test_nonsense_is_left_out(world):
    await running(
        world,
        iteration="many",
        iterationSeconds=float("nan"),
        loss=float("inf"),
        flows=["no"],
        linkBytes=None,
    )
    observed = world.status()["observed"]
    assert not {"iteration", "iterationTime", "loss", "inWindowShare"} & observed.keys()
    assert observed["linkBytes"] == []


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"network": {"enforcement": "None"}}, "Disabled"),
        ({"parallelism": {"data": 2, "pipeline": 2}}, "NoWindows"),
    ],
)
async def test_what_has_no_windows_says_so(world, spec, reason):
    world.submit(job(**spec))
    await world.settle()
    assert world.status()["phase"] == "Running"
    assert world.condition("WindowsEnforced")[:2] == ("False", reason)
