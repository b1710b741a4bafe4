import json
from dataclasses import replace
from typing import Any

import pytest

from geotrain.errors import InputError
from geotrain.roles.sidecar.network import Flow, Network, Peer, parse
from geotrain.roles.sidecar.routes import addresses, route
from geotrain.shaping.windows import Turn

DOCUMENT: dict[str, Any] = {
    "job": "team-a/gpt",
    "dataCenter": "west",
    "revision": "r1",
    "period": 1.64,
    "perPodRate": 5e7,
    "connectionWindow": 16300,
    "localCidrs": ["10.1.0.0/16"],
    "remoteCidrs": {"east": ["10.2.0.0/16"]},
    "ranks": {
        str(r): {
            "address": f"gpt-r{r}.gpt.team-a.svc",
            "dataCenter": "west" if r < 4 else "east",
            "stage": r // 2,
            "replica": r % 2,
        }
        for r in range(6)
    },
    "firstAction": {"0": 0.0, "2": 0.012},
    "flows": [
        {
            "id": 1, "source": 2, "target": 4, "mates": [3],
            "connections": 3, "rate": 5e7, "idleRate": 5e6,
        },
        {
            "id": 2, "source": 4, "target": 2, "mates": [5],
            "connections": 2, "rate": 5e7, "idleRate": 5e6,
        },
    ],
    "windows": [{"flow": 1, "offset": 0.1, "length": 0.08, "rate": 5e7}],
    "bubbles": {"2": [[0.01, 0.12]]},
}  # fmt: skip


def document(**changes: Any) -> str:
    return json.dumps({**DOCUMENT, **changes})


NETWORK = parse(document())


def test_what_the_controller_writes_is_read_whole() -> None:
    assert NETWORK.job == "team-a/gpt"
    assert NETWORK.pod_rate == 5e7
    assert NETWORK.ranks[5] == Peer("gpt-r5.gpt.team-a.svc", "east", 2, 1)
    assert NETWORK.flow(2, 4) == Flow(1, 2, 4, (3,), 3, 5e7, 5e6)
    assert NETWORK.flow(2, 5) is None
    assert NETWORK.windows == (Turn(1, 0.1, 0.08, 5e7),)
    assert NETWORK.bubbles == {2: ((0.01, 0.12),)}
    assert NETWORK.first_action[2] == 0.012
    assert NETWORK.cidrs == ("10.2.0.0/16",)


def test_addresses_belong_to_data_centres() -> None:
    assert NETWORK.data_center_of("10.2.3.4") == "east"
    assert NETWORK.data_center_of("10.1.3.4") is None
    assert NETWORK.is_local("10.1.3.4")
    assert not NETWORK.is_local("10.2.3.4")


def test_flows_leave_through_their_source_and_its_mates() -> None:
    assert [f.id for f in NETWORK.flows_through(3)] == [1]
    assert NETWORK.flows_through(0) == ()


def test_mates_share_a_cell_and_directions_are_known() -> None:
    flow = NETWORK.flow(2, 4)
    assert flow is not None
    mate = replace(flow, id=2, source=3, target=5, mates=(2,))
    assert NETWORK.cell(flow) == NETWORK.cell(mate) == ((2, 3), NETWORK.ranks[5].stage)
    stranger = replace(flow, target=77)
    assert NETWORK.cell(stranger) == ((2, 3), 77)
    assert not NETWORK.is_forward(stranger)


def test_a_null_rate_is_none() -> None:
    assert parse(document(perPodRate=None)).pod_rate is None
    assert parse(document(connectionWindow=None)).window is None


def test_little_is_needed() -> None:
    least = {k: DOCUMENT[k] for k in ("job", "dataCenter", "remoteCidrs", "ranks")}
    assert parse(json.dumps(least)).flows == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "no JSON"),
        ("[]", "network.json: job is missing"),
        (document(job=3), "job is 3; give a string"),
        (document(perPodRate=0), "perPodRate is 0; give a number above 0"),
        (document(period=True), "period is True; give a number"),
        (document(localCidrs=["10.1"]), r"localCidrs\[0\].*give a network like"),
        (document(ranks={"x": DOCUMENT["ranks"]["0"]}), "'x' is no rank"),
        (document(ranks={"0": {}}), r"ranks\.0: address is missing"),
        (document(flows=[{**DOCUMENT["flows"][0], "connections": 0}]), "give 1 or more"),
        (document(windows=[{**DOCUMENT["windows"][0], "length": -1}]), "length is -1"),
        (document(bubbles={"0": [[2, 1]]}), r"bubbles\.0\[0\] is \[2, 1\]; give \[begin, end\]"),
        (document(bubbles={"0": [[1]]}), r"give \[begin, end\]"),
    ],
)
def test_a_fault_is_named_by_its_place(text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        parse(text)


def test_a_flow_goes_straight_and_over_each_mate() -> None:
    found = route(NETWORK, 2, 4)
    assert found is not None
    assert (found.flow, found.reverse, found.lanes) == (1, 2, 6)
    assert found.paths == ((4,), (3, 5, 4)) * 3


def test_the_other_end_may_open_the_connection() -> None:
    found = route(NETWORK, 4, 2)
    assert found is not None
    assert (found.flow, found.reverse) == (2, 1)
    assert set(found.paths) == {(2,), (5, 3, 2)}


def test_a_flow_towards_us_is_carried_when_there_is_none_from_us() -> None:
    only = parse(document(flows=DOCUMENT["flows"][:1]))
    found = route(only, 4, 2)
    assert found is not None
    assert (found.flow, found.reverse) == (0, 1)
    assert set(found.paths) == {(2,), (5, 3, 2)}


def test_ranks_without_a_flow_have_no_route() -> None:
    assert route(NETWORK, 0, 5) is None


@pytest.mark.parametrize(
    ("mates", "paths"),
    [
        ([0], {(4,), (0, 4)}),  # a stage before ours lends its path: the target is its counterpart
        ([99], {(4,)}),
        ([2], {(4,)}),
    ],
)
def test_mates_that_lead_elsewhere(mates: list[int], paths: set[tuple[int, ...]]) -> None:
    flows = [{**DOCUMENT["flows"][0], "mates": mates}]
    found = route(parse(document(flows=flows)), 2, 4)
    assert found is not None
    assert set(found.paths) == paths


def test_a_path_waits_until_all_its_addresses_are_known() -> None:
    assert addresses((3, 4), {3: "a"}) is None
    assert addresses((3, 4), {3: "a", 4: "b"}) == ("a", "b")


def test_an_empty_network_has_nothing() -> None:
    assert Network("a/b", "west").cidrs == ()


def test_both_families_are_read() -> None:
    found = parse(document(remoteCidrs={"east": ["10.2.0.0/16", "fd00:2::/48"]}))
    assert found.cidrs == ("10.2.0.0/16", "fd00:2::/48")
    assert found.data_center_of("fd00:2::7") == "east"
    assert found.data_center_of("fd00:3::7") is None
    assert not found.is_local("fd00:2::7")


@pytest.mark.parametrize("cidrs", [[], ["fd00:2::/48"]])
def test_a_data_center_that_could_not_be_intercepted_is_refused(cidrs: list[str]) -> None:
    with pytest.raises(InputError, match=r"remoteCidrs\.east holds .*give the IPv4 networks"):
        parse(document(remoteCidrs={"east": cidrs}))
