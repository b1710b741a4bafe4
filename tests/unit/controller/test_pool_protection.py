import pytest

from geotrain.api import labels
from geotrain.api.v1alpha1.prefill_pool import BubbleTime
from geotrain.roles.controller.decision import HUB
from geotrain.roles.controller.pool_protection import (
    Baseline,
    Protection,
    baseline_of,
    observe,
    used_share,
)
from geotrain.roles.controller.pools import decide
from support.pools import NOW, World, job

GANG = "gpt-uid/r1/0"


def trained(iteration, time):
    return job(observed={"iteration": iteration, "iterationTime": time})


def seconds(offered, used):
    return BubbleTime(offered=offered, used=used)


@pytest.mark.parametrize(
    ("before", "now", "share"),
    [
        (None, None, 0.0),
        (seconds(1, 1), None, 0.0),
        (None, seconds(5, 0), 0.0),
        (None, seconds(5, 1), None),
        (seconds(10, 2), seconds(20, 7), 0.5),
        (seconds(10, 2), seconds(10, 2), 0.0),
        (seconds(10, 2), seconds(10, 3), None),
        (seconds(10, 2), seconds(1, 3), None),
        (seconds(10, 2), seconds(20, 1), None),
    ],
)
def test_the_share_is_what_was_used_since_the_last_look(before, now, share):
    assert used_share(before, now) == share


def look(before, iteration, time, share, guard=0.002):
    return observe(trained(iteration, time), before, seconds(0, 0), seconds(100, share), guard)


def test_quiet_iterations_make_the_baseline():
    first = look(Protection(), 1, "1s", 0)
    assert first.baseline == Baseline(GANG, 1.0, "1@None")
    assert first.stretch is None
    second = look(first, 2, "2s", 0)
    assert second.baseline.seconds == pytest.approx(1.3)


def test_busy_iterations_are_compared_with_it():
    quiet = look(Protection(), 1, "1s", 0)
    busy = look(quiet, 2, "1.02s", 50)
    assert busy.stretch == pytest.approx(0.02)
    assert not busy.is_broken
    worse = look(busy, 3, "1.12s", 50)
    assert worse.stretch == pytest.approx(0.05)
    assert worse.is_broken
    assert not worse.holds_back


def test_an_iteration_counts_once():
    quiet = look(Protection(), 1, "1s", 0)
    busy = look(quiet, 2, "1.1s", 50)
    assert look(busy, 2, "1.1s", 50) == busy


def test_between_busy_and_quiet_nothing_is_learnt():
    quiet = look(Protection(), 1, "1s", 0)
    between = look(quiet, 2, "9s", 10)
    assert between.stretch is None
    assert between.baseline.seconds == 1.0


def test_a_quiet_time_does_not_hide_how_it_was_when_busy():
    busy = look(look(Protection(), 1, "1s", 0), 2, "1.02s", 50)
    assert look(busy, 3, "1s", 0).stretch == busy.stretch


def test_a_pool_that_was_held_back_may_go_on_when_training_recovered():
    held = look(look(Protection(), 1, "1s", 0), 2, "1.2s", 50)
    assert held.holds_back
    for iteration in range(3, 10):
        held = look(held, iteration, "1s", 0)
    assert not held.holds_back


def test_without_a_baseline_busy_iterations_say_nothing():
    found = look(Protection(), 1, "1s", 50)
    assert (found.baseline, found.stretch) == (None, None)


def test_a_restarted_router_says_nothing():
    quiet = look(Protection(), 1, "1s", 0)
    found = observe(trained(2, "9s"), quiet, seconds(50, 9), seconds(1, 0.5), 0.0)
    assert found == quiet


def test_a_new_gang_has_a_baseline_of_its_own():
    old = Protection(Baseline("gpt-uid/r0/0", 9.0), stretch=0.5)
    found = look(old, 1, "1s", 50)
    assert (found.baseline, found.stretch) == (None, None)


@pytest.mark.parametrize("observed", [None, {"iteration": 3}])
def test_a_job_that_reports_nothing_leaves_all_as_it_was(observed):
    before = Protection(Baseline(GANG, 1.0), 0.01)
    assert observe(job(observed=observed), before, None, None, 0.002) == before


def test_a_guard_in_each_iteration_is_tolerated():
    quiet = look(Protection(), 1, "40ms", 0)
    assert quiet.tolerated == pytest.approx(0.05)


def test_the_annotation_reads_back_as_it_was():
    baseline = Baseline("g", 1.25, "3@x")
    config = {"metadata": {"annotations": {labels.BASELINE: baseline.to_text()}}}
    assert baseline_of(config) == baseline


@pytest.mark.parametrize("text", ["", "{", "[]", '{"gang": "g"}', '{"gang": "g", "seconds": "x"}'])
def test_an_annotation_that_somebody_changed_is_no_baseline(text):
    assert baseline_of({"metadata": {"annotations": {labels.BASELINE: text}}}) is None
    assert baseline_of(None) is None
    assert baseline_of({"metadata": {}}) is None


class Training:
    """A pool over some looks, with the job's iteration and the router's counts at each."""

    def __init__(self):
        self.world = World()
        self.iteration = 0
        self.offered = self.used = 0.0

    def look(self, time, used):
        self.iteration += 1
        self.offered += 100
        self.used += used
        self.world.job = trained(self.iteration, time)
        self.world.stats = {"bubbleSeconds": {"offered": self.offered, "used": self.used}}
        self.world.carry_out(decide(self.world.observed(), NOW + self.iteration))
        if self.iteration == 1:
            self.world.add_router()
            self.world.start()
        found = self.world.pool.status.condition("TrainingProtected")
        return found.status, found.reason

    @property
    def addresses(self):
        return self.world.objects[HUB, "ConfigMap", "chat-router"]["data"]["workers.json"]


def test_the_condition_tells_how_training_fares():
    training = Training()
    training.world.job = job()
    training.world.carry_out(decide(training.world.observed(), NOW))
    found = training.world.pool.status.condition("TrainingProtected")
    assert (found.status, found.reason) == ("Unknown", "NoBaseline")
    assert training.look("1s", 0) == ("True", "WithinGuard")
    assert training.look("1.01s", 50) == ("True", "WithinGuard")
    assert training.world.pool.status.training_stretch == pytest.approx(0.01)
    assert training.look("1.2s", 50) == ("False", "TrainingStretched")
    message = training.world.pool.status.condition("TrainingProtected").message
    assert message == "iterations are 6.7% longer while prefill runs"


def test_a_pool_that_slows_training_much_takes_no_requests():
    training = Training()
    training.look("1s", 0)
    training.look("1s", 0)
    assert "10.1.0.7" in training.addresses
    training.look("1.5s", 50)
    assert "10.1.0.7" not in training.addresses
    assert "no request is taken" in (
        training.world.pool.status.condition("TrainingProtected").message
    )
