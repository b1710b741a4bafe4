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
ALIGNED = Alignment(1.0, 0.0).computing(100.0)


def shaper(htb: FakeHtb | None) -> Shaper:
    made = Shaper(htb, lambda: {1: 123}, "" if htb else "no NET_ADMIN")
    made.update(NETWORK, 0)
    return made


def rates(htb: FakeHtb) -> dict[int, float]:
    observed = htb.observe()
    assert observed is not None
    return {c.minor: c.rate for c in observed.classes}


def test_the_owner_of_the_moment_gets_the_rate() -> None:
    htb = FakeHtb()
    made = shaper(htb)
    assert made.follow(ALIGNED, 100.1) == 100.4
    assert rates(htb)[minor_of(1)] > 40 * M
    htb.operations.clear()
    assert made.follow(ALIGNED, 100.42) == 100.5  # the gap belongs to flow 1
    assert htb.operations == []
    made.follow(ALIGNED, 100.6)
    assert rates(htb)[minor_of(2)] > 40 * M
    assert [type(o) for o in htb.operations] == [PutClass, PutClass]
    assert made.is_shaping


def test_without_signals_flows_share() -> None:
    htb = FakeHtb()
    made = shaper(htb)
    assert made.follow(Alignment(1.0, 0.0), 100.0) == 100.0 + IDLE
    assert rates(htb)[minor_of(1)] == rates(htb)[minor_of(2)]


def test_what_an_earlier_sidecar_left_is_observed_first() -> None:
    htb = FakeHtb()
    shaper(htb).follow(ALIGNED, 100.1)
    htb.operations.clear()
    shaper(htb).follow(ALIGNED, 100.1)
    assert htb.operations == []


def test_bytes_are_booked_to_the_step_in_which_they_ran() -> None:
    htb = FakeHtb()
    made = shaper(htb)
    made.follow(ALIGNED, 100.1)
    htb.counts = {minor_of(1): 70, minor_of(2): 5, 3: 99}
    made.follow(ALIGNED, 100.45)
    assert made.ledger.accounts[1].in_window == 70
    assert made.ledger.accounts[2].against == 5
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
    made.book()
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
