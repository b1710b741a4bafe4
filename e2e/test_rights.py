"""What geotrain's accounts were granted against what all of the tests made them do.

Each API server of the bed logs the calls of geotrain's accounts. A right that no test uses is one
too many, or has its reason in ``rights.EXEMPT``; a call that was refused is a right too few.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.lab import HUB, SYSTEM, Cluster, hub
from e2e.testbed import rights
from e2e.testbed.config import Bed
from e2e.testbed.render import AUDIT_LOGS
from e2e.testbed.shell import run

pytestmark = pytest.mark.e2e

BEFORE: Any = datetime.now(UTC)
AFTER_THIS = {"test_rights.py", "test_quickstart.py"}


def test_every_right_is_used_and_none_is_missing(
    geotrain: Bed, request: pytest.FixtureRequest
) -> None:
    here = Path(__file__).parent
    left = {path.name for path in here.glob("test_*.py")} - AFTER_THIS
    left -= {item.path.name for item in request.session.items}
    if left:
        pytest.skip(f"all of e2e uses every right; not run now: {', '.join(sorted(left))}")
    since = min([BEFORE, *map(_made, hub().list("pods", SYSTEM))])
    logs = {dc.name: _log(dc.node, since) for dc in geotrain.data_centers}
    granted = {right for name in logs for right in _granted(name)}
    assert [said for log in logs.values() for said in rights.refused(log, granted)] == []
    used = {right for log in logs.values() for right in rights.used(log)}
    assert rights.unused(granted, used) == []
    assert rights.stale_exemptions(granted) == []


def _granted(name: str) -> set[rights.Right]:
    """What the release in a cluster grants; the hub acts on itself as its controller alone."""
    text = Cluster(name).helm("get", "manifest", "geotrain", "--namespace", SYSTEM)
    found = rights.granted(each for each in yaml.safe_load_all(text) if each)
    return {r for r in found if not (name == HUB and r.role.name == "geotrain-member")}


def _made(pod: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(pod["metadata"]["creationTimestamp"])


def _log(node: str, since: datetime) -> list[rights.Object]:
    """The calls since then; a long log was cut in two."""
    text = run("docker", "exec", node, "sh", "-c", f"cat {AUDIT_LOGS}/*.log")
    return [
        event
        for event in rights.events(text)
        if datetime.fromisoformat(event["requestReceivedTimestamp"]) >= since
    ]
