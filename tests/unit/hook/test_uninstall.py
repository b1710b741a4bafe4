"""Whether geotrain can leave, and the sentences where it cannot."""

from typing import Any

import pytest

from geotrain.api import labels
from geotrain.roles.hook import uninstall

KEEP = "helm rollback geotrain 3"
HELD = [labels.FINALIZER]
SUSPENDED = {"conditions": [{"type": "Suspended", "status": "True"}]}
NOT_SUSPENDED = {"conditions": [{"type": "Suspended", "status": "False"}]}


def job(
    name: str = "gpt", *, suspend: bool = False, status: Any = None, **meta: Any
) -> dict[str, Any]:
    metadata = {"namespace": "team-a", "name": name, "finalizers": HELD, "resourceVersion": "7"}
    return {"metadata": metadata | meta, "spec": {"suspend": suspend}, "status": status or {}}


def pod(name: str, phase: str = "Running", job: str = "gpt") -> dict[str, Any]:
    tags = {labels.JOB: job}
    return {
        "metadata": {"namespace": "team-a", "name": name, "labels": tags},
        "status": {"phase": phase},
    }


@pytest.mark.parametrize(
    ("given", "is_live"),
    [
        (job(), True),
        (job(status={"phase": "Pending"}), True),
        (job(suspend=True), True),
        (job(status=SUSPENDED), True),
        (job(suspend=True, status=NOT_SUSPENDED), True),
        (job(suspend=True, status=SUSPENDED), False),
        (job(suspend=True, status=SUSPENDED, deletionTimestamp="2026-01-01T00:00:00Z"), True),
        (job(status={"completionTime": "2026-01-01T00:00:00Z"}), False),
        (job(finalizers=[]), False),
        (job(finalizers=["else/where"]), False),
    ],
    ids=["runs", "waits", "about to be suspended", "resumed", "being suspended", "suspended",
         "deleted while suspended", "finished", "not held yet", "held by others"],
)  # fmt: skip
def test_a_job_is_live_while_it_may_hold_something(given: dict[str, Any], is_live: bool) -> None:
    assert bool(uninstall.live_jobs([given])) is is_live


def test_pods_that_ended_hold_nothing() -> None:
    pods = [pod("a"), pod("b", "Succeeded"), pod("c", "Failed"), pod("d", "Pending")]
    assert [p["metadata"]["name"] for p in uninstall.live_pods(pods)] == ["a", "d"]


def test_only_our_finalizer_goes_and_only_from_what_was_seen() -> None:
    patch = uninstall.without_finalizer(job(finalizers=["else/where", labels.FINALIZER]))
    assert patch == {"metadata": {"finalizers": ["else/where"], "resourceVersion": "7"}}


def test_refusals_name_the_jobs_and_what_to_do() -> None:
    said = uninstall.jobs_refused([job()], KEEP)
    assert said.startswith("1 job still runs or waits (team-a/gpt)")
    assert "kubectl delete pfp,gtj --all -A" in said
    assert f"keep geotrain by `{KEEP}`" in said
    many = uninstall.jobs_refused([job(f"j{i}") for i in range(12)], KEEP)
    assert "12 jobs still run or wait" in many
    assert "and 2 more" in many


def test_what_remains_says_why() -> None:
    silent = {
        "conditions": [
            {"type": "Reserved", "reason": "MemberUnreachable", "message": "dc-east: gone"}
        ]
    }
    said = uninstall.jobs_remain([job(status=silent), job("two")], 120)
    assert "team-a/gpt: MemberUnreachable: dc-east: gone; team-a/two: it says nothing" in said
    assert "after 120 s" in said


def test_a_controller_that_does_not_end_is_named() -> None:
    said = uninstall.controller_remains([pod("geotrain-controller-1")], 80)
    assert "still ran after 80 s (team-a/geotrain-controller-1)" in said


def test_pods_are_counted_by_job() -> None:
    said = uninstall.pods_refused([pod("a"), pod("b"), pod("c", job="bert")], KEEP)
    assert said.startswith(
        "3 pods of geotrain's jobs still run in this cluster (team-a/bert: 1, team-a/gpt: 2)"
    )
    assert "geotrain leave" in said
    assert "1 pod of geotrain's jobs had not ended after 5 s (team-a/a)" in uninstall.pods_remain(
        [pod("a")], 5
    )
