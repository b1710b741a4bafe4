"""The controller on three real API servers with real schedulers; kwok plays the kubelets."""

import asyncio
import contextlib
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from geotrain.adapters import credentials
from geotrain.api import labels
from geotrain.api.objects import (
    BANDWIDTH_SCHEDULES,
    CONFIG_MAPS,
    DATA_CENTERS,
    ENDPOINT_SLICES,
    EVENTS,
    NETWORK_POLICIES,
    PODS,
    SERVICES,
    TRAINING_JOBS,
    WAN_LINKS,
)
from geotrain.errors import NotFound
from geotrain.roles.controller import app
from geotrain.settings import Settings
from support import manifests
from support.controlplane import ControlPlaneError
from support.world import CENTERS, job

pytestmark = pytest.mark.controlplane

OURS = f"{labels.MANAGED_BY}={labels.MANAGED_BY_VALUE}"
PATIENCE = 90.0  # seconds; a step takes one to three, more where the cores are shared
SETTINGS = {"controller": {"healthPort": 0, "contactPeriod": 1.0}, "log": {"form": "text"}}
OPERATOR = Path(__file__).parents[3] / "operator"


@contextlib.asynccontextmanager
async def controller(planes):
    access = credentials.from_file(planes["dc-central"].kubeconfig)
    settings = Settings.from_document(SETTINGS)
    task = asyncio.create_task(app.run(access, settings, "geotrain-system"))
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(what, check, patience=PATIENCE):
    """Wait until ``check`` gives something true, which is returned."""
    end = time.monotonic() + patience
    while True:
        found = await check()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not so after {patience} s: {what}")
        await asyncio.sleep(0.2)


class Look:
    """What a user sees."""

    def __init__(self, clusters):
        self.clusters, self.hub = clusters, clusters["dc-central"]

    async def status(self):
        try:
            return (await self.hub.get(TRAINING_JOBS, "team-a", "gpt")).get("status", {})
        except NotFound:
            return None

    async def reach(self, phase, patience=PATIENCE):
        async def check():
            status = await self.status()
            return status if status and status.get("phase") == phase else None

        try:
            return await until(phase, check, patience)
        except AssertionError as error:
            raise AssertionError(f"{error}: {await self.status()}") from None

    async def pods(self):
        found = {}
        for name, cluster in self.clusters.items():
            for pod in await cluster.list(PODS, "team-a"):
                found[name, pod["metadata"]["name"]] = pod
        return found

    async def left(self):
        return [
            f"{name}: {resource}/{each['metadata']['name']}"
            for name, cluster in self.clusters.items()
            for resource in (PODS, SERVICES, ENDPOINT_SLICES, NETWORK_POLICIES, CONFIG_MAPS)
            for each in await cluster.list(resource, "team-a", OURS)
        ] + [o["metadata"]["name"] for o in await self.hub.list(BANDWIDTH_SCHEDULES)]

    async def gone(self):
        return await self.status() is None

    async def clean(self):
        return not await self.left()


@pytest.fixture
async def look(clusters):
    seen = Look(clusters)
    yield seen
    with contextlib.suppress(NotFound):
        await seen.hub.patch(TRAINING_JOBS, "team-a", "gpt", {"metadata": {"finalizers": []}})
        await seen.hub.delete(TRAINING_JOBS, "team-a", "gpt")
    for cluster in clusters.values():
        for resource in (PODS, SERVICES, ENDPOINT_SLICES, NETWORK_POLICIES, CONFIG_MAPS):
            for each in await cluster.list(resource, "team-a", OURS):
                with contextlib.suppress(NotFound):
                    await cluster.delete(resource, "team-a", each["metadata"]["name"], grace=0)


async def test_a_job_lives_and_leaves_nothing(planes, look):
    async with controller(planes):
        await look.hub.create(TRAINING_JOBS, job())
        await look.reach("Running")
        pods = await look.pods()
        assert sorted(name for _, name in pods) == sorted(f"gpt-r{n}" for n in range(12))
        assert [sum(c == center for c, _ in pods) for center in CENTERS] == [4, 4, 4]

        async def endpoints():
            for cluster in look.clusters.values():
                slices = await cluster.list(ENDPOINT_SLICES, "team-a", OURS)
                if sum(len(each["endpoints"]) for each in slices) != 12:
                    return False
            return True

        await until("endpoints of all ranks everywhere", endpoints)

        lost = next(iter(pods))
        await look.clusters[lost[0]].delete(PODS, "team-a", lost[1], grace=0)

        async def restarted():
            return (await look.status()).get("attempt") == 1

        await until("a second attempt", restarted)
        await look.reach("Running")
        assert len(await look.pods()) == 12

        await look.hub.patch(TRAINING_JOBS, "team-a", "gpt", {"spec": {"suspend": True}})
        await look.reach("Suspended")
        await until("nothing of a suspended job", look.clean)
        await look.hub.patch(TRAINING_JOBS, "team-a", "gpt", {"spec": {"suspend": False}})
        await look.reach("Running")

        await look.hub.delete(TRAINING_JOBS, "team-a", "gpt")

        await until("the job gone", look.gone)
        assert await look.left() == []


async def test_data_centers_and_links_have_a_status(planes, look):
    async with controller(planes):

        async def counted():
            centers = await look.hub.list(DATA_CENTERS)
            counts = [c.get("status", {}).get("gpus") for c in centers]
            return counts == [{"capacity": 4, "allocatable": 4, "free": 4}] * 3 and centers

        for each in await until("GPUs of all data centres", counted):
            conditions = {c["type"]: c["reason"] for c in each["status"]["conditions"]}
            assert conditions == {
                "Reachable": "Contacted",
                "AgentsReady": "SchedulerMissing",
                "NetworkReady": "NetworkKnown",
            }
            assert each["status"]["kubernetesVersion"].startswith("v1.")

        async def judged():
            return all(w.get("status") for w in await look.hub.list(WAN_LINKS))

        await until("a status of all links", judged)


async def test_a_job_that_cannot_be_placed_says_why_within_half_a_minute(planes, look):
    async with controller(planes):
        await look.hub.create(TRAINING_JOBS, job(parallelism={"data": 4, "pipeline": 6}))

        async def described():
            text = planes["dc-central"].kubectl("describe", "gtj", "gpt", "-n", "team-a")
            # A member that has not answered yet is left out at first, and the message says so.
            return "NoFeasiblePlacement" in text and "dc-west has 4 free GPUs" in text

        await until("a description that says what dc-west lacks", described, patience=30.0)

        async def told():  # events follow the status that they tell of
            events = await look.hub.list(EVENTS, "team-a")
            return "NoFeasiblePlacement" in {event["reason"] for event in events}

        await until("an event with the reason", told)
        assert await look.left() == []


async def test_a_job_waits_for_a_namespace_and_goes_on_when_it_is_opened(planes, look):
    member = planes["dc-east"]
    member.kubectl("label", "namespace", "team-a", f"{labels.ENABLED}-")
    stages = [{"dataCenter": name, "stages": 2} for name in CENTERS]
    try:
        async with controller(planes):
            await look.hub.create(
                TRAINING_JOBS, job(placement={"policy": "Fixed", "stages": stages})
            )

            async def waits():
                conditions = {c["type"]: c for c in (await look.status()).get("conditions", ())}
                found = conditions.get("Reserved", {})
                return found.get("reason") == "NamespaceNotEnabled" and found["message"]

            said = await until("a condition that names the command", waits)
            assert said.startswith(
                "dc-east: namespace team-a has not opted in; in its cluster run: "
            )
            assert not any(each.startswith("dc-east: ") for each in await look.left())
            member.kubectl(*said.partition("run: kubectl ")[2].split())
            await look.reach("Running")
    finally:
        member.apply(manifests.namespace("team-a"))


async def test_a_controller_killed_ten_times_while_it_places_creates_nothing_twice(
    planes, look, tmp_path
):
    """SIGKILL at random moments; whatever was half done is found and finished."""
    moments = random.Random(7)
    await look.hub.create(TRAINING_JOBS, job())
    created = set()
    for number in range(10):
        process = start(planes, tmp_path, f"killed-{number}")
        try:
            await asyncio.sleep(moments.uniform(1.0, 4.0))
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        created |= {(k, p["metadata"]["uid"]) for k, p in (await look.pods()).items()}
    process = start(planes, tmp_path, "last")

    async def started():
        return "health on" in (tmp_path / "last.log").read_text()

    try:
        await until("the last controller", started)
        await asyncio.sleep(2)  # kopf takes over the signals a moment later
        status = await look.reach("Running")
    finally:
        process.terminate()
        ended = process.wait(30)
    pods = await look.pods()
    assert ended == 0, (tmp_path / "last.log").read_text()
    assert len(pods) == 12
    assert status["attempt"] == 0
    assert created <= {(key, pod["metadata"]["uid"]) for key, pod in pods.items()}
    assert len(await look.hub.list(BANDWIDTH_SCHEDULES)) == 3
    for log in tmp_path.glob("*.log"):
        assert "Traceback" not in log.read_text(), log.read_text()


def start(planes, folder, name):
    """A controller in a process of its own."""
    settings = folder / "settings.yaml"
    settings.write_text("controller: {healthPort: 0}\nlog: {form: text}\n")
    command = [sys.executable, "-m", "geotrain", "controller", "--settings", str(settings)]
    command += ["--kubeconfig", str(planes["dc-central"].kubeconfig)]
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=log, env={"PYTHONPATH": str(OPERATOR), "PATH": "/usr/bin"}
        )


USERS = {
    ("dc-central", PODS, "gpt-r0"): {
        "spec": {"containers": [{"name": "c", "image": "example.com/none"}]}
    },
    ("dc-central", CONFIG_MAPS, "gpt-geotrain-plan"): {"data": {"theirs": "yes"}},
    ("dc-west", SERVICES, "gpt"): {"spec": {"clusterIP": "None", "selector": {"app": "mine"}}},
    ("dc-east", CONFIG_MAPS, "gpt-geotrain.dc-east"): {"data": {"theirs": "yes"}},
    ("dc-east", NETWORK_POLICIES, "gpt-ranks"): {"spec": {"podSelector": {}}},
    ("dc-west", ENDPOINT_SLICES, "gpt-geotrain"): {
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.9.9.9"]}],
    },
}


async def test_what_users_have_under_a_jobs_names_outlives_the_job(planes, look):
    uids = {}
    for (center, resource, name), content in USERS.items():
        meta = {"name": name, "namespace": "team-a", "labels": {"app": "mine"}}
        kind = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
        with contextlib.suppress(ControlPlaneError):
            planes[center].kubectl("create", "namespace", "team-a")
        made = await look.clusters[center].create(resource, kind | content)
        uids[center, resource, name] = made["metadata"]["uid"]

    async def theirs():
        found = {}
        for center, resource, name in uids:
            each = await look.clusters[center].get(resource, "team-a", name)
            assert each["metadata"]["labels"] == {"app": "mine"}
            assert "deletionTimestamp" not in each["metadata"]
            found[center, resource, name] = each["metadata"]["uid"]
        return found

    def told(*words):
        async def described():
            text = planes["dc-central"].kubectl("describe", "gtj", "gpt", "-n", "team-a")
            said = " ".join(text.split())
            return all(word in said for word in ("NameTaken", *words))

        return until(f"a description with {words}", described)

    async def remove(*keys):
        for center, resource, name in keys:
            await look.clusters[center].delete(resource, "team-a", name, grace=0)
            del uids[center, resource, name]

    pod, ledger, *others = uids
    async with controller(planes):
        await look.hub.create(TRAINING_JOBS, job())
        await told("Pod team-a/gpt-r0 in dc-central")
        assert await theirs() == uids
        await remove(pod)
        await told("ConfigMap team-a/gpt-geotrain-plan on the hub")
        assert await theirs() == uids
        await remove(ledger)
        await told("in dc-east", "in dc-west", "and 1 more; rename the job or remove those objects")
        assert await theirs() == uids

        await look.hub.delete(TRAINING_JOBS, "team-a", "gpt")
        await until("the job gone", look.gone)
        assert await theirs() == uids
        assert await look.left() == []

        await look.hub.create(TRAINING_JOBS, job())
        await told("Service team-a/gpt in dc-west")
        await remove(*others)
        await look.reach("Running")


async def test_a_job_deleted_in_the_foreground_holds_its_links_to_the_last_pod(planes, look):
    """The garbage collector deletes what a job owns before the job: its schedules wait for us."""
    async with controller(planes):
        await look.hub.create(TRAINING_JOBS, job())
        await look.reach("Running")
        planes["dc-east"].kill("kwok")  # its pods end and end
        try:
            planes["dc-central"].kubectl(
                *("delete", "gtj", "gpt", "-n", "team-a", "--cascade=foreground", "--wait=false")
            )

            async def last():
                return {center for center, _ in await look.pods()} == {"dc-east"}

            async def collected():
                schedules = await look.hub.list(BANDWIDTH_SCHEDULES, "team-a")
                return all("deletionTimestamp" in each["metadata"] for each in schedules)

            await until("all other pods gone", last)
            await until("schedules marked by the garbage collector", collected)
            assert len(await look.hub.list(BANDWIDTH_SCHEDULES, "team-a")) == 3
            assert await look.status() is not None
        finally:
            planes["dc-east"].start("kwok")
        await until("the job gone", look.gone)
        assert await look.left() == []


async def test_schedules_of_a_job_that_lost_our_finalizer_go_too(planes, look):
    async with controller(planes):
        await look.hub.create(TRAINING_JOBS, job())
        await look.reach("Running")
        no_finalizers = {"metadata": {"finalizers": None}}
        await look.hub.delete(TRAINING_JOBS, "team-a", "gpt")
        with contextlib.suppress(NotFound):
            await look.hub.patch(TRAINING_JOBS, "team-a", "gpt", no_finalizers)

        async def given_back():
            return not await look.hub.list(BANDWIDTH_SCHEDULES, "team-a")

        await until("no schedules", given_back)
