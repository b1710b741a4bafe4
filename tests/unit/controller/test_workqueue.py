"""The queue: each key once, none twice at a time, the broken ones slower."""

import asyncio
import contextlib
import logging

import pytest

from geotrain.errors import Conflict, TooManyRequests, Unreachable
from geotrain.roles.controller.workqueue import WorkQueue


class Worker:
    def __init__(self):
        self.done = []
        self.faults = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.running = 0

    async def __call__(self, key):
        assert self.running == 0 or key not in self.done[-1:]
        self.running += 1
        await self.gate.wait()
        self.running -= 1
        self.done.append(key)
        if self.faults:
            raise self.faults.pop(0)
        return 0.01 if key == "again" and self.done.count("again") < 3 else None


@contextlib.asynccontextmanager
async def queue(worker, workers=2):
    made = WorkQueue(worker)
    task = asyncio.create_task(made.run(workers))
    yield made
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def until(check):
    async with asyncio.timeout(20):
        while not check():
            await asyncio.sleep(0.005)


async def test_many_changes_make_one_reconcile():
    worker = Worker()
    async with queue(worker) as made:
        for _ in range(5):
            made.add("a")
        await until(lambda: worker.done)
        await asyncio.sleep(0.02)
    assert worker.done == ["a"]


async def test_a_change_during_a_reconcile_makes_another_after_it():
    worker = Worker()
    worker.gate.clear()
    async with queue(worker) as made:
        made.add("a")
        await until(lambda: worker.running == 1)
        made.add("a")
        made.add_after("a", 0.0)
        await asyncio.sleep(0.01)
        assert worker.running == 1
        worker.gate.set()
        await until(lambda: worker.done == ["a", "a"])


async def test_a_key_comes_back_after_the_delay_that_it_asked_for():
    worker = Worker()
    async with queue(worker) as made:
        made.add("again")
        await until(lambda: worker.done == ["again"] * 3)


async def test_a_delayed_key_that_is_added_comes_at_once_and_only_once():
    worker = Worker()
    async with queue(worker) as made:
        made.add_after("a", 0.05)
        made.add("a")
        await until(lambda: worker.done)
        await asyncio.sleep(0.1)
    assert worker.done == ["a"]


@pytest.mark.parametrize(
    "fault", [Unreachable("away"), TooManyRequests("busy", 0.01), ValueError("a bug")], ids=repr
)
async def test_a_fault_is_told_in_the_log_and_tried_again(fault, caplog):
    worker = Worker()
    worker.faults = [fault]
    with caplog.at_level(logging.WARNING):
        async with queue(worker) as made:
            made.add("a")
            await until(lambda: len(worker.done) == 2)
    assert len(caplog.records) == 1
    assert bool(caplog.records[0].exc_info) == isinstance(fault, ValueError)


async def test_what_waits_when_the_queue_ends_is_dropped():
    worker = Worker()
    async with queue(worker) as made:
        made.add_after("a", 0.01)
        await asyncio.sleep(0)
    await asyncio.sleep(0.03)
    assert worker.done == []


async def test_a_write_that_came_too_late_is_tried_again_without_a_warning(caplog):
    worker = Worker()
    worker.faults = [Conflict("the object has been modified")]
    with caplog.at_level(logging.INFO):
        async with queue(worker) as made:
            made.add("a")
            await until(lambda: len(worker.done) == 2)
    assert [record.levelno for record in caplog.records] == [logging.INFO]
