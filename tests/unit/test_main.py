"""The one entry point: which role is started, and that it can be ended while it starts."""

import os
import signal
from collections.abc import Iterator

import pytest

from geotrain import __main__ as entry


@pytest.fixture
def first_process() -> Iterator[None]:
    """SIGTERM is ignored until somebody handles it, as it is for a container's first process."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_role_is_started_with_the_rest_of_the_arguments(
    monkeypatch: pytest.MonkeyPatch, first_process: None
) -> None:
    monkeypatch.setattr(entry, "ROLES", {"router": lambda arguments: len(arguments)})
    assert entry.main(["router", "--a", "--b"]) == 2


@pytest.mark.parametrize("arguments", [[], ["conductor"]])
def test_without_a_role_the_roles_are_named(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main(arguments) == 2
    assert "controller, extender, sidecar, router, hook" in capsys.readouterr().err


def test_a_role_that_is_still_starting_ends_at_once_when_it_is_told_to(
    monkeypatch: pytest.MonkeyPatch, first_process: None
) -> None:
    def starting(_: object) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        return 0

    monkeypatch.setattr(entry, "ROLES", {"router": starting})
    with pytest.raises(SystemExit) as ended:
        entry.main(["router"])
    assert ended.value.code == 128 + signal.SIGTERM
