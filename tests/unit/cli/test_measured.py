"""Iterations that were measured, against what ``plan``, ``explore`` and ``costs`` say of them.

Every third row of vTrain's table, from the first on, is held out; the A100's constants were fitted
to the others. Nothing was fitted to Sailor's runs.
"""

import json
from collections import defaultdict
from statistics import fmean

import pytest
import yaml
from typer.testing import CliRunner

from geotrain.api import exploration
from geotrain.cli.main import app
from geotrain.planning.explore.fitting import quantile
from geotrain.planning.explore.search import Explorer
from geotrain.planning.placement.choose import choose
from support import measured


def planned(job, place, profile=None):
    """Seconds of an iteration by the plan."""
    found = measured.read(job, place)
    (one,) = found.jobs
    plan = choose(found.topology(one), found.workload(one, profile))
    return plan.iteration


def explored(job, place):
    """Seconds of the job's own layout by explore."""
    found = measured.read(job, place)
    (one,) = found.jobs
    ((_, problem, layout),) = exploration.of_job(one, found.topology(one), found.data_centers)
    return Explorer(problem, layout).evaluate(layout).seconds


VTRAIN = list(measured.vtrain())


@pytest.mark.figures
def test_vtrains_rows_that_did_not_calibrate_are_met_through_plan_and_explore():
    plans, layouts = [], []
    for job, place, seconds in VTRAIN[::3]:
        plans.append(planned(job, place) / seconds - 1)
        layouts.append(explored(job, place) / seconds - 1)
    assert len(plans) == 25
    for errors in (plans, layouts):
        assert quantile(errors, 0.5) <= 0.04
        assert quantile(errors, 0.9) <= 0.12
    assert plans == pytest.approx(layouts, abs=1e-9)


def test_sailors_plans_are_met_without_a_bias_that_grows_with_stages():
    errors = defaultdict(list)
    for job, place, profile, stages, seconds in measured.sailor():
        errors[stages].append(planned(job, place, profile) / seconds - 1)
    every = [each for some in errors.values() for each in some]
    assert len(every) == 23
    assert fmean(map(abs, every)) <= 0.06
    assert all(abs(fmean(some)) <= 0.06 for some in errors.values())


def command(tmp_path, name, *documents, options=()):
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    arguments = [name, "-f", str(path), "-o", "json", *map(str, options)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_commands_say_the_same_of_one_layout(tmp_path):
    job, place, seconds = VTRAIN[40]
    plan = command(tmp_path, "plan", job, place)["iterationSeconds"]
    costs = command(tmp_path, "costs", job, place)
    explore = command(tmp_path, "explore", job, place, options=("--budget", "1ms"))
    assert plan == costs["iterationSeconds"] == pytest.approx(seconds, rel=0.06)
    assert explore["given"]["iterationSeconds"] == pytest.approx(plan, rel=1e-9)
    for stage in costs["stages"]:
        parts = dict(stage["seconds"])
        whole = parts.pop("all")
        assert sum(parts.values()) == pytest.approx(whole)
        assert whole == pytest.approx(stage["forwardSeconds"] + stage["backwardSeconds"])
    assert 0.3 < costs["mfu"] < costs["hfu"] < 0.5
