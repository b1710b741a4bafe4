"""When lastTransitionTime moves, and which changes are worth telling."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from geotrain.api import conditions, events
from geotrain.api.conditions import FALSE, TRUE, UNKNOWN, Condition, set_condition
from geotrain.api.reasons import ConditionType, Reason

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)
WAITING = Condition(
    ConditionType.RESERVED, FALSE, Reason.WAITING_FOR_CAPACITY, "dc-east lacks 2 GPUs", 1
)  # fmt: skip


def test_a_new_condition_is_added_with_the_time() -> None:
    (condition,) = set_condition((), WAITING, NOW)
    assert condition.last_transition == NOW


def test_the_time_stays_while_the_status_does() -> None:
    before = set_condition((), WAITING, NOW)
    timeout = Condition(ConditionType.RESERVED, FALSE, Reason.RESERVE_TIMEOUT, "too slow", 2)
    (condition,) = set_condition(before, timeout, LATER)
    assert (condition.last_transition, condition.reason) == (NOW, Reason.RESERVE_TIMEOUT)
    assert condition.observed_generation == 2


def test_the_time_moves_with_the_status() -> None:
    before = set_condition((), WAITING, NOW)
    reserved = Condition(ConditionType.RESERVED, TRUE, Reason.GANG_RESERVED)
    (condition,) = set_condition(before, reserved, LATER)
    assert condition.last_transition == LATER


def test_others_keep_their_place_and_their_time() -> None:
    planned = Condition(ConditionType.PLANNED, TRUE, Reason.PLAN_READY)
    before = set_condition(set_condition((), planned, NOW), WAITING, NOW)
    after = set_condition(
        before, Condition(ConditionType.PLANNED, FALSE, Reason.LINK_MISSING), LATER
    )
    assert [c.type for c in after] == ["Planned", "Reserved"]
    assert after[1] == before[1]


def test_a_condition_survives_the_way_through_kubernetes() -> None:
    before = set_condition((), WAITING, NOW)
    assert conditions.from_manifests([c.to_manifest() for c in before]) == before
    assert conditions.from_manifests(None) == ()


def test_a_condition_without_optional_fields_is_read() -> None:
    manifest = {
        "type": "Valid", "status": "True", "reason": "LinkValid", "lastTransitionTime": NOW
    }  # fmt: skip
    read = Condition.from_manifest(manifest)
    assert (read.message, read.observed_generation, read.last_transition) == ("", 0, NOW)


def test_times_are_written_in_utc() -> None:
    eastern = datetime(2026, 1, 1, 22, 4, 5, tzinfo=timezone(timedelta(hours=-5)))
    assert conditions.format_time(eastern) == "2026-01-02T03:04:05Z"


@pytest.mark.parametrize(("status", "expected"), [(TRUE, True), (FALSE, False), (UNKNOWN, False)])
def test_only_true_is_true(status: conditions.Status, expected: bool) -> None:
    held = (Condition(ConditionType.MEASURED, status, Reason.NOT_MEASURED),)
    assert conditions.is_true(held, "Measured") is expected
    assert not conditions.is_true(held, "Valid")


def test_a_change_of_message_alone_is_no_change() -> None:
    before = set_condition((), WAITING, NOW)
    other = Condition(WAITING.type, FALSE, WAITING.reason, "dc-east lacks 1 GPU", 1)
    assert conditions.changed(before, set_condition(before, other, LATER)) == ()
    assert conditions.changed((), before) == before


def test_a_change_becomes_an_event_with_its_weight() -> None:
    timeout = Condition(ConditionType.RESERVED, FALSE, Reason.RESERVE_TIMEOUT, "too slow")
    reserved = Condition(ConditionType.RESERVED, TRUE, Reason.GANG_RESERVED)
    assert events.for_changes("uid", (), (timeout,)) == (
        events.Event("uid", "Warning", "ReserveTimeout", "too slow"),
    )
    assert events.for_changes("uid", (timeout,), (reserved,)) == (
        events.Event("uid", "Normal", "GangReserved", "Reserved is True"),
    )


def test_that_a_new_object_has_not_failed_is_no_news() -> None:
    calm = Condition(ConditionType.FAILED, FALSE, Reason.NOT_FINISHED)
    failed = Condition(ConditionType.FAILED, TRUE, Reason.MAX_RESTARTS_EXCEEDED, "4 restarts")
    resumed = Condition(ConditionType.SUSPENDED, FALSE, Reason.RESUMED)
    held = Condition(ConditionType.SUSPENDED, TRUE, Reason.SUSPENDED)
    assert events.for_changes("uid", (), (calm, resumed)) == ()
    assert [e.type for e in events.for_changes("uid", (calm,), (failed,))] == ["Warning"]
    assert [e.reason for e in events.for_changes("uid", (held,), (resumed,))] == ["Resumed"]


def test_equal_tidings_have_equal_keys() -> None:
    one = events.event("uid", Reason.POD_FAILED, "gpt-r1 exited with 1")
    assert one.type == "Warning"
    assert one.dedupe_key == events.event("uid", Reason.POD_FAILED, one.message).dedupe_key
    assert one.dedupe_key != events.event("uid", Reason.POD_FAILED, "gpt-r2 failed").dedupe_key
    assert events.event("uid", Reason.CLEANED_UP, "").type == "Normal"


def test_a_long_message_is_cut_to_what_an_event_may_hold() -> None:
    message = events.event("uid", Reason.POD_FAILED, "x" * 5000).message
    assert len(message) == events.MESSAGE_LIMIT
    assert message.endswith("x…")


@pytest.mark.parametrize("words", [ConditionType, Reason])
def test_every_word_is_camel_case_and_explained(words: type[Reason]) -> None:
    for word in words:
        assert word.isalpha()
        assert word[0].isupper()
        assert word.__doc__
