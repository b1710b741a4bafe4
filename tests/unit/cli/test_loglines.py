"""Logs of many ranks as one: ranks, prefixes, times, and the order of lines."""

import pytest

from geotrain.cli import loglines
from geotrain.cli.loglines import Entry, Source
from geotrain.errors import InputError
from support import hubs

WEST = Source("dc-west", 0, 0, "gpt-r0", "u0", "trainer")
EAST = Source("dc-central", 10, 0, "gpt-r10", "u10", "trainer")


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [([], None), (["0"], {0}), (["0-2,7"], {0, 1, 2, 7}), (["1", "3-3"], {1, 3})],
)
def test_ranks(texts, wanted):
    assert loglines.ranks(texts) == wanted


@pytest.mark.parametrize("text", ["", "x", "-1", "3-1", "1,", "1-2-3", "٤"])
def test_what_is_no_rank_is_refused(text):
    with pytest.raises(InputError, match="is no rank; write one like 3"):
        loglines.ranks([text])


def pod(state=None, **spec):
    manifest = hubs.pod("uid", "dc-west", 3, "w1", attempt=2)
    manifest["spec"] |= spec
    if state is not None:
        manifest["status"] = {"containerStatuses": [{"name": "trainer", "state": state}]}
    return manifest


@pytest.mark.parametrize(
    ("manifest", "waiting", "ended"),
    [
        (pod({"running": {}}), "", False),
        (pod({"terminated": {"exitCode": 0}}), "", True),
        (pod(), "ContainerCreating", False),
        (pod({"waiting": {"reason": "ErrImagePull", "message": "no such image"}}),
         "ErrImagePull: no such image", False),
        (pod({"waiting": {"reason": "PodInitializing"}}), "PodInitializing", False),
        (pod(nodeName=""), "it is not scheduled yet", False),
        (pod(schedulingGates=[{"name": "geotrain.io/gang"}]),
         "it is held back until the whole gang fits", False),
    ],
)  # fmt: skip
def test_the_state_of_a_log(manifest, waiting, ended):
    found = loglines.source("dc-west", manifest, "")
    assert (found.rank, found.attempt, found.container) == (3, 2, "trainer")
    assert (found.waiting, found.ended) == (waiting, ended)


def test_a_container_that_is_not_there_has_no_log():
    assert loglines.source("dc-west", pod(), "other") is None
    assert loglines.source("dc-west", pod(), "geotrain-sidecar").container == "geotrain-sidecar"
    assert loglines.containers([pod(), pod(initContainers=None)]) == ["geotrain-sidecar", "trainer"]


def test_prefixes_have_one_width():
    assert loglines.prefixes([WEST, EAST], named=False) == {
        WEST.key: "[r0 dc-west]     ",
        EAST.key: "[r10 dc-central] ",
    }
    assert loglines.prefixes([WEST], named=True) == {WEST.key: "[r0 dc-west trainer] "}
    assert loglines.prefixes([], named=False) == {}


def test_what_is_asked_of_the_server():
    plain = loglines.query("c", tail=None, since=None, previous=False)
    assert plain == {"container": "c", "timestamps": "true"}
    full = loglines.query("c", tail=0, since="1m30s", previous=True)
    assert (full["tailLines"], full["sinceSeconds"], full["previous"]) == ("0", "90", "true")
    assert loglines.query("c", tail=None, since="1ms", previous=False)["sinceSeconds"] == "1"
    with pytest.raises(InputError, match="--since: 'soon' is not a duration"):
        loglines.query("c", tail=None, since="soon", previous=False)


def test_a_stream_that_was_cut_goes_on_where_it_was():
    wanted = {"container": "c", "tailLines": "5", "sinceSeconds": "9", "follow": "true"}
    assert loglines.resumed(wanted, "") == wanted
    assert loglines.resumed(wanted, "2026-01-01T00:00:01.500000000Z") == {
        "container": "c", "follow": "true", "sinceTime": "2026-01-01T00:00:01Z",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "time", "text"),
    [
        (b"2026-01-01T00:00:01.5Z step 1", "2026-01-01T00:00:01.500000000Z", "step 1"),
        (b"2026-01-01T00:00:01Z a  b\r", "2026-01-01T00:00:01.000000000Z", "a  b"),
        (b"2026-01-01T00:00:01Z", "2026-01-01T00:00:01.000000000Z", ""),
        (b"unable to retrieve logs", "", "unable to retrieve logs"),
        (b"\xff", "", "\ufffd"),
    ],
)
def test_the_time_is_taken_off_a_line(line, time, text):
    assert loglines.entry(line) == Entry(time, text)


async def stream(*entries):
    for each in entries:
        yield Entry(*each)


async def test_lines_come_in_order_of_their_times_and_keep_their_own():
    west = stream(("1", "a"), ("4", "b"), ("2", "c"), ("", "d"))
    east = stream(("2", "x"), ("3", "y"), ("5", "z"))
    found = [entry.text async for _, entry in loglines.merged({WEST: west, EAST: east})]
    assert found == ["a", "x", "y", "b", "c", "d", "z"]


async def test_nothing_is_merged_to_nothing():
    assert [each async for each in loglines.merged({WEST: stream()})] == []
