"""A hub behind the user's kubeconfig, played by a stand-in that keeps a real one's promises."""

import pytest
import yaml
from typer.testing import CliRunner

from geotrain.cli import hub
from geotrain.cli.main import app
from support.fakes import FakeCluster


@pytest.fixture(autouse=True)
def any_width(monkeypatch):
    """Tests that run side by side are told a width of the terminal that they don't have."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def live(monkeypatch, tmp_path):
    """The hub; ``live.run(*arguments)`` runs a command with it behind the current context."""
    cluster = FakeCluster()
    config = {
        "current-context": "hub",
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "me",
                                                 "namespace": "team-a"}}],
        "clusters": [{"name": "hub", "cluster": {"server": "https://hub"}}],
        "users": [{"name": "me", "user": {"token": "secret"}}],
    }  # fmt: skip
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.setattr(hub, "HttpCluster", lambda credentials, **_: cluster)
    cluster.run = lambda *arguments: CliRunner().invoke(app, [*map(str, arguments)])
    return cluster
