"""The same output byte for byte: under any hash seed, and on every version of Python."""

import json
import os
import subprocess
import sys

import pytest

from support.outputs import DIGESTS

pytestmark = pytest.mark.figures


def begun(seed):
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "support.outputs"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)


def test_plans_explorations_and_schedules_are_the_committed_ones_under_two_hash_seeds():
    expected = json.loads(DIGESTS.read_text())
    for run in [begun(seed) for seed in ("1", "2")]:
        found, _ = run.communicate()
        assert run.returncode == 0
        assert json.loads(found) == expected, "renew with make digests if plans changed on purpose"
