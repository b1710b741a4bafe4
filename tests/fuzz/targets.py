"""What is fuzzed: each target reads bytes as a user's file, all the way to an answer.

The property is the same for all: there is an answer, or an InputError of one line (to which checks
of an order add a grid). Anything else that is raised is a fault, and so is what takes longer or
more memory than the fuzzer allows.
"""

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

import yaml

from fuzz import mutation
from geotrain.api import convert, measurements
from geotrain.api.exploration import exploration
from geotrain.cli import problem, schedule, texts, topology
from geotrain.errors import InputError
from geotrain.model.decision import Infeasible
from geotrain.model.plan import Plan
from geotrain.planning.explore.report import explore
from geotrain.planning.explore.search import Allowance
from geotrain.planning.placement.candidates import candidates
from geotrain.planning.placement.choose import choose
from geotrain.planning.schedule import actions, checks, layouts
from geotrain.planning.schedule.lowering import lower
from geotrain.planning.schedule.timeline import program, replay
from geotrain.planning.schedule.uniform import Uniform

ROOT = Path(__file__).parents[2]
MOST_ACTIONS = 1000
"""Of a plan that is made to the end."""
MOST_DEVICES = 4096
"""Of an exploration that is searched."""
STEPS = 20

_UNIFORM = Uniform(1.0, 1.0, 0.5, transfer=0.1, latency=0.2, boundaries=())


@dataclass(frozen=True, slots=True)
class Target:
    """A way from bytes to an answer, and what to begin with."""

    run: Callable[[bytes], None]
    mutate: mutation.Mutate
    seeds: Sequence[bytes]


def order(data: bytes) -> None:
    """A schedule's CSV: read, checked, written and read again, given messages, replayed."""
    text = _text(data)
    table = actions.parse_table(text)
    assert actions.parse_table(actions.format_table(table)) == table
    read = actions.read_order(text)
    checks.require_sound(read)
    assert actions.read_order(actions.write_order(read)) == read
    compute = actions.compute_only(read)
    checks.require_sound(lower(compute))
    costs = _UNIFORM.costs(layouts.layout_of(read))
    timeline = replay(program(compute), costs, 1, iterations=1)
    found = schedule.document(schedule.Work("fuzz", compute, costs), timeline)
    json.dumps(found, allow_nan=False)
    schedule.text(schedule.Work("fuzz", compute, costs), timeline, 100)


def planned(data: bytes) -> None:
    """Manifests of a job, its profile and data centres: read, and planned where that is quick."""
    with _file(data) as path:
        found = problem.read(problem.Given([path]), None, None)
    job = found.workload
    tried = candidates(found.topology, job)
    assert tried.placements or tried.reasons or tried.rejected
    if job.data is not None and 2 * job.pipeline * job.micro_batches(job.data) <= MOST_ACTIONS:
        answer = choose(found.topology, job)
        assert isinstance(answer, Plan | Infeasible)
        if isinstance(answer, Plan):
            assert 0 <= answer.iteration < float("inf")


def explored(data: bytes) -> None:
    """An exploration: read, and searched a little where it is small."""
    with _file(data) as path:
        read = texts.load(path)
    if len(read) != 1 or not isinstance(read[0], dict):
        return
    asked, given = exploration(read[0])
    if asked.network.devices <= MOST_DEVICES:
        report = explore(asked, given, Allowance(STEPS))
        assert all(0 <= each.seconds < float("inf") for each in report.best)


def profile(data: bytes) -> None:
    """A profile, of training and of prefill, from a file and from a ConfigMap."""
    with _file(data) as path:
        read = texts.load(path)
    _each(lambda: convert.profile(convert.document(_text(data), "profile.json")))
    for each in read:
        if isinstance(each, dict):
            _each(lambda content=each: convert.profile(content))
            _each(lambda content=each: convert.prefill_profile(content))


def measured(data: bytes) -> None:
    """Public measurements, as any of the three forms, made a topology of."""
    text = _text(data)
    readers = (
        lambda: measurements.azure(text, "file"),
        lambda: measurements.skyplane(text, "file"),
        lambda: measurements.sailor(text, "file", "A100-40", 4),
    )
    for read in readers:
        _each(lambda read=read: _imported(measurements.merged(read())))


def _imported(routes: measurements.Routes) -> None:
    regions = list(islice(dict.fromkeys(end for ends in routes for end in ends), 3))
    names = topology.region_names(",".join(regions))
    wanted = topology.Link(capacity="1G", round_trip_time="30ms")
    for link in topology.link_manifests(names, routes, wanted):
        json.dumps(link, allow_nan=False)


def _each(read: Callable[[], object]) -> None:
    """One of several readings of the same bytes: a refusal leaves the others to be tried."""
    try:
        read()
    except InputError as error:
        require_sentence(error)


def require_sentence(error: InputError) -> None:
    """What a user sees of it is one line, before a grid if there is one."""
    sentence, *grid = str(error).split("\n")
    assert sentence
    assert sentence.isprintable(), repr(sentence)
    assert len(sentence) <= 2000, len(sentence)
    assert not grid or grid[0].startswith("step "), repr(grid[0])


def changed(target: Target, data: bytes, number: int) -> bytes:
    """Another input with the structure of ``data``, or ``data`` where it cannot be read."""
    try:
        text = target.mutate(data.decode("utf-8", "surrogatepass"), Random(number))
    except (ValueError, yaml.YAMLError, RecursionError, TypeError, AttributeError, LookupError):
        return data
    return text.encode("utf-8", "surrogatepass")


def check(target: Target, data: bytes) -> None:
    """The property, for one input."""
    try:
        target.run(data)
    except InputError as error:
        require_sentence(error)


def _text(data: bytes) -> str:
    with _file(data) as path:
        return texts.text_of(path)


class _file:  # noqa: N801 (reads as a function)
    """A file with these bytes; always the same one, because making one is most of the time."""

    _path = Path(tempfile.gettempdir()) / f"geotrain-fuzz-{os.getpid()}"

    def __init__(self, data: bytes) -> None:
        self._path.write_bytes(data)

    def __enter__(self) -> Path:
        return self._path

    def __exit__(self, *_: object) -> None:
        self._path.unlink()


def _read(*names: str) -> bytes:
    return b"---\n".join((ROOT / name).read_bytes() for name in names)


_TABLES = ROOT / "tests" / "unit" / "planning" / "data"
_SAILOR = json.dumps(
    {
        "us-a": {"A100-40": {"4": {"us-b": {"A100-40": {"4": [[-0.1, 0.9, 0.5], 6e8]}}}}},
        "us-b": {"us-a": 0.02},
    }
).encode()

TARGETS = {
    "order": Target(
        order,
        mutation.table,
        [
            *(path.read_bytes() for path in sorted(_TABLES.glob("*.csv"))),
            b"0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n",
            b"0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
            b"0F0,,0I0,0W0\n1F0,1I0,1W0\n",
            b"0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n",
            b"0F0,(0F1;0B0)OVERLAP_F_B,0B1\n",
        ],
    ),
    "manifests": Target(
        planned,
        mutation.documents,
        [
            _read("tests/unit/cli/data/job.yaml", "tests/unit/cli/data/topology.yaml"),
            _read("tests/unit/cli/data/mixed.yaml"),
            _read(*(f"examples/three-dc/{n}.yaml" for n in ("job", "profile", "topology"))),
        ],
    ),
    "exploration": Target(
        explored,
        mutation.documents,
        [
            _read("tests/unit/cli/data/explore-dense.yaml"),
            _read("tests/unit/cli/data/explore-moe.yaml"),
            _read("examples/explore/dense-405b.yaml"),
            _read("examples/explore/moe-671b.yaml"),
        ],
    ),
    "profile": Target(
        profile,
        mutation.any_of(mutation.json_document, mutation.documents),
        [
            b'{"layers": [{"count": 24, "forward": "2.586ms", "inputGradient": "3.979ms",'
            b' "weightGradient": "2.302ms", "activationBytes": "64Mi", "parameterBytes": "3Gi",'
            b' "recompute": "2ms", "gradientBytes": "1Gi"}], "boundaryBytes": "33554432",'
            b' "optimizerStep": "4ms"}',
            b'{"layers": 4, "layerTimes": [{"tokens": 64, "time": "1ms"},'
            b' {"tokens": 128, "time": "2ms"}], "longestKernel": "5ms"}',
        ],
    ),
    "measurements": Target(
        measured,
        mutation.any_of(mutation.json_document, mutation.table),
        [
            _read("tests/data/azure_rtt/azure_rtt_p95.csv"),
            *(
                _read(f"tests/data/skyplane/{name}.csv")
                for name in ("latency", "throughput_2022-11", "cost")
            ),
            _SAILOR,
        ],
    ),
}
