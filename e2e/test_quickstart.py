"""The quick start, word for word: from nothing to a running job, why it is slow, and back.

While its job runs, the commands of the other pages are tried on it. Runs last (``conftest``), since
it begins and ends with bare clusters.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.conftest import clear
from e2e.install import GPU_RESOURCE, server
from e2e.lab import DATA_CENTERS, SYSTEM, Cluster, condition, hub, wait_for
from e2e.pages import Reader
from e2e.testbed.config import Bed
from e2e.testbed.shell import each
from support.pages import AT_THE_END, QUICK_START, RUNNING_JOB, Block, all_blocks, read

PAGE = "docs/quickstart.md"
MEMBER = "dc-west"
NAMESPACE = "quickstart"
BLOCKS = all_blocks()
GROUP = ".geotrain.io"


@pytest.fixture
def bare(bed: Bed) -> Iterator[Bed]:
    """Clusters on which geotrain is not installed, before and after."""
    _remove_all()
    yield bed
    _remove_all()


def _remove_all() -> None:
    """Whatever is there, in the order of the page."""
    if _crds(hub()):
        clear()
        hub().kubectl("delete", "dc,wan", "--all", "--timeout=60s")
    each([name for name in DATA_CENTERS if name != hub().name], _remove)
    _remove(hub().name)


def _remove(name: str) -> None:
    cluster = Cluster(name)
    if cluster.helm("list", "--short", "--namespace", SYSTEM, "--filter", "^geotrain$").strip():
        cluster.helm("uninstall", "geotrain", "--namespace", SYSTEM, "--wait", "--timeout", "2m")
    gone = ("--ignore-not-found", "--timeout=60s")
    cluster.kubectl("delete", "namespace", SYSTEM, NAMESPACE, *gone)
    if crds := _crds(cluster):
        cluster.kubectl("delete", "crd", *crds, *gone)


def _crds(cluster: Cluster) -> list[str]:
    names = (crd["metadata"]["name"] for crd in cluster.list("crd"))
    return [name for name in names if name.endswith(GROUP)]


def _values(bed: Bed) -> dict[str, str]:
    """What the page's first block would say for this bed."""
    link = bed.wan
    return {
        "HUB": hub().context,
        "MEMBER": Cluster(MEMBER).context,
        "REGISTRY": "registry.example.com/team",
        "TAG": "quickstart",
        "GPU": GPU_RESOURCE,
        "RATE": f"{link.pair_rate:.0f}",
        "RTT": f"{link.round_trip(hub().name, MEMBER) * 1e3:g}ms",
        "WINDOW": str(link.window),
        "SERVER": server(MEMBER),
    }


def test_word_for_word(bare: Bed, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reader = Reader(tmp_path)
    values, *steps = [b for b in BLOCKS if (b.page, b.place) == (PAGE, QUICK_START)]
    removal = read(PAGE).split("\n").index("## Remove it")
    reader.settle(values, _values(bare))
    for block in steps:
        if block.line < removal:
            said = reader.run(block)
    _job_runs_and_is_explained(said)
    _other_pages(reader)
    for block in steps:
        if block.line > removal:
            reader.run(block)
    for block in (b for b in BLOCKS if b.place == AT_THE_END):
        reader.run(block)
    _nothing_is_left()
    with capsys.disabled():
        _tell(reader.seconds)


def _job_runs_and_is_explained(said: str) -> None:
    job = hub().get("gtj", "first", NAMESPACE)
    assert job is not None
    assert job["status"]["phase"] == "Running"
    assert {part["dataCenter"] for part in job["status"]["plan"]["stages"]} == {hub().name, MEMBER}
    observed, planned = job["status"]["observed"], job["status"]["plan"]
    for seen in ("dc-central", "dc-west", "Why slow", planned["iterationTime"]):
        assert seen in said, said
    assert observed["iteration"] > 0
    assert sum(link["bytes"] for link in observed["linkBytes"]) > 0


def _other_pages(reader: Reader) -> None:
    """What other pages say of a running job and of an installation works, and stops no pod."""
    before = _uids()
    for block in (b for b in BLOCKS if b.place == RUNNING_JOB):
        reader.run(block)
    wait_for("job that runs on", _runs, timeout=60)
    assert _uids() == before


def _runs() -> bool:
    return condition(hub().get("gtj", "first", NAMESPACE), "PodsReady").get("status") == "True"


def _uids() -> set[str]:
    pods = [pod for name in DATA_CENTERS for pod in Cluster(name).list("pods", NAMESPACE)]
    return {pod["metadata"]["uid"] for pod in pods}


def _nothing_is_left() -> None:
    for name in (hub().name, MEMBER):
        cluster = Cluster(name)
        spaces = {space["metadata"]["name"] for space in cluster.list("namespaces")}
        assert not spaces & {SYSTEM, NAMESPACE}
        rest = "clusterroles,clusterrolebindings,priorityclasses,validatingadmissionpolicies"
        kept = cluster.kubectl("get", rest, "-o", "name").split()
        assert not [each for each in kept if "/geotrain" in each]
    assert not _crds(hub())


def _tell(seconds: dict[str, float]) -> None:
    print("\nseconds of each block of the quick start, and of what other pages show:")
    for name, took in seconds.items():
        print(f"{took:7.1f}  {name}")
    print(f"{sum(seconds.values()):7.1f}  in all")


def test_what_the_page_would_take_for_itself_can_be_read(bed: Bed, tmp_path: Path) -> None:
    """The address of the member, as the page reads it from the kubeconfig."""
    first = next(b for b in BLOCKS if (b.page, b.place) == (PAGE, QUICK_START))
    line = next(line for line in first.text.splitlines() if line.startswith("export SERVER="))
    text = f'export MEMBER={Cluster(MEMBER).context}\n{line}\necho "$SERVER"\n'
    said = Reader(tmp_path).run(Block(PAGE, first.line, "sh", text))
    assert said.strip().startswith("https://"), said
