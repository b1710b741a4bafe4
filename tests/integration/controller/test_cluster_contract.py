"""The promises of the port ``Cluster``, kept by the fake and by a real API server alike."""

import asyncio

import pytest

from geotrain.api.objects import CONFIG_MAPS, PODS, Change
from geotrain.errors import ClusterError, Conflict, Invalid, NotFound

pytestmark = pytest.mark.controlplane


def config_map(name, data=None, labels=None):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "team-a", "labels": labels or {}},
        "data": data or {},
    }


def pod(name, gates=()):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {
            "containers": [{"name": "main", "image": "example.com/none"}],
            "schedulingGates": [{"name": gate} for gate in gates],
        },
    }


async def test_what_is_created_can_be_read_and_only_once_created(cluster):
    await cluster.create(CONFIG_MAPS, config_map("one", {"a": "1"}))
    assert (await cluster.get(CONFIG_MAPS, "team-a", "one"))["data"] == {"a": "1"}
    with pytest.raises(Conflict):
        await cluster.create(CONFIG_MAPS, config_map("one"))


async def test_what_is_not_there_is_not_found(cluster):
    with pytest.raises(NotFound):
        await cluster.get(CONFIG_MAPS, "team-a", "none")
    with pytest.raises(NotFound):
        await cluster.delete(CONFIG_MAPS, "team-a", "none")
    with pytest.raises(NotFound):
        await cluster.patch(CONFIG_MAPS, "team-a", "none", {"data": {"a": "1"}})


async def test_apply_makes_changes_takes_back_and_then_does_nothing(cluster):
    made = await cluster.apply(CONFIG_MAPS, config_map("one", {"a": "1", "b": "2"}))
    changed = await cluster.apply(CONFIG_MAPS, config_map("one", {"a": "3"}))
    assert changed["data"] == {"a": "3"}
    assert changed["metadata"]["uid"] == made["metadata"]["uid"]
    again = await cluster.apply(CONFIG_MAPS, config_map("one", {"a": "3"}))
    assert again["metadata"]["resourceVersion"] == changed["metadata"]["resourceVersion"]


async def test_a_merge_patch_removes_a_key_that_is_none(cluster):
    await cluster.create(CONFIG_MAPS, config_map("one", {"a": "1", "b": "2"}))
    patched = await cluster.patch(CONFIG_MAPS, "team-a", "one", {"data": {"a": None, "c": "3"}})
    assert patched["data"] == {"b": "2", "c": "3"}


async def test_a_gate_is_lifted_by_a_json_patch_that_knows_which(cluster):
    await cluster.create(PODS, pod("one", ["geotrain.io/gang"]))
    lift = [
        {"op": "test", "path": "/spec/schedulingGates/0/name", "value": "geotrain.io/gang"},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
    ]
    lifted = await cluster.patch(PODS, "team-a", "one", lift)
    assert not lifted["spec"].get("schedulingGates")
    with pytest.raises(Invalid):
        await cluster.patch(PODS, "team-a", "one", lift)


async def test_status_is_a_subresource_of_its_own(cluster):
    await cluster.create(PODS, pod("one"))
    running = {"status": {"phase": "Running", "podIP": "10.0.0.7"}}
    ignored = await cluster.patch(PODS, "team-a", "one", running)
    assert "podIP" not in ignored.get("status", {})
    patched = await cluster.patch(PODS, "team-a", "one", running, subresource="status")
    assert patched["status"]["podIP"] == "10.0.0.7"


async def test_a_patch_for_another_uid_changes_nothing(cluster):
    await cluster.create(CONFIG_MAPS, config_map("one", {"a": "1"}))
    with pytest.raises(Invalid):
        await cluster.patch(
            *(CONFIG_MAPS, "team-a", "one"),
            {"metadata": {"uid": "somebody-else"}, "data": {"a": "2"}},
        )
    assert (await cluster.get(CONFIG_MAPS, "team-a", "one"))["data"] == {"a": "1"}


async def test_a_merge_patch_of_an_older_version_or_of_a_namesake_is_a_conflict(cluster):
    made = await cluster.create(CONFIG_MAPS, config_map("one", {"a": "1"}))
    await cluster.patch(CONFIG_MAPS, "team-a", "one", {"data": {"a": "2"}})
    with pytest.raises(Conflict):
        await cluster.patch(CONFIG_MAPS, "team-a", "one", {**version_of(made), "data": {"a": "3"}})
    before = await cluster.get(CONFIG_MAPS, "team-a", "one")
    await cluster.delete(CONFIG_MAPS, "team-a", "one")
    await cluster.create(CONFIG_MAPS, config_map("one", {"a": "theirs"}))
    with pytest.raises(Conflict):
        await cluster.patch(
            CONFIG_MAPS, "team-a", "one", {**version_of(before), "data": {"a": "3"}}
        )
    now = await cluster.get(CONFIG_MAPS, "team-a", "one")
    assert now["data"] == {"a": "theirs"}
    await cluster.patch(CONFIG_MAPS, "team-a", "one", {**version_of(now), "data": {"a": "4"}})
    assert (await cluster.get(CONFIG_MAPS, "team-a", "one"))["data"] == {"a": "4"}


def version_of(manifest):
    kept = {key: manifest["metadata"][key] for key in ("uid", "resourceVersion")}
    return {"metadata": kept}


async def test_an_apply_for_another_uid_changes_nothing(cluster):
    await cluster.create(CONFIG_MAPS, config_map("one", {"a": "1"}))
    other = config_map("one", {"a": "2"})
    other["metadata"]["uid"] = "3c1f4e0a-0000-4000-8000-000000000000"
    with pytest.raises(Invalid):
        await cluster.apply(CONFIG_MAPS, other)
    assert (await cluster.get(CONFIG_MAPS, "team-a", "one"))["data"] == {"a": "1"}


async def test_an_apply_with_a_uid_makes_nothing_new(cluster):
    gone = config_map("gone", {"a": "2"})
    gone["metadata"]["uid"] = "3c1f4e0a-0000-4000-8000-000000000000"
    with pytest.raises(Conflict):
        await cluster.apply(CONFIG_MAPS, gone)
    with pytest.raises(NotFound):
        await cluster.get(CONFIG_MAPS, "team-a", "gone")


async def test_a_gate_is_lifted_of_the_meant_pod_only(cluster):
    await cluster.create(PODS, pod("one", ["geotrain.io/gang"]))
    lift = [
        {"op": "test", "path": "/metadata/uid", "value": "somebody-else"},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
    ]
    with pytest.raises(Invalid):
        await cluster.patch(PODS, "team-a", "one", lift)
    assert (await cluster.get(PODS, "team-a", "one"))["spec"]["schedulingGates"]


async def test_a_watch_tells_that_an_object_lost_the_label_that_it_selects(cluster):
    await cluster.create(CONFIG_MAPS, config_map("one", labels={"w": "y", "job": "gpt"}))
    changes = cluster.watch(CONFIG_MAPS, "team-a", "w=y")
    assert told(await anext(changes)) == ("ADDED", "one")
    await anext(changes)
    await cluster.patch(CONFIG_MAPS, "team-a", "one", {"metadata": {"labels": {"w": None}}})
    lost = await asyncio.wait_for(anext(changes), 5)
    assert told(lost) == ("DELETED", "one")
    assert lost.object["metadata"]["labels"]["job"] == "gpt"
    await cluster.patch(CONFIG_MAPS, "team-a", "one", {"metadata": {"labels": {"w": "y"}}})
    assert told(await asyncio.wait_for(anext(changes), 5)) == ("ADDED", "one")
    await changes.aclose()


async def test_a_deletion_spares_a_namesake_of_another_uid(cluster):
    made = await cluster.create(CONFIG_MAPS, config_map("one"))
    with pytest.raises(Conflict):
        await cluster.delete(CONFIG_MAPS, "team-a", "one", uid="somebody-else")
    await cluster.delete(CONFIG_MAPS, "team-a", "one", uid=made["metadata"]["uid"])
    with pytest.raises(NotFound):
        await cluster.get(CONFIG_MAPS, "team-a", "one")


async def test_an_object_with_a_finalizer_waits_for_it(cluster):
    held = config_map("held")
    held["metadata"]["finalizers"] = ["geotrain.io/cleanup"]
    await cluster.create(CONFIG_MAPS, held)
    await cluster.delete(CONFIG_MAPS, "team-a", "held")
    waiting = await cluster.get(CONFIG_MAPS, "team-a", "held")
    assert waiting["metadata"]["deletionTimestamp"]
    await cluster.patch(CONFIG_MAPS, "team-a", "held", {"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        await cluster.get(CONFIG_MAPS, "team-a", "held")


async def test_lists_select_by_label_and_name_the_kind(cluster):
    await cluster.create(CONFIG_MAPS, config_map("one", labels={"team": "red"}))
    await cluster.create(CONFIG_MAPS, config_map("two", labels={"team": "blue"}))
    found = await cluster.list(CONFIG_MAPS, "team-a", "team=red")
    assert [(o["kind"], o["metadata"]["name"]) for o in found] == [("ConfigMap", "one")]
    assert len(await cluster.list(CONFIG_MAPS, "", "team")) == 2


async def test_one_object_is_found_by_its_name_among_others(cluster):
    made = await cluster.create(CONFIG_MAPS, config_map("one", {"a": "1"}))
    await cluster.create(CONFIG_MAPS, config_map("one-more"))
    found = await cluster.find(CONFIG_MAPS, "team-a", "one")
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    assert (found["kind"], found["data"]) == ("ConfigMap", {"a": "1"})
    assert await cluster.find(CONFIG_MAPS, "team-a", "on") is None
    assert await cluster.find(CONFIG_MAPS, "team-b", "one") is None


async def test_a_long_list_comes_whole(cluster, monkeypatch):
    monkeypatch.setattr("geotrain.adapters.cluster._PAGE", 3)
    for number in range(8):
        await cluster.create(CONFIG_MAPS, config_map(f"m{number}", labels={"many": "yes"}))
    found = await cluster.list(CONFIG_MAPS, "team-a", "many=yes")
    assert [o["metadata"]["name"] for o in found] == [f"m{n}" for n in range(8)]


async def test_a_watch_lists_first_and_then_tells_changes(cluster):
    await cluster.create(CONFIG_MAPS, config_map("one", labels={"w": "y"}))
    changes = cluster.watch(CONFIG_MAPS, "team-a", "w=y")
    assert told(await anext(changes)) == ("ADDED", "one")
    assert await anext(changes) == Change("SYNCED", {}, frozenset({("team-a", "one")}))
    await cluster.create(CONFIG_MAPS, config_map("two", labels={"w": "y"}))
    assert told(await anext(changes)) == ("ADDED", "two")
    await cluster.patch(CONFIG_MAPS, "team-a", "two", {"data": {"a": "1"}})
    assert told(await anext(changes)) == ("MODIFIED", "two")
    await cluster.delete(CONFIG_MAPS, "team-a", "two")
    assert told(await asyncio.wait_for(anext(changes), 5)) == ("DELETED", "two")
    await changes.aclose()


async def test_a_pod_that_does_not_answer_is_an_error(cluster):
    await cluster.create(PODS, pod("one"))
    with pytest.raises(ClusterError):
        await cluster.pod_proxy_get("team-a", "one", 15003, "status")


def told(change: Change):
    return change.type, change.object["metadata"]["name"]
