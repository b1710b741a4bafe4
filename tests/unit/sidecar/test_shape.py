from dataclasses import replace

import pytest

from geotrain.roles.sidecar.alignment import Alignment
from geotrain.roles.sidecar.network import Flow, Network, Peer
from geotrain.roles.sidecar.resolver import Resolver
from geotrain.roles.sidecar.shape import IDLE, Shaper
from geotrain.shaping.diff import DeleteQdisc, PutClass
from geotrain.shaping.tree import minor_of
from geotrain.shaping.windows import Turn
from support.htb import FakeHtb

M = 1e6
NETWORK = Network(
    "a/b",
    "west",
    period=1.0,
    pod_rate=50 * M,
    flows=(Flow(1, 0, 2, (1,), 4, 50 * M, 5 * M), Flow(2, 1, 3, (0,), 4, 50 * M, 5 * M)),
    windows=(Turn(1, 0.0, 0.4, 50 * M), Turn(2, 0.5, 0.4, 50 * M), Turn(9, 0.0, 1.0, M)),
    ranks={0: Peer("r0", "west", 0, 0), 2: Peer("r2", "east", 1, 0)},
)
RANKED = replace(NETWORK, ranks={**NETWORK.ranks, 3: Peer("r3", "east", 1, 1)})
ALIGNED = Alignment(1.0, 0.0).computing(100.0)
WINDOW = 2_500_000  # bytes: 0.4 s at 50 Mbit/s
SLACK = WINDOW // 10


def shaper(htb: FakeHtb | None) -> Shaper:
    made = Shaper(htb, lambda: {1: 123}, "" if htb else "no NET_ADMIN")
    made.update(RANKED, 0)
    return made


def begun(htb: FakeHtb) -> Shaper:
    """In an iteration that begins at 100 s."""
    made = shaper(htb)
    htb.counts = {minor_of(1): 0, minor_of(2): 0}
    made.iteration_begins(100.0)
    return made


def quanta(htb: FakeHtb) -> dict[int, int]:
    observed = htb.observe()
    assert observed is not None
    return {c.minor: c.quantum for c in observed.classes}


def owner(htb: FakeHtb) -> int:
    found = quanta(htb)
    return max((1, 2), key=lambda flow: found[minor_of(flow)])


def test_the_flow_whose_turn_it_is_is_served_most() -> None:
    htb = FakeHtb()
    made = begun(htb)
    assert made.follow(ALIGNED, 100.1) == pytest.approx(100.1 + 0.44)
    assert owner(htb) == 1
    htb.operations.clear()
    htb.counts[minor_of(1)] = WINDOW
    assert made.follow(ALIGNED, 100.5) == pytest.approx(100.5 + 0.04)
    assert htb.operations == []
    htb.counts[minor_of(1)] = WINDOW + SLACK
    made.follow(ALIGNED, 100.6)
    assert owner(htb) == 2
    assert [type(o) for o in htb.operations] == [PutClass, PutClass]
    assert made.is_shaping


def test_what_an_iteration_took_on_the_wire_measures_the_next() -> None:
    htb = FakeHtb()
    made = begun(htb)
    htb.counts[minor_of(1)] = round(1.2 * WINDOW)
    made.iteration_ends(101.0)
    made.iteration_begins(101.0)
    htb.counts[minor_of(1)] += round(1.2 * WINDOW)
    made.follow(ALIGNED, 101.5)
    assert owner(htb) == 1
    htb.counts[minor_of(1)] += round(1.2 * SLACK) + 2
    made.follow(ALIGNED, 101.6)
    assert owner(htb) == 2


def test_an_iteration_that_was_cut_short_measures_nothing() -> None:
    htb = FakeHtb()
    made = begun(htb)
    htb.counts[minor_of(1)] = WINDOW // 3
    made.iteration_ends(101.0)
    htb.counts[minor_of(1)] += WINDOW
    made.follow(ALIGNED, 101.5)
    assert owner(htb) == 1


def test_backward_flows_are_counted_from_the_next_beginning() -> None:
    """Their last messages may still run when a rank has ended its iteration."""
    htb = FakeHtb()
    made = Shaper(htb, dict)
    ranks = {rank: replace(peer, stage=1 - peer.stage) for rank, peer in RANKED.ranks.items()}
    backward = replace(RANKED, ranks=ranks)
    made.update(backward, 0)
    htb.counts = {minor_of(1): 0, minor_of(2): 0}
    made.iteration_begins(100.0)
    htb.counts[minor_of(1)] = WINDOW + SLACK
    made.iteration_ends(100.9)
    made.follow(ALIGNED, 100.95)
    assert owner(htb) == 2
    made.iteration_begins(101.0)
    made.follow(ALIGNED, 101.0)
    assert owner(htb) == 1


def test_without_signals_flows_share() -> None:
    htb = FakeHtb()
    made = shaper(htb)
    assert made.follow(Alignment(1.0, 0.0), 100.0) == 100.0 + IDLE
    assert quanta(htb)[minor_of(1)] == quanta(htb)[minor_of(2)]
    assert begun(htb).follow(Alignment(1.0, 0.0), 100.0) == 100.0 + IDLE


def test_what_an_earlier_sidecar_left_is_observed_first() -> None:
    htb = FakeHtb()
    shaper(htb).follow(ALIGNED, 100.1)
    htb.operations.clear()
    shaper(htb).follow(ALIGNED, 100.1)
    assert htb.operations == []


def test_bytes_are_booked_to_the_turn_in_which_they_ran() -> None:
    htb = FakeHtb()
    made = begun(htb)
    made.follow(ALIGNED, 100.0)
    htb.counts = {minor_of(1): 700_000, minor_of(2): 50_000, 3: 99}
    made.follow(ALIGNED, 100.1)
    assert made.ledger.accounts[1].in_window == 700_000
    assert made.ledger.accounts[2].against == 50_000  # the owner left nothing idle
    assert set(made.ledger.accounts) == {1, 2}


def test_a_kernel_that_refuses_is_a_problem_and_is_tried_again() -> None:
    htb = FakeHtb()
    made = shaper(htb)
    htb.fail_next["apply"] = "Operation not permitted"
    made.follow(ALIGNED, 100.1)
    assert made.problem == "Operation not permitted"
    assert not made.is_shaping
    made.follow(ALIGNED, 100.2)
    assert made.problem == ""
    htb.fail_next["sent"] = "No such device"
    made.book(100.2)
    assert made.problem == "No such device"
    made.follow(ALIGNED, 100.2)


def test_a_problem_that_lasts_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    htb = FakeHtb()
    made = shaper(htb)
    for moment in (100.1, 100.2):
        htb.fail_next["apply"] = "Operation not permitted"
        made.follow(ALIGNED, moment)
    assert [r.message for r in caplog.records] == [
        "the interface is not shaped: Operation not permitted"
    ]


def test_without_htb_the_payload_is_counted() -> None:
    made = shaper(None)
    made.follow(ALIGNED, 100.1)
    assert made.ledger.accounts[1].total == 123
    assert made.problem == "no NET_ADMIN"
    assert not made.is_shaping


def test_the_tree_can_be_taken_away() -> None:
    htb = FakeHtb()
    made = shaper(htb)
    made.follow(ALIGNED, 100.1)
    assert made.put(None) == 1
    assert htb.operations[-1] == DeleteQdisc()


async def test_names_are_asked_until_all_are_known_and_stay_known() -> None:
    answers: dict[str, str | None] = {"r0": "10.1.0.2", "r2": None}
    heard: list[dict[int, str]] = []

    async def lookup(name: str) -> str | None:
        return answers[name]

    resolver = Resolver(lambda known: heard.append(dict(known)), lookup)
    assert not await resolver.ask()
    resolver.update(NETWORK)
    assert not await resolver.ask()
    answers["r2"] = "10.2.0.2"
    assert await resolver.ask()
    answers["r0"] = None
    assert await resolver.ask()
    assert heard == [{0: "10.1.0.2"}, {0: "10.1.0.2", 2: "10.2.0.2"}]
    resolver.update(Network("a/b", "west"))
    assert resolver.known == {}
