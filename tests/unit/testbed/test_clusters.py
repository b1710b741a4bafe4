"""What is called when clusters are made and removed."""

from pathlib import Path

import pytest

from e2e.testbed import clusters, docker, helpers, places
from e2e.testbed.config import load

BED = load()


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    seen: list[tuple[str, ...]] = []
    monkeypatch.setattr(places, "RUN", tmp_path)
    monkeypatch.setattr(helpers, "remove", lambda _: None)
    monkeypatch.setattr(docker, "remove_container", lambda _: None)
    monkeypatch.setattr(clusters, "run", lambda *words, **_: seen.append(tuple(map(str, words))))
    monkeypatch.setattr(clusters, "inspect", lambda _: clusters.Node("id", True, "172.18.0.2"))
    return seen


def test_clusters_made_side_by_side_leave_the_users_kubeconfig_alone(
    calls: list[tuple[str, ...]], tmp_path: Path
) -> None:
    lock = tmp_path / "kubeconfig-dc-west.lock"
    lock.touch()
    clusters._create(BED["dc-west"], None)
    assert ["delete" in words for words in calls] == [True, False]
    assert all(f"--kubeconfig={tmp_path}/kubeconfig-dc-west" in words for words in calls)
    assert not lock.exists()
