"""The list of a pod's fields is what the newest supported API server publishes."""

from pathlib import Path

import pytest

from support import pod_fields
from support.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane


def test_the_list_is_the_api_servers(tmp_path: Path) -> None:
    with ControlPlane(tmp_path) as plane:
        wanted = pod_fields.text_of(plane)
    assert pod_fields.TARGET.read_text() == wanted, "run python -m support.pod_fields in tests/"
