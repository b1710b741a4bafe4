"""A job over three clusters: its pods, how they find each other, who is kept out, what is shown."""

import re
from collections.abc import Iterator

import pytest

from e2e import jobs
from e2e.jobs import EVERYWHERE, PORT, Job
from e2e.lab import DATA_CENTERS, Cluster, hub, wait_for
from geotrain.api import labels

pytestmark = pytest.mark.e2e

RANKS = range(6)
HOMES = ["dc-west", "dc-west", "dc-central", "dc-central", "dc-east", "dc-east"]


@pytest.fixture(scope="module")
def job(shared_namespace: str) -> Iterator[Job]:
    """Six stages, two in each data centre, all running."""
    job = Job.applied(jobs.manifest(shared_namespace, EVERYWHERE))
    job.await_running()
    yield job
    job.delete()
    jobs.await_nothing_left(shared_namespace)


def test_each_rank_runs_once_where_the_plan_says(job: Job) -> None:
    pods = job.pods()
    assert [pod["metadata"]["name"] for pod in pods] == [f"gpt-r{rank}" for rank in RANKS]
    assert [pod["spec"]["nodeName"] for pod in pods] == [f"{h}-control-plane" for h in HOMES]
    for pod in pods:
        assert not pod["spec"].get("schedulingGates")
        assert pod["spec"]["schedulerName"] == labels.SCHEDULER_NAME
        assert pod["status"]["phase"] == "Running"
        (sidecar,) = pod["status"]["initContainerStatuses"]
        assert sidecar["started"] is True
        assert sidecar["restartCount"] == 0


def test_every_cluster_knows_the_addresses_of_all_ranks(job: Job) -> None:
    addresses = {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in job.pods()}
    for name in DATA_CENTERS:
        chosen = f"kubernetes.io/service-name={job.name}"
        slices = Cluster(name).list("endpointslices", job.namespace, chosen)
        known = {e["hostname"]: e["addresses"][0] for s in slices for e in s["endpoints"]}
        assert known == addresses, name


@pytest.mark.parametrize(("one", "other"), [(0, 5), (4, 1), (2, 0)])
def test_a_rank_reaches_another_by_its_name_over_the_wide_area(
    job: Job, one: int, other: int
) -> None:
    name = labels.rank_address(job.namespace, job.name, other)
    assert job.probe(one, "reach", name, str(PORT)) == "True"


def test_the_flows_of_each_data_centre_have_windows(job: Job) -> None:
    schedules = hub().list("bws", job.namespace)
    assert {each["spec"]["dataCenter"] for each in schedules} == set(DATA_CENTERS)
    pairs = {(f["source"], f["target"]) for each in schedules for f in each["spec"]["flows"]}
    assert pairs == {(1, 2), (2, 1), (3, 4), (4, 3)}
    for each in schedules:
        assert each["spec"]["windows"], each["metadata"]["name"]
        assert each["metadata"]["ownerReferences"][0]["name"] == job.name


def test_a_stranger_is_stopped_where_a_rank_gets_through(job: Job) -> None:
    """From the rank's own data centre and from another, where its label means nothing."""
    address = job.pods()[5]["status"]["podIP"]
    for name in ("dc-west", "dc-east"):
        jobs.container_in(name, job.namespace, "stranger", jobs.serving(gpus=0))

    def enters(name: str) -> bool:
        reached = jobs.execute(
            Cluster(name), job.namespace, "stranger", "reach", address, str(PORT)
        )
        return reached == "True"

    try:
        # A stranger can go out: it is the job's policy that stops it, not its own network.
        local = Cluster("dc-east").list("pods", job.namespace)
        friend = next(p for p in local if p["metadata"]["name"] == "stranger")["status"]["podIP"]
        out = jobs.execute(
            Cluster("dc-west"), job.namespace, "stranger", "reach", friend, str(PORT)
        )
        assert out == "True"
        assert not enters("dc-west")
        assert not enters("dc-east")
        for rank in (0, 4):
            assert job.probe(rank, "reach", address, str(PORT)) == "True"
    finally:
        for name in ("dc-west", "dc-east"):
            Cluster(name).delete("pod", "stranger", job.namespace)


def test_the_sidecars_are_heard_of_in_the_status(job: Job) -> None:
    """Nothing signals iterations here, and the condition says so."""
    assert job.await_reason("WindowsEnforced", "NoSignal", timeout=60)
    assert job.resource()["status"]["observed"]["ranksReady"] == len(RANKS)


def test_the_board_shows_each_kind(job: Job) -> None:
    board = wait_for("reserved rates on the board", lambda: _reserved(_board()), 40)
    ours = next(row for row in board["gtj"] if row["NAMESPACE"] == job.namespace)
    assert ours["PHASE"] == "Running"
    assert ours["PLACEMENT"] == "dc-west:2 dc-central:2 dc-east:2"
    assert ours["PLANNED"].endswith("ms") or ours["PLANNED"].endswith("s")
    assert ours["ITERATION"] == "", "no trainer has told of one"
    assert ours["RESTARTS"] == "0"
    assert {row["NAME"]: row["REACHABLE"] for row in board["dc"]} == dict.fromkeys(
        (f"datacenter.geotrain.io/{name}" for name in DATA_CENTERS), "True"
    )
    assert {row["GPUS"] for row in board["dc"]} == {"4"}
    assert {row["AGENTS"] for row in board["dc"]} == {"True"}
    assert {row["VALID"] for row in board["wan"]} == {"True"}
    mine = [row for row in board["bws"] if row["NAMESPACE"] == job.namespace]
    assert {row["DC"] for row in mine} == set(DATA_CENTERS)
    assert {row["JOB"] for row in mine} == {job.name}


def _reserved(board: dict[str, list[dict[str, str]]]) -> dict[str, list[dict[str, str]]] | None:
    links = {row["NAME"].rpartition("/")[2]: row["RESERVED"] for row in board["wan"]}
    taken = links["west-central"] not in ("0", "") and links["central-east"] not in ("0", "")
    return board if taken else None


def _board() -> dict[str, list[dict[str, str]]]:
    """What ``kubectl get gtj,dc,wan,bws -A`` prints, by kind and column."""
    tables = hub().kubectl("get", "gtj,dc,wan,bws", "-A").strip().split("\n\n")
    kinds = ("gtj", "dc", "wan", "bws")
    return {kind: _rows(table) for kind, table in zip(kinds, tables, strict=True)}


def _rows(table: str) -> list[dict[str, str]]:
    """Columns begin where their titles do."""
    title, *lines = table.splitlines()
    columns = list(re.finditer(r"\S+", title))
    names = [column.group() for column in columns]
    begins = [column.start() for column in columns]
    ends = [*begins[1:], None]
    return [
        {n: line[b:e].strip() for n, b, e in zip(names, begins, ends, strict=True)}
        for line in lines
    ]
