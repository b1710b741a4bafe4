import os
import subprocess
import sys

PROGRAM = """
from support.planning import topology, workload
from geotrain.planning.placement.choose import choose
from geotrain.planning.placement.pareto import pareto
from geotrain.planning.placement.robust import Jitter
from geotrain.planning.placement.what_if import what_if
places = topology({"c": 4, "b": 6, "a": 4})
print(repr(choose(places, workload(pipeline=6, data=None))))
print(repr(choose(places, workload(pipeline=6, data=None), jitter=Jitter(0.2, replays=5))))
print(repr(pareto(what_if(places, workload(pipeline=6, data=None)))))
"""


def planned(seed):
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, check=True, env=environment
    ).stdout


def test_the_same_plan_byte_for_byte_under_another_hash_seed():
    first = planned("1")
    assert first.startswith(b"Plan(")
    assert first == planned("2")
