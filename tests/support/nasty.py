"""Nasty inputs: files and options that must end in one sentence, and soon.

Each is a call of the command, with files that are written before it. ``{folder}`` in arguments is
where they lie. Most are a good file with one part replaced. What each is answered with is kept in
``SENTENCES``, which ``make answers`` writes: read what changed before it is committed.
"""

import contextlib
import io
import json
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from geotrain.cli.main import main
from support.pages import ROOT

SENTENCES: Final = ROOT / "tests/unit/cli/data/nasty.json"
_LIBRARY: Final = re.compile(r"(is not (?:YAML|JSON|CSV): ).*", re.S)

_DATA = ROOT / "tests/unit/cli/data"
_GOOD = {
    name: (_DATA / name).read_text() for name in ("job.yaml", "topology.yaml", "explore-dense.yaml")
}
_MODEL = (
    _GOOD["job.yaml"]
    .partition("---")[0]
    .replace(
        "profileRef: {name: gpt-profile}",
        "model: {layers: 24, hiddenSize: 1024, sequenceLength: 1024, vocabularySize: 32000}",
    )
)
_AZURE = "Source,East US,West US\nEast US,,74\nWest US,72,\n"
_SKYPLANE = "src_region,dst_region,throughput_received,avg_rtt\na,b,1e9,30\nb,a,1e9,30\n"
_SAILOR = '{"a": {"A100-40": {"4": {"b": {"A100-40": {"4": [[-0.1, 0.9, 0.5], 6e8]}}}}}}'
_LONG = "a" * 100_000
_TIMES = "--forward 1s --input-gradient 1s --weight-gradient 1s"


@dataclass(frozen=True)
class Nasty:
    """A call, and the most seconds that it may compute.

    ``code`` is 2 where the input is wrong, and 1 where it is right and the answer is no.
    """

    name: str
    arguments: str
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    code: int = 2
    budget: float = 10.0
    is_long: bool = False
    """More than a second."""


@dataclass(frozen=True)
class Answer:
    """How a call ended: exit code, what it said on standard error, seconds that it computed."""

    code: object
    said: str
    seconds: float


def answer(each: Nasty, folder: Path) -> Answer:
    """Call the command as a person does, with the files in an empty folder."""
    for name, text in each.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    words = [
        word.replace("%20", " ").replace("{folder}", str(folder)) for word in each.arguments.split()
    ]
    said, begin, code = io.StringIO(), time.process_time(), None
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            main(words)
        except SystemExit as ended:
            code = ended.code
    # What is told of work that goes on depends on how busy the machine is.
    text = re.sub(r"^.* …\n", "", said.getvalue(), flags=re.M).replace(str(folder), "{folder}")
    return Answer(code, text, time.process_time() - begin)


def kept(said: str) -> str:
    """What is compared: how a library words its own faults changes with its version."""
    return _LIBRARY.sub(r"\1…", said.strip())


def write() -> None:
    """Write what every one is answered with."""
    found = {}
    for each in nasty():
        with tempfile.TemporaryDirectory() as folder:
            found[each.name] = kept(answer(each, Path(folder)).said)
    text = json.dumps(found, indent=1, ensure_ascii=False)
    SENTENCES.write_text(text + "\n", encoding="utf-8")


PLAN = "plan -f {folder}/job.yaml --topology {folder}/topology.yaml"


def _planned(name: str, file: str, old: str, new: str, **more: int) -> Nasty:
    """A plan whose file has ``new`` in place of ``old``, wherever it stands."""
    files = {each: _GOOD[each] for each in ("job.yaml", "topology.yaml")}
    assert old in files[file], (name, old)
    return Nasty(name, PLAN, {**files, file: files[file].replace(old, new)}, **more)


def _job(name: str, old: str, new: str, **more: int) -> Nasty:
    return _planned(name, "job.yaml", old, new, **more)


def _places(name: str, old: str, new: str, **more: int) -> Nasty:
    return _planned(name, "topology.yaml", old, new, **more)


def _whole(name: str, text: str | bytes, **more: bool) -> Nasty:
    """A file that is something else altogether."""
    return Nasty(name, "plan -f {folder}/job.yaml", {"job.yaml": text}, **more)


def _modelled(name: str, old: str, new: str, **more: int) -> Nasty:
    """A job that is estimated from its model."""
    assert old in _MODEL, (name, old)
    places = _GOOD["topology.yaml"].replace("{local: true}", "{local: true}\n  accelerator: H100")
    files = {"job.yaml": _MODEL.replace(old, new), "topology.yaml": places}
    return Nasty(name, PLAN, files, **more)


def _profile(name: str, text: str | bytes) -> Nasty:
    files = {each: _GOOD[each] for each in ("job.yaml", "topology.yaml")}
    call = PLAN + " --profile {folder}/profile.json"
    return Nasty(name, call, {**files, "profile.json": text})


def _explored(name: str, old: str, new: str, **more: int) -> Nasty:
    text = _GOOD["explore-dense.yaml"]
    assert old in text, (name, old)
    call = "explore -f {folder}/explore.yaml --budget 1s"
    return Nasty(name, call, {"explore.yaml": text.replace(old, new)}, **more)


def _order(name: str, text: str | bytes, **more: bool) -> Nasty:
    call = f"schedule --order {{folder}}/order.csv {_TIMES}"
    return Nasty(name, call, {"order.csv": text}, **more)


def _imported(name: str, form: str, text: str | bytes, options: str = "") -> Nasty:
    regions = {"azure": "East US,West US"}.get(form, "a,b").replace(" ", "%20")
    call = f"topology import {form} {{folder}}/file --regions {regions} {options}"
    return Nasty(name, call, {"file": text})


def _called(name: str, options: str, command: str = PLAN) -> Nasty:
    files = {each: _GOOD[each] for each in ("job.yaml", "topology.yaml")}
    return Nasty(name, f"{command} {options}", files)


def nasty() -> Iterator[Nasty]:
    """All of them, by what they are wrong in."""
    yield from _documents()
    yield from _repeated()
    yield from _names()
    yield from _fields()
    yield from _quantities()
    yield from _topologies()
    yield from _impossible()
    yield from _profiles()
    yield from _explorations()
    yield from _orders()
    yield from _imports()
    yield from _options()


_BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(['*' + before] * 10)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


def _documents() -> Iterator[Nasty]:
    yield _whole("empty file", "")
    yield _whole("only a comment", "# nothing\n")
    yield _whole("only separators", "---\n---\n---\n")
    yield _whole("a number", "42\n")
    yield _whole("a word", "plan\n")
    yield _whole("a list", "- kind: GeoTrainingJob\n")
    yield _whole("a mapping without kind", "a: 1\n")
    yield _whole("a list of things that are no objects", "kind: List\nitems: [1, 2]\n")
    yield _whole("a list without items", "kind: GeoTrainingJobList\n")
    yield _whole("tabs for indentation", "kind: GeoTrainingJob\nspec:\n\tmodel: 1\n")
    yield _whole("an open bracket", "kind: [GeoTrainingJob\n")
    yield _whole("an open quote", 'kind: "GeoTrainingJob\n')
    yield _whole("UTF-16", "kind: GeoTrainingJob".encode("utf-16"))
    yield _whole("Latin-1", "kind: Gé".encode("latin-1"))
    yield _whole("zeros", b"\0" * 1000)
    yield _whole("control characters", "kind: \x07\x1b[2J\n")
    yield _whole("half a surrogate", b"kind: \xed\xa0\x80")
    yield _whole("an object of Python", "!!python/object/apply:os.system ['true']\n")
    yield _whole("a tag of nobody", "!secret {kind: GeoTrainingJob}\n")
    yield _whole("an alias of nothing", "kind: *nobody\n")
    yield _whole("a merge of a word", "<<: word\nkind: GeoTrainingJob\n")
    yield _whole("a list as a key", "? [a, b]\n: c\n")
    yield _whole("a bomb of aliases", _BOMB)
    yield _whole("an alias of itself", "&a {kind: List, items: [*a]}\n")
    yield _whole("brackets without end", "[" * 100_000)
    yield _whole("brackets beyond all levels", "[" * 200 + "]" * 200)
    yield _whole("mappings beyond all levels", "".join(f"{' ' * n}a:\n" for n in range(150)))
    yield _whole("a date that is none", "kind: 2026-13-45\n")
    yield _whole("a number of 5,000 digits", "kind: " + "9" * 5000)
    yield _whole("a million values", "[" + "1," * 1_040_000 + "1]", is_long=True)
    yield _whole("three megabytes", "a: " + "x" * 3 * 2**20)
    yield _whole("a thousand documents", "kind: A\n---\n" * 1000)
    yield Nasty("a device without end", "plan -f /dev/zero")
    yield Nasty("a folder without manifests", "plan -f {folder}/empty", {"empty/a.txt": ""})
    yield Nasty("a file that is missing", "plan -f {folder}/nothing.yaml")
    yield Nasty("a name that is too long", f"plan -f {_LONG}")
    yield _whole("another version", "apiVersion: geotrain.io/v9\nkind: GeoTrainingJob\n")
    yield _whole("another kind", "apiVersion: geotrain.io/v1alpha1\nkind: TrainingJob\n")
    yield _whole("a kind that is nearly one", "kind: GeoTrainingJobs\n")


def _repeated() -> Iterator[Nasty]:
    yield _job("spec twice", "kind: GeoTrainingJob\n", "kind: GeoTrainingJob\nspec: {}\n")
    yield _job("a field twice", "  batch:", "  batch: {global: 1}\n  batch:")
    yield _job("a key twice in braces", "{global: 32,", "{global: 32, global: 64,")
    yield _job("a key twice in a profile", '"boundary', '"layers": [], "boundary')
    yield _places("an annotation twice", '"4"}', '"4", geotrain.io/gpus: "8"}')
    yield _places("a metadata twice", "kind: WanLink\n", "kind: WanLink\nmetadata: {name: x}\n")
    yield _explored("a tier's key twice", "units: 3,", "units: 3, units: 2,")
    yield _profile("a profile's key twice", '{"layers": [],\n "layers": []}')
    yield _imported("a zone twice", "sailor", '{"a": {}, "a": {}}')


def _names() -> Iterator[Nasty]:
    name = "metadata: {name: gpt, namespace: team-a}"

    def named(what: str, other: str) -> Nasty:
        return _job(what, name, f"metadata: {other}")

    yield named("no name", "{namespace: team-a}")
    yield named("no metadata", "null")
    yield named("a name that is empty", '{name: ""}')
    yield named("a name in capitals", "{name: GPT}")
    yield named("a name in Greek", "{name: \u03b3\u03c0\u03c4}")
    yield named("a name of look-alikes", "{name: g\u0440t}")
    yield named("a name with an underscore", "{name: my_job}")
    yield named("a name with a newline", '{name: "gpt\\n"}')
    yield named("a name that ends in a dash", "{name: gpt-}")
    yield named("a name with two dots", "{name: a..b}")
    yield named("a name of 254 characters", f"{{name: {'a' * 254}}}")
    yield named("a name of 100,000 characters", f"{{name: {_LONG}}}")
    yield named("a name that is a number", "{name: 1}")
    yield named("a namespace with dots", "{name: gpt, namespace: a.b}")
    yield named("a namespace of 64 characters", f"{{name: gpt, namespace: {'n' * 64}}}")
    yield named("a namespace of emoji", '{name: gpt, namespace: "\U0001f680"}')
    yield named("a label with a space", "{name: gpt, labels: {a: b c}}")
    yield named("a label's key with a space", "{name: gpt, labels: {a b: c}}")
    yield named("an annotation that is a number", "{name: gpt, annotations: {a: 1}}")
    yield _places("a data centre with dots", "name: dc-west,", "name: dc.west,")
    yield _places("a data centre of 64 characters", "name: dc-west,", f"name: {'d' * 64},")
    yield _places("a link in capitals", "name: west-east", "name: WEST")
    yield _job("a ConfigMap with a bad name", "name: gpt-profile, n", "name: GPT_profile, n")
    yield _job("a profile with a bad name", "profileRef: {name: gpt", "profileRef: {name: GPT")


def _fields() -> Iterator[Nasty]:
    yield _job("a field with a slip", "pipeline: 6", "pipelines: 6")
    yield _job(
        "a field in snake case", "schedule: {policy", "schedule: {memory_per_gpu: 1G, policy"
    )
    yield _job("a field of another version", "batch: {", "experts: 8\n  batch: {")
    yield _job("a field of 100,000 characters", "batch: {", f"? {_LONG}\n  : 8\n  batch: {{")
    yield _job("a field that does not print", "batch: {", '"\\e[2J": 8\n  batch: {')
    fields = "".join(f"x{n}: 1, " for n in range(200))
    yield _job("200 fields too many", "batch: {", f"batch: {{{fields}")
    yield _job("a list for a mapping", "{data: 2, pipeline: 6}", "[2, 6]")
    yield _job("nothing for a mapping", "{data: 2, pipeline: 6}", "null")
    yield _job("a word for a number", "pipeline: 6", "pipeline: six")
    yield _job("a fraction for a number", "pipeline: 6", "pipeline: 6.5")
    yield _job("true for a number", "pipeline: 6", "pipeline: true")
    yield _job("text for a number", "pipeline: 6", 'pipeline: "6"')
    yield _job("minus six", "pipeline: 6", "pipeline: -6")
    yield _job("a policy of nobody", "policy: Atlas", "policy: Fastest")
    yield _job("no template", "  template:", "  # template:")
    yield _job("no batch", "  batch:", "  # batch:")
    yield _job("no profile and no model", "  profileRef:", "  # profileRef:")
    yield _job("no container", "containers: [{name", "initContainers: [{name")
    yield _job("no GPUs", "nvidia.com/gpu: 1", "cpu: 1")
    yield _job("GPUs of another degree", "nvidia.com/gpu: 1", "nvidia.com/gpu: 3")
    yield _job("a micro-batch that does not divide", "micro: 1", "micro: 5")
    yield _job(
        "fixed without stages", "{policy: Atlas}", "{policy: Atlas}\n  placement: {policy: Fixed}"
    )
    yield _modelled("a model without width", "hiddenSize: 1024, ", "")
    yield _modelled("a model without end", "layers: 24", "layers: 1000000000000")
    yield _modelled("a wide model", "hiddenSize: 1024", "hiddenSize: 9999999")
    yield _modelled("a type of nobody", "layers: 24", "layers: 24, parameterDtype: int3")


def _quantities() -> Iterator[Nasty]:
    yield _places("a rate in words", "capacity: 100M", "capacity: fast")
    yield _places("a rate of nothing", "capacity: 100M", 'capacity: "0"')
    yield _places("a rate below nothing", "capacity: 100M", "capacity: -1G")
    yield _places("a rate beyond light", "capacity: 100M", "capacity: 2000P")
    yield _places("a rate that is a number", "capacity: 100M", "capacity: 100")
    yield _places("a rate of 400 digits", "capacity: 100M", f'capacity: "{"9" * 400}"')
    yield _places("a rate in Arabic digits", "capacity: 100M", 'capacity: "\u0661G"')
    yield _places("a round trip of hours", "44ms", "2h")
    yield _places("a round trip without unit", "44ms", '"44"')
    yield _places("a round trip back in time", "44ms", "-44ms")
    yield _places("a share above one", "capacity: 100M", "reservable: 1.5, capacity: 100M")
    yield _places("a share that is no number", "capacity: 100M", "reservable: .nan, capacity: 100M")
    yield _places("a price without end", "capacity: 100M", "costPerGigabyte: .inf, capacity: 100M")
    yield _places(
        "a price beyond 64 bits", "capacity: 100M", f"costPerGigabyte: {10**30}, capacity: 100M"
    )
    yield _job("a batch beyond 64 bits", "global: 32", f"global: {10**40}")
    yield _job("memory in words", "{policy: Atlas}", "{policy: Atlas, memoryPerGpu: lots}")
    yield _job("a deadline of nothing", "batch: {", "activeDeadline: 0s\n  batch: {")


def _topologies() -> Iterator[Nasty]:
    yield _places("no data centre", "kind: DataCenter", "kind: Secret")
    yield _places("links to nobody", "from: dc-", "from: dx-")
    yield _places("a link to itself", "to: dc-central", "to: dc-west")
    yield _places("GPUs in words", 'gpus: "4"', 'gpus: "four"')
    yield _places("GPUs beyond ten digits", 'gpus: "4"', 'gpus: "99999999999"')
    yield _places("GPUs in Arabic digits", 'gpus: "4"', 'gpus: "\u0664"')
    yield _places("GPUs of nobody", "annotations: {geotrain.io/gpus", "annotations: {x/gpus")
    yield _places(
        "two ways to a cluster",
        "{local: true}",
        "{local: true, kubeconfigSecretRef: {namespace: a, name: b}}",
    )
    yield _job(
        "a data centre of nobody", "batch: {", "placement: {dataCenters: [dc-moon]}\n  batch: {"
    )
    yield _job(
        "an override of a bad data centre", "batch: {", "overrides: [{dataCenter: DC}]\n  batch: {"
    )


def _impossible() -> Iterator[Nasty]:
    yield _job("more stages than layers", "pipeline: 6", "pipeline: 30")
    yield _job("more stages than may be", "pipeline: 6", "pipeline: 2000")
    yield _job("replicas that do not divide", "data: 2", "data: 3")
    yield _modelled("a batch in tokens", "global: 32", "global: 524288")
    yield _job("a batch without end", "global: 32", "global: 100000000")
    yield _job("no room for the pods", "data: 2", "data: 32", code=1)
    yield _job("no room in memory", "{policy: Atlas}", "{policy: Atlas, memoryPerGpu: 1M}", code=1)
    yield _job(
        "a huge prime batch",
        "data: 2, pipeline: 6}\n  batch: {global: 32",
        "data: auto, pipeline: 6}\n  batch: {global: 999999937",
    )


def _profiles() -> Iterator[Nasty]:
    layer = '{"forward": "1ms", "inputGradient": "1ms", "weightGradient": "1ms"}'
    yield _profile("an empty profile", "")
    yield _profile("a profile that is a list", "[]")
    yield _profile("no layers", '{"layers": [], "boundaryBytes": "1"}')
    yield _profile("no boundary", f'{{"layers": [{layer}]}}')
    yield _profile(
        "a time below nothing",
        f'{{"layers": [{layer.replace("1ms", "-1ms", 1)}], "boundaryBytes": 1}}',
    )
    yield _profile(
        "a time of days", f'{{"layers": [{layer.replace("1ms", "48h", 1)}], "boundaryBytes": 1}}'
    )
    yield _profile(
        "a time without number",
        f'{{"layers": [{layer.replace("1ms", "ms", 1)}], "boundaryBytes": 1}}',
    )
    yield _profile("a size beyond 64 bits", f'{{"layers": [{layer}], "boundaryBytes": "9999P"}}')
    yield _profile(
        "a billion layers",
        f'{{"layers": [{layer[:-1]}, "count": 1000000000}}], "boundaryBytes": 1}}',
    )
    yield _profile("NaN", f'{{"layers": [{layer}], "boundaryBytes": NaN}}')
    yield _profile("another's profile", '{"1": {"1": {"0": [1, 1, 1]}}}')
    yield _profile("another's profile of words", '{"1": {"1": {"0": ["a", "b", "c"]}}}')
    yield _profile("objects without end", '{"a":' * 50_000)
    yield _job("a profile that is no JSON", '{"layers": [{"count"', "layers: [{count")
    yield _job("a profile under another key", "profile.json: |", "profile.yaml: |")
    yield _job("data that is no mapping", "data:\n  profile.json: |\n", "data:\n  - |\n")


def _explorations() -> Iterator[Nasty]:
    yield _explored("an exploration without model", "model:", "modell:")
    yield _explored("an exploration in snake case", "hiddenSize", "hidden_size")
    yield _explored("heads that do not divide", "heads: 16", "heads: 0")
    yield _explored("a batch that does not divide", "global: 8", "global: 7")
    yield _explored("a pipeline that does not divide", "pipeline: 3", "pipeline: 4")
    yield _explored("a machine beyond count", "units: 3", "units: 1000000")
    yield _explored("a tier without rate", "rate: 10G, ", "")
    yield _explored("a tier slower than nothing", "rate: 10G", "rate: -10G")
    yield _explored("a transport beyond one", "[0.92, 0.85]", "[0.92, 1.85]")
    yield _explored("a transport of one tier", "[0.92, 0.85]", "[0.92]")
    yield _explored("rings of nobody", "oblivious", "golden")
    yield _explored("no memory", "memory: 12G", 'memory: "0"')
    yield _explored(
        "an accelerator by name of nobody", "{flops: 100T, memory: 12G}", "{name: H900}"
    )
    yield _explored(
        "a placement of nobody", "layout: {pipeline: 3}", "layout: {pipeline: 3, nesting: [data]}"
    )
    yield _explored("a model of a billion layers", "layers: 4", "layers: 1000000000")


def _orders() -> Iterator[Nasty]:
    yield _order("an empty order", "")
    yield _order("an order of commas", "," * 100_000)
    yield _order("a cell that is no action", "0F0,0X0\n")
    yield _order("a stage on two rows", "0F0,0B0\n0F1,0B1\n")
    yield _order("a micro-batch that is missing", "0F0,0F2,0B0,0B2\n")
    yield _order("a backward before its forward", "0B0,0F0\n")
    yield _order("a forward without backward", "0F0\n")
    yield _order("an action twice", "0F0,0F0,0B0\n")
    yield _order("ranks that wait for each other", "0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n")
    yield _order("a number of seven digits", "0F9999999\n")
    yield _order("an order of bytes", bytes(range(256)))
    yield _order("an order of a million cells without action", "," * 1_000_000, is_long=True)
    yield _order("an order of five million cells", ",\n" * 2_500_000)


def _imports() -> Iterator[Nasty]:
    yield _imported("no table", "azure", "")
    yield _imported("another's table", "azure", _SKYPLANE)
    yield _imported("a row that is too short", "azure", _AZURE + "Japan,1\n")
    yield _imported("a round trip in words", "azure", _AZURE.replace("74", "far"))
    yield _imported("a round trip that is no number", "azure", _AZURE.replace("74", "nan"))
    yield _imported("a region that is not there", "azure", _AZURE.replace("West US", "East JP"))
    yield _imported("no rate", "azure", _AZURE)
    yield _imported("a quote that is open", "skyplane", _SKYPLANE + '"')
    yield _imported("heads of nobody", "skyplane", "a,b\n1,2\n")
    yield _imported("no round trip", "sailor", _SAILOR, "--accelerator A100-40")
    yield _imported(
        "a fit of words", "sailor", _SAILOR.replace("6e8", '"x"'), "--accelerator A100-40"
    )
    yield _imported(
        "a fit that falls below nothing",
        "sailor",
        _SAILOR.replace("0.5]", "-99]"),
        "--accelerator A100-40",
    )
    yield _imported("no JSON", "sailor", "a: 1")


def _options() -> Iterator[Nasty]:
    yield _called("a job of nobody", "--job other")
    yield _called("jitter without unit", "--jitter 20")
    yield _called("jitter of all", "--jitter 100%")
    yield _called("a picture in no format", "--gantt {folder}/x.doc")
    yield _called("a file that cannot be written", "--csv /no/where.csv")
    yield _called("an order without file or policy", "", f"schedule {_TIMES}")
    yield _called(
        "a policy of nobody by hand",
        "--policy fastest --stages 2 --microbatches 2",
        f"schedule {_TIMES}",
    )
    yield _called("no stages", "--policy 1f1b --stages 0 --microbatches 2", f"schedule {_TIMES}")
    yield _called(
        "stages without end",
        "--policy 1f1b --stages 100000 --microbatches 100000",
        f"schedule {_TIMES}",
    )
    yield _called(
        "a boundary beyond the pipeline",
        "--policy 1f1b --stages 2 --microbatches 2 --wan-boundary 7",
        f"schedule {_TIMES}",
    )
    yield _called(
        "a time of days by hand",
        "--policy 1f1b --stages 2 --microbatches 2 --transfer 48h",
        f"schedule {_TIMES}",
    )
    yield _called("no budget", "--budget 0s", "explore -f {folder}/job.yaml")
    yield _called("a budget in words", "--budget soon", "explore -f {folder}/job.yaml")


if __name__ == "__main__":
    write()
