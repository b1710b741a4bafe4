import asyncio
from collections import deque

import pytest

from geotrain.api.objects import NODES, PODS, Change
from geotrain.errors import Unreachable
from geotrain.roles.extender.mirror import Mirror
from support.scheduling import node_manifest, prefill_manifest, rank_manifest

SYNCED = Change("SYNCED", {})
FOREVER = object()


def added(manifest):
    return Change("ADDED", manifest)


def deleted(manifest):
    return Change("DELETED", manifest)


class Script:
    """A cluster whose watches play given rounds: changes, then an error, the end, or silence.

    When there are no more rounds, it waits for ever.
    """

    def __init__(self, nodes, pods):
        self.rounds = {NODES: deque(nodes), PODS: deque(pods)}
        self.ended = 0
        self.idle = {NODES: asyncio.Event(), PODS: asyncio.Event()}

    async def watch(self, resource, namespace="", selector=""):
        try:
            for change in self.rounds[resource].popleft() if self.rounds[resource] else [FOREVER]:
                if change is FOREVER:
                    self.idle[resource].set()
                    await asyncio.Event().wait()
                if isinstance(change, Exception):
                    raise change
                yield change
        finally:
            self.ended += 1


class Plain:
    """A watch that is an iterator and no generator."""

    def __init__(self, script):
        self.script = script

    def watch(self, resource):
        return Iterator(self.script.watch(resource))


class Iterator:
    def __init__(self, generator):
        self.generator = generator

    def __aiter__(self):
        return self

    async def __anext__(self):
        return await anext(self.generator)


async def played(script, cluster=None):
    """The mirror after the script has come to its silences."""
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    mirror = Mirror(cluster or script, sleep=sleep)
    task = asyncio.create_task(mirror.follow())
    await asyncio.gather(*(event.wait() for event in script.idle.values()))
    return mirror, task, pauses


async def stop(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_both_lists_make_it_synced():
    pod = rank_manifest(0, node="a")
    script = Script([[added(node_manifest("a")), SYNCED, FOREVER]], [[added(pod), FOREVER]])
    mirror, task, _ = await played(script)
    assert not mirror.synced
    assert list(mirror.occupancy.nodes) == ["a"]
    await stop(task)
    assert script.ended == 2

    script = Script([[SYNCED, FOREVER]], [[added(pod), SYNCED, FOREVER]])
    mirror, task, _ = await played(script)
    assert mirror.synced
    assert mirror.occupancy.pod(("team-a", "gpt-r0")) is not None
    await stop(task)
    assert not mirror.synced


async def test_changes_come_in():
    a, b = node_manifest("a"), node_manifest("b")
    one, two = rank_manifest(0, node="a"), rank_manifest(1, node="a")
    script = Script(
        [[added(a), SYNCED, added(b), deleted(a), FOREVER]],
        [[added(one), SYNCED, added(two), deleted(one), FOREVER]],
    )
    mirror, task, _ = await played(script)
    assert list(mirror.occupancy.nodes) == ["b"]
    assert [pod.name for pod in mirror.occupancy.pods_on("a")] == ["gpt-r1"]
    await stop(task)


async def test_a_broken_watch_is_not_trusted_until_it_is_listed_again(caplog):
    a, b = node_manifest("a"), node_manifest("b")
    script = Script(
        [[added(a), added(b), SYNCED, Unreachable("no answer")], [added(b), FOREVER]],
        [[SYNCED, FOREVER]],
    )
    mirror, task, pauses = await played(script)
    assert not mirror.synced
    assert pauses == [1.0]
    assert "the watch of nodes broke: no answer" in caplog.text
    await stop(task)


async def test_what_vanished_while_the_watch_was_broken_is_forgotten():
    one, two = rank_manifest(0, node="a"), rank_manifest(1, node="a")
    script = Script(
        [[SYNCED, FOREVER]],
        [
            [added(one), added(two), SYNCED, Unreachable("no answer")],
            [added(two), SYNCED, FOREVER],
        ],
    )
    mirror, task, _ = await played(script)
    assert mirror.synced
    assert [pod.name for pod in mirror.occupancy.pods_on("a")] == ["gpt-r1"]
    await stop(task)


async def test_a_second_list_in_one_watch_starts_over():
    one, two = prefill_manifest(0, node="a"), prefill_manifest(1, node="a")
    script = Script(
        [[SYNCED, FOREVER]],
        [
            [SYNCED, added(one), added(two), added(two), SYNCED, FOREVER],
            [added(two), SYNCED, FOREVER],
        ],
    )
    mirror, task, _ = await played(script)
    assert [pod.name for pod in mirror.occupancy.pods_on("a")] == ["pool-dc-east-1"]
    await stop(task)


async def test_a_watch_that_ends_is_taken_up_again():
    script = Script([[SYNCED], [SYNCED, FOREVER]], [[SYNCED, FOREVER]])
    mirror, task, pauses = await played(script)
    assert mirror.synced
    assert pauses == [1.0]
    await stop(task)


async def test_an_object_that_cannot_be_read_is_left_out(caplog):
    good, bad = node_manifest("a"), node_manifest("a", cpu="many")
    script = Script([[added(good), SYNCED, added(bad), FOREVER]], [[SYNCED, FOREVER]])
    mirror, task, _ = await played(script)
    assert not mirror.occupancy.nodes
    assert "nodes /a cannot be read and is left out: 'many' is not a quantity of cpu" in caplog.text
    await stop(task)


async def test_any_iterator_will_do():
    script = Script([[SYNCED, FOREVER]], [[SYNCED, FOREVER]])
    mirror, task, _ = await played(script, Plain(script))
    assert mirror.synced
    await stop(task)
