"""Alignment, bubbles, ledger, signals, status: everything that is derived from the signals."""

import json
import math
from dataclasses import replace

import pytest

from geotrain.api.reasons import Reason
from geotrain.gate import State
from geotrain.roles.sidecar import bubbles, signals, status
from geotrain.roles.sidecar.alignment import Alignment
from geotrain.roles.sidecar.bubbles import DONE, Activity
from geotrain.roles.sidecar.intercept import ruleset
from geotrain.roles.sidecar.ledger import Ledger
from geotrain.shaping.windows import Owner

BEFORE = Alignment(period=2.0, first_action=0.25)


def test_the_first_action_of_an_iteration_aligns_it() -> None:
    begun = BEFORE.begun(3, 10.0)
    assert begun.base is None
    first = begun.computing(10.25)
    assert first.base == 10.0
    assert first.computing(11.0).base == 10.0
    assert first.begun(4, 12.0).computing(12.3).base == pytest.approx(12.05)
    assert first.waiting(10.5).last_signal == 10.5


def test_longer_iterations_stretch_the_plan_little_by_little() -> None:
    after = BEFORE.computing(0.25).finished(0, 2.2, 2.2)
    assert after.stretch == pytest.approx(1.03)
    assert after.seconds == 2.2
    assert after.computing(2.5).base == pytest.approx(2.5 - 0.25 * 1.03)
    assert after.finished(1, 60.0, 62.0).stretch == pytest.approx(1.03)  # a checkpoint
    assert Alignment(0.0, 0.0).finished(1, 1.0, 1.0).stretch == 1.0


def test_another_plan_starts_at_its_own_pace() -> None:
    after = BEFORE.computing(0.25).finished(0, 2.2, 2.2)
    assert after.with_plan(2.0, 0.25) is after
    assert after.with_plan(3.0, 0.25).stretch == 1.0
    assert after.with_plan(3.0, 0.25).base == after.base


def test_silence_ends_the_alignment() -> None:
    aligned = BEFORE.computing(0.25)
    assert not BEFORE.is_aligned(0.0)
    assert aligned.is_aligned(10.0)
    assert not aligned.is_aligned(10.5)
    assert aligned.finished(0, 4.0, 4.0).is_aligned(23.0)


PLANNED = ((0.5, 0.75), (1.5, 2.0))
ALIGNED = BEFORE.computing(10.25)


def test_coming_bubbles_are_those_of_this_iteration_and_the_next() -> None:
    page = bubbles.page(Activity(State.COMPUTING), ALIGNED, PLANNED, 10.6)
    assert page.state is State.COMPUTING
    assert page.idle_until is None
    assert page.bubbles == ((10.5, 10.75), (11.5, 12.0), (12.5, 12.75), (13.5, 14.0))
    assert page.period == 2.0


@pytest.mark.parametrize(
    ("until", "now", "expected"),
    [(10.7, 10.6, 10.7), (None, 10.6, 10.75), (None, 10.8, None)],
)
def test_idle_until_what_the_trainer_says_or_else_the_plan(
    until: float | None, now: float, expected: float | None
) -> None:
    page = bubbles.page(Activity(State.IDLE, until), ALIGNED, PLANNED, now)
    assert page.idle_until == expected


def test_nothing_is_foretold_without_alignment() -> None:
    assert bubbles.page(Activity(State.IDLE), BEFORE, PLANNED, 10.6).bubbles == ()
    assert bubbles.upcoming(replace(ALIGNED, period=0.0), PLANNED, 10.6) == ()


def test_after_training_the_gpu_is_free_for_good() -> None:
    assert bubbles.page(DONE, BEFORE, PLANNED, 10.6).idle_until == math.inf


def test_stretched_iterations_stretch_their_bubbles() -> None:
    slow = replace(ALIGNED, stretch=1.5)
    assert bubbles.upcoming(slow, PLANNED, 10.1)[0] == (10.75, 11.125)


@pytest.mark.parametrize(
    ("message", "signal"),
    [
        ({"event": "iteration", "iteration": 7, "time": 1}, signals.Begun(7, 1.0)),
        (
            {"event": "compute", "action": "2F0", "time": 1, "seconds": 0.5},
            signals.Computing("2F0", 1.0, 0.5),
        ),
        ({"event": "wait", "time": 1, "until": None}, signals.Waiting(1.0, None)),
        ({"event": "wait", "time": 1, "until": 2}, signals.Waiting(1.0, 2.0)),
        (
            {"event": "finished", "iteration": 7, "time": 2, "seconds": 1, "loss": None},
            signals.Finished(7, 2.0, 1.0, None),
        ),
        (
            {"event": "finished", "iteration": 7, "time": 2, "seconds": 1, "loss": 5.1},
            signals.Finished(7, 2.0, 1.0, 5.1),
        ),
        ({"event": "done"}, signals.Done()),
        ({"event": "else"}, None),
        ({"event": "iteration"}, None),
        ({"event": "wait", "time": "soon"}, None),
        ({"event": "wait", "time": math.inf}, None),
        ([], None),
    ],
)
def test_signals_are_read_and_anything_else_is_ignored(
    message: object, signal: signals.Signal | None
) -> None:
    assert signals.parse(json.dumps(message).encode()) == signal


def test_what_is_no_json_is_no_signal() -> None:
    assert signals.parse(b"\xff") is None


MB_A_SECOND = 8e6
OWNERS = dict.fromkeys((1, 2), Owner(1, MB_A_SECOND, 10**9))


def test_bytes_are_booked_where_they_ran() -> None:
    ledger = Ledger()
    ledger.book({1: 10, 2: 10}, {}, 1.0)
    ledger.book({1: 40, 2: 15}, OWNERS, 0.00003)  # no more than 30 bytes could be sent
    ledger.book({1: 41, 2: 16}, {}, 1.0)
    ledger.book({1: 41, 2: 3}, OWNERS, 1.0)  # a class that was made anew counts from nothing
    ledger.book({1: 51, 2: 23}, OWNERS, 0.000025)  # 15 of 25 were idle
    one, two = ledger.accounts[1], ledger.accounts[2]
    assert (one.in_window, one.outside, one.against, one.total) == (40, 11, 0, 51)
    assert (two.in_window, two.outside, two.against) == (0, 36, 10)


def test_turns_are_judged_by_whole_iterations() -> None:
    ledger = Ledger()
    assert ledger.keeps_turns is None
    ledger.close_iteration()
    assert ledger.keeps_turns is None
    ledger.book({1: 90, 2: 10}, OWNERS, 0.00009)
    ledger.close_iteration()
    assert ledger.keeps_turns is True
    ledger.book({1: 100, 2: 40}, OWNERS, 0.00001)
    ledger.close_iteration()
    assert ledger.share_against == 0.75
    assert ledger.keeps_turns is False


def measured(share: int) -> Ledger:
    ledger = Ledger()
    ledger.book({1: 100 - share, 2: share}, OWNERS, 0.0)
    ledger.close_iteration()
    return ledger


GOOD = status.Facts(
    now=10.5,
    rank=2,
    revision="r1",
    alignment=ALIGNED,
    ledger=measured(10),
    has_windows=True,
    shaping_problem="",
    intercept_problem="",
    link_bytes={"east": 7},
    carried={"streams": 1, "lanes": 34},
    known_ranks=6,
    loss=5.1,
)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "Enforced"),
        ({"intercept_problem": "no nft"}, "NotIntercepted: no nft"),
        ({"has_windows": False}, "NoWindows"),
        ({"shaping_problem": "no NET_ADMIN"}, "NotShaped: no NET_ADMIN"),
        ({"is_done": True}, "TrainingDone"),
        ({"now": 99.0}, "NoSignal"),
        ({"ledger": Ledger()}, "NotMeasured"),
        ({"ledger": measured(60)}, "WindowsMissed: 60 %"),
    ],
)
def test_windows_are_enforced_only_where_it_was_measured(
    changes: dict[str, object], reason: str
) -> None:
    enforced, why = status.verdict(replace(GOOD, **changes))  # type: ignore[arg-type]
    assert enforced == (reason == "Enforced")
    assert why.startswith(reason)
    assert enforced or why.partition(":")[0] in set(Reason)  # the controller repeats the word


def test_the_status_page() -> None:
    page = status.document(GOOD)
    assert page["rank"] == 2
    assert page["flows"]["1"] == {
        "bytes": 90, "bytesInWindow": 90, "bytesOutside": 0, "bytesAgainst": 0,
    }  # fmt: skip
    assert page["linkBytes"] == {"east": 7}
    assert page["secondsSinceSignal"] == 0.25
    assert page["loss"] == 5.1
    assert status.document(replace(GOOD, alignment=BEFORE))["secondsSinceSignal"] is None


def test_metrics_count_by_place_and_not_by_name() -> None:
    found = status.numbers(GOOD)
    assert found["geotrain_sidecar_flow_bytes"][3] == {
        "window": 90.0, "outside": 10.0, "against": 10.0,
    }  # fmt: skip
    assert found["geotrain_sidecar_windows_enforced"][3] == {"": 1.0}


def test_the_rules_replace_what_was_there() -> None:
    script = ruleset(["10.3.0.0/16", "10.2.0.0/16"], 15001)
    assert script.startswith("table ip geotrain\ndelete table ip geotrain\n")
    assert "meta mark 0x67 return" in script
    assert "ip daddr { 10.2.0.0/16, 10.3.0.0/16 } redirect to :15001" in script
    assert ruleset([]) == "table ip geotrain\ndelete table ip geotrain\n"
