"""How many connections a path gets, and what follows where it gets fewer than it should."""

import dataclasses

import pytest

from geotrain.model.plan import Placement
from geotrain.model.topology import DataCenter, Topology, WanLink
from geotrain.model.workload import Workload
from geotrain.planning.costs.connections import (
    MOST_CONNECTIONS,
    NCCL_SOCKETS,
    NCCL_THREADS,
    connections,
    cut,
    cuts,
    nccl_variables,
    wished,
)
from geotrain.planning.schedule import costs
from support import planning

NARROW = WanLink("a", "b", 5e9, 0.073, window=131_072)  # 14.4 Mbit/s a connection
TINY = dataclasses.replace(NARROW, window=1)
OPEN = dataclasses.replace(NARROW, window=None)


@pytest.mark.parametrize(
    ("link", "wanted", "most", "found"),
    [
        (NARROW, None, MOST_CONNECTIONS, 512),
        (NARROW, None, 10_000, 698),
        (NARROW, None, NCCL_SOCKETS, 64),
        (NARROW, 12, NCCL_SOCKETS, 12),
        (NARROW, 65, NCCL_SOCKETS, 64),
        (TINY, None, MOST_CONNECTIONS, 512),
        (OPEN, None, NCCL_SOCKETS, 1),
    ],
)
def test_there_is_an_end_to_them(link, wanted, most, found):
    assert connections(link, wanted, most) == found


def test_a_workload_says_nothing_of_it_where_the_sidecar_carries():
    assert planning.workload().most_connections == MOST_CONNECTIONS


def test_the_rate_that_a_plan_counts_with_follows_from_what_is_left():
    lan = planning.topology({"a": 1}).lan("a")
    few, many = (
        costs.wan_hop(NARROW, lan, lan, 10**8, n, replicas=1, in_turns=False) for n in (64, 698)
    )
    assert few.rate == pytest.approx(64 * 131_072 * 8 / 0.073)
    assert many.rate == NARROW.capacity
    assert few.occupancy > 5 * many.occupancy


def test_what_a_path_lacks_is_said_with_its_reason_and_the_rate():
    assert cut(NARROW, None, 10_000) == ""
    assert cut(NARROW, 64, NCCL_SOCKETS) == ""
    assert cut(NARROW, None, NCCL_SOCKETS) == (
        "a to b: 64 connections a path (NCCL's most between two ranks) instead of 698: with a"
        " window of 131072 bytes over 73ms they carry 919.3M of 5G; raise the hosts' TCP buffers,"
        " and tcpWindow with them"
    )


def test_where_what_is_left_fills_the_path_only_the_number_is_said():
    assert cut(NARROW, None, MOST_CONNECTIONS) == (
        "a to b: 512 connections a path (the sidecar's most) instead of 698"
    )
    assert cut(OPEN, 100, NCCL_SOCKETS).endswith("instead of 100")


def test_each_direction_of_each_link_of_a_placement_is_looked_at():
    back = dataclasses.replace(TINY, source="b", target="a")
    topology = Topology(tuple(DataCenter(n, 8) for n in "abc"), (NARROW, back))
    workload: Workload = dataclasses.replace(planning.workload(), most_connections=64)
    told = list(cuts(topology, workload, Placement((("a", 1), ("b", 1), ("c", 1)), 1)))
    assert [each.partition(":")[0] for each in told] == ["a to b", "b to a"]
    assert list(cuts(topology, workload, Placement((("a", 2),), 1))) == []


@pytest.mark.parametrize("planned", range(2, 80))
def test_nccls_sockets_are_enough_and_no_more_than_it_takes(planned):
    found = nccl_variables(planned)
    threads, each = found["NCCL_SOCKET_NTHREADS"], found["NCCL_NSOCKS_PERTHREAD"]
    assert threads <= NCCL_THREADS
    assert min(planned, NCCL_SOCKETS) <= threads * each <= NCCL_SOCKETS


def test_nccl_is_left_alone_with_one_socket():
    assert nccl_variables(1) == nccl_variables(0) == {}


def test_a_window_of_a_byte_would_take_hundreds_of_thousands():
    assert wished(dataclasses.replace(TINY, capacity=27e6, round_trip=0.0455), None) == 307_126
