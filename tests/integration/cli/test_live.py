"""The command line against real API servers with objects as geotrain leaves them."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from geotrain.api import labels
from geotrain.cli.main import main
from geotrain.model.plan import Plan
from geotrain.units import format_duration
from support import hubs
from support.controlplane import ControlPlane
from support.hubs import JOB, NAMESPACE
from support.log_kubelet import Kubelet, Log

pytestmark = pytest.mark.controlplane

GEOTRAIN = [sys.executable, "-c", "from geotrain.cli.main import main; main()"]
VIEWER = "viewer"
WAIT = 30.0


@dataclass
class World:
    """A hub, a member, the kubelet of both, and the kubeconfig of a person who knows them."""

    hub: ControlPlane
    west: ControlPlane
    kubelet: Kubelet
    plan: Plan
    folder: Path
    uid: str
    nodes: dict[str, str]

    def config(self, **contexts: ControlPlane) -> Path:
        return hubs.kubeconfig(self.folder / "-".join(contexts), **contexts)

    def plane(self, center: str) -> ControlPlane:
        return self.hub if center == "dc-central" else self.west

    def start(self, rank: int, attempt: int = 0, *, ended: bool = False) -> Log:
        """Put a rank's pod into its cluster; gives its log."""
        center = self.plan.data_center_of(rank)
        pod = hubs.pod(self.uid, center, rank, self.nodes[center], attempt)
        hubs.run_pod(self.plane(center), pod, ended=ended)
        log = self.kubelet.logs[f"{JOB}-r{rank}", "trainer"] = Log(ended=ended)
        return log

    def run(self, *arguments: str, config: Path | None = None, **environment: str) -> "Done":
        """Run the command in this process, whose imports took long enough once."""
        chosen = config or self.config(**{"hub": self.hub, "kind-dc-west": self.west})
        out, err = io.StringIO(), io.StringIO()
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            for name, value in {"KUBECONFIG": str(chosen), **environment}.items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                main([*arguments])
        return Done(int(str(ended.value.code or 0)), out.getvalue(), err.getvalue())


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture(scope="module")
def world(control_plane_factory: Any, tmp_path_factory: Any) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("cli")
    hub = control_plane_factory(users={VIEWER: []})
    west = control_plane_factory()
    with Kubelet(folder) as kubelet:
        plan = hubs.fill(hub)
        west.kubectl("create", "namespace", NAMESPACE)
        uid = hub.get("gtj", JOB, "-n", NAMESPACE)["metadata"]["uid"]
        nodes = {
            name: hubs.add_kubelet(plane, kubelet, name)
            for name, plane in (("dc-central", hub), ("dc-west", west))
        }
        yield World(hub, west, kubelet, plan, folder, uid, nodes)


@pytest.fixture
def gang(world: World) -> Iterator[World]:
    """The ranks of dc-central and dc-west, each with three lines a second apart."""
    for rank in range(world.plan.ranks):
        if world.plan.data_center_of(rank) != "dc-east":
            log = world.start(rank, ended=True)
            for second in range(3):
                log.write(f"2026-01-01T00:00:0{second}.{rank:02d}Z", f"step {second} of {rank}")
    yield world
    for plane in (world.hub, world.west):
        plane.kubectl("delete", "pod", "--all", "-n", NAMESPACE, "--force", "--grace-period=0")


def test_as_a_process_it_prints_and_ends(world: World) -> None:
    config = world.config(**{"hub": world.hub, "kind-dc-west": world.west})
    done = subprocess.run(
        [*GEOTRAIN, "links", "--kubeconfig", str(config)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stdout.startswith("FROM")


def test_links_and_their_warnings(world: World) -> None:
    done = world.run("links")
    assert done.returncode == 0
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:]] == [
        ["dc-central", "dc-east"], ["dc-west", "dc-central"], ["dc-west", "dc-east"],
        ["dc-west", "moon"],
    ]  # fmt: skip
    assert "53M team-a/gpt" in done.stdout
    assert "WanLink west-moon: there is no DataCenter moon" in done.stderr
    assert "capacity is measured as 60M, and 100M is declared" in done.stderr
    names = world.run("links", "-o", "name").stdout.split()
    found = json.loads(world.hub.kubectl("get", *names, "-o", "json"))
    assert len(found["items"]) == 4


def test_top(world: World) -> None:
    done = world.run("top", "-A")
    assert done.returncode == 0
    assert f"team-a     gpt    Running  {format_duration(world.plan.iteration)}" in done.stdout
    assert "team-b     llama  Waiting" in done.stdout
    assert "gpt" in world.run("top", "jobs").stdout
    assert "llama" not in world.run("top", "jobs").stdout


def test_explain_says_why(gang: World) -> None:
    done = gang.run("explain", JOB, "-o", "json")
    assert done.returncode == 0, done.stderr
    here, slow = json.loads(done.stdout)["sections"]
    codes = {each["code"] for each in slow["findings"]}
    assert {"SlowerThanPlanned", "BoundByWan", "NoSignal", "LinkDegraded", "NotLooked"} <= codes
    assert "by replay" in next(f["sentence"] for f in slow["findings"] if f["code"] == "BoundByWan")
    assert here["findings"][0]["code"] == "Chosen"
    waiting = gang.run("explain", "llama", "-n", "team-b", COLUMNS="80")
    assert "WaitingForCapacity" in waiting.stdout
    assert max(map(len, waiting.stdout.splitlines())) <= 80


def test_logs_of_all_members_in_order_of_time(gang: World) -> None:
    done = gang.run("logs", JOB)
    lines = done.stdout.splitlines()
    assert len(lines) == 24
    ranks = range(8)
    assert [line.split("] ")[1].strip() for line in lines] == [
        f"step {second} of {rank}" for second in range(3) for rank in ranks
    ]
    assert lines[0].startswith("[r0 dc-west]    ")
    assert lines[4].startswith("[r4 dc-central] ")
    assert "dc-east cannot be looked into" in done.stderr
    assert done.returncode == 2


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--rank", "0,4", "--tail", "1"], ["[r0 dc-west]    step 2 of 0",
                                            "[r4 dc-central] step 2 of 4"]),
        (["--rank", "4", "--tail", "1", "--no-prefix"], ["step 2 of 4"]),
        (["--rank", "4", "--tail", "1", "--no-prefix", "--timestamps"],
         ["2026-01-01T00:00:02.040000000Z step 2 of 4"]),
    ],
)  # fmt: skip
def test_some_of_the_logs(gang: World, options: list[str], wanted: list[str]) -> None:
    assert gang.run("logs", JOB, *options).stdout.splitlines() == wanted


def test_logs_of_another_container_and_of_before(gang: World) -> None:
    gang.kubelet.logs[f"{JOB}-r4", "geotrain-sidecar"] = Log([("2026-01-01T00:00:00Z", "ready")])
    gang.kubelet.previous[f"{JOB}-r4", "geotrain-sidecar"] = Log([("2026-01-01T00:00:00Z", "old")])
    chosen = ["logs", JOB, "--rank", "4", "-c", "geotrain-sidecar"]
    assert gang.run(*chosen).stdout == "[r4 dc-central geotrain-sidecar] ready\n"
    assert gang.run(*chosen, "--previous").stdout == "[r4 dc-central geotrain-sidecar] old\n"
    assert gang.run(*chosen, "--since", "5m").returncode == 2
    assert gang.kubelet.asked[-1]["sinceSeconds"] == "300"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-c", "other"], "no container 'other'; there is geotrain-sidecar, trainer"),
        (["--rank", "8"], "there is no pod of rank 8; there is 0, 1, 2, 3, 4, 5, 6, 7"),
        (["--max-log-requests", "3"], "8 logs are more than --max-log-requests 3; choose some"),
        (["--member-context", "dc-west"], "write DATACENTER=CONTEXT"),
        (["--member-context", "moon=hub"], "the job has nothing in 'moon'"),
        (["--member-context", "dc-west=x"], "there is no context 'x' in your kubeconfig"),
    ],
)
def test_logs_that_are_not_there_are_refused(gang: World, options: list[str], said: str) -> None:
    done = gang.run("logs", JOB, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_log_that_fails_does_not_hide_the_others(gang: World) -> None:
    del gang.kubelet.logs[f"{JOB}-r4", "trainer"]
    done = gang.run("logs", JOB, "--rank", "4,5", "--tail", "1")
    assert done.stdout == "[r5 dc-central] step 2 of 5\n"
    assert "warning: rank 4 in dc-central: " in done.stderr
    assert done.returncode == 2


def test_a_pod_that_waits_says_why(gang: World) -> None:
    waiting = {"containerStatuses": [{
        "name": "trainer", "image": "x", "imageID": "", "ready": False, "restartCount": 0,
        "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}},
    }]}  # fmt: skip
    hubs.patch_status(gang.hub, "pod", f"{JOB}-r4", {"phase": "Pending", **waiting}, NAMESPACE)
    done = gang.run("logs", JOB, "--rank", "4,5", "--tail", "1")
    assert "rank 4 in dc-central has no log: ErrImagePull: no such image" in done.stderr
    assert done.stdout == "[r5 dc-central] step 2 of 5\n"
    told = gang.run("explain", "llama", "-n", "team-b").stdout
    assert "ErrImagePull" not in told  # it is of another job


def test_members_are_found_by_address_by_option_and_by_the_hubs_secret(gang: World) -> None:
    chosen = ["logs", JOB, "--rank", "0", "--tail", "1"]
    wanted = "[r0 dc-west] step 2 of 0\n"
    other = gang.config(hub=gang.hub, prod=gang.west)
    assert gang.run(*chosen, config=other).stdout == wanted  # by looking into every context
    given = gang.run(*chosen, "--member-context", "dc-west=prod", config=other)
    assert given.stdout == wanted
    wrong = gang.run(*chosen, "--member-context", "dc-west=hub", config=other)
    assert wrong.returncode == 2
    alone = gang.config(hub=gang.hub)
    missed = gang.run("logs", JOB, config=alone)
    assert "dc-west cannot be looked into" in missed.stderr
    assert "give --member-context dc-west=CONTEXT" in missed.stderr
    assert missed.stdout.count("dc-central") == 12
    _give_secret(gang)
    try:
        assert gang.run(*chosen, config=alone).stdout == wanted
    finally:
        gang.hub.kubectl("delete", "secret", "x", "-n", "geotrain-system")


def _give_secret(world: World) -> None:
    """The kubeconfig that ``join`` would have made, where dc-west's DataCenter says it is."""
    text = world.west.kubeconfig.read_text()
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"},
                "stringData": {"kubeconfig": text}}  # fmt: skip
    world.hub.kubectl("create", "namespace", "geotrain-system")
    world.hub.kubectl("create", "-n", "geotrain-system", "-f", "-", stdin=json.dumps(manifest))


class Follower:
    """``geotrain logs -f`` as a process, whose output is read as it comes."""

    def __init__(self, world: World, *options: str) -> None:
        config = world.config(**{"hub": world.hub, "kind-dc-west": world.west})
        self.out = world.folder / f"followed-{time.monotonic_ns()}"
        with self.out.open("w") as stream:
            self.process = subprocess.Popen(
                [*GEOTRAIN, "logs", JOB, "-f", "--no-prefix", *options],
                stdout=stream, stderr=subprocess.STDOUT,
                env={**os.environ, "KUBECONFIG": str(config)},
            )  # fmt: skip

    def wait_for(self, text: str) -> str:
        deadline = time.monotonic() + WAIT
        while text not in (seen := self.out.read_text()):
            assert time.monotonic() < deadline, f"no {text!r} in {seen!r}"
            time.sleep(0.05)
        return seen

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(WAIT)


def test_following_goes_through_cuts_and_restarts_and_loses_nothing(gang: World) -> None:
    log = again = gang.start(4)
    log.cuts = 1
    log.write("2026-01-01T00:00:01.1Z", "first")
    follower = Follower(gang, "--rank", "4")
    try:
        follower.wait_for("first\n")
        log.write("2026-01-01T00:00:01.2Z", "after the cut")
        follower.wait_for("after the cut\n")
        gang.hub.kubectl("delete", "pod", f"{JOB}-r4", "-n", NAMESPACE, "--force")
        log.ended = True
        again = gang.start(4, attempt=1)
        again.write("2026-01-01T00:01:00Z", "of the next gang")
        follower.wait_for("of the next gang\n")
        seen = follower.out.read_text()
        assert [seen.count(each) for each in ("first", "after the cut", "of the next")] == [1, 1, 1]
        assert "the gang was restarted (attempt 1)" in seen
    finally:
        again.ended = True
        assert follower.interrupt() == 130
    assert "Traceback" not in follower.out.read_text()


def test_following_ends_with_the_job(gang: World) -> None:
    follower = Follower(gang, "--rank", "4")
    try:
        follower.wait_for("step 2 of 4\n")
        done = hubs.running(gang.plan) | {"completionTime": hubs.TIME, "phase": "Complete"}
        hubs.patch_status(gang.hub, "gtj", JOB, done, NAMESPACE)
        assert follower.process.wait(WAIT) == 2  # dc-east could not be looked into
    finally:
        follower.process.kill()
        gone = {**hubs.running(gang.plan, linkBytes=hubs.carried()), "completionTime": None}
        hubs.patch_status(gang.hub, "gtj", JOB, gone, NAMESPACE)


def test_a_job_without_pods_has_no_logs(world: World) -> None:
    manifest = hubs.documents("job.yaml")[0]
    manifest["metadata"]["name"] = "new"
    world.hub.apply(manifest)
    try:
        done = world.run("logs", "new")
        assert "new has no pods: it is new; see explain new" in done.stderr
        assert done.returncode == 2
        assert "no controller has looked at it yet" in world.run("explain", "new").stdout
    finally:
        world.hub.kubectl("delete", "gtj", "new", "-n", NAMESPACE)


def test_whoever_may_see_a_namespace_alone_is_told_what_is_left_out(world: World) -> None:
    rules = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": VIEWER, "namespace": NAMESPACE},
        "rules": [{"apiGroups": [labels.GROUP], "resources": ["*"], "verbs": ["get", "list"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": VIEWER, "namespace": NAMESPACE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": VIEWER},
        "subjects": [{"kind": "User", "name": VIEWER, "apiGroup": "rbac.authorization.k8s.io"}],
    }
    world.hub.apply(rules, binding)
    document = yaml.safe_load(world.hub.kubeconfig_of(VIEWER).read_text())
    document["contexts"][0]["context"]["namespace"] = NAMESPACE
    config = world.folder / "viewer"
    config.write_text(yaml.safe_dump(document))
    done = world.run("explain", JOB, "--no-members", config=config)
    assert done.returncode == 0, done.stderr
    assert "warning: datacenters may not be listed" in done.stderr
    assert "Why slow" in done.stdout
    assert world.run("links", config=config).returncode == 2
    unknown = world.run("explain", "gtp", config=config)
    assert "did you mean gpt?" in unknown.stderr
    assert "error: wanlinks" in world.run("links", config=config).stderr


def test_no_hub_is_one_sentence(world: World, tmp_path: Path) -> None:
    bare = world.config(west=world.west)
    done = world.run("links", config=bare)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "context west: geotrain is not installed there, or it is no hub" in done.stderr
    none = world.run("top", config=tmp_path / "none")
    assert none.stderr == "error: your kubeconfig has no current context; give --hub-context\n"
    document = yaml.safe_load(bare.read_text())
    document["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (tmp_path / "silent").write_text(yaml.safe_dump(document))
    silent = world.run("explain", "x", "--request-timeout", "2s", config=tmp_path / "silent")
    assert "https://127.0.0.1:1 does not answer" in silent.stderr
    assert silent.returncode == 2


def test_what_is_typed_is_completed_from_the_hub_and_faults_are_silent(world: World) -> None:
    def offered(*words: str, **options: Any) -> list[str]:
        done = world.run("__complete", *words, **options)
        assert done.returncode == 0
        assert done.stderr == ""
        *found, _ = done.stdout.splitlines()
        return found

    assert offered("explain", "") == [JOB]
    assert offered("explain", "-n", "team-b", "") == ["llama"]
    assert offered("top", "-n", "team") == ["team-a", "team-b"]
    assert offered("logs", "--hub-context", "") == ["hub", "kind-dc-west"]
    assert offered("logs", JOB, "--member-context", "dc-w") == ["dc-west="]
    assert offered("explain", "", config=world.folder / "nowhere") == []


def test_versions(world: World) -> None:
    lines = world.run("version").stdout.splitlines()
    assert lines[1:] == ["controller unknown", f"kubernetes {_server_version(world)}"]


def _server_version(world: World) -> str:
    found = json.loads(world.hub.kubectl("version", "-o", "json"))
    return str(found["serverVersion"]["gitVersion"])
