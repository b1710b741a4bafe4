"""Bare control planes for the integration tests; nothing starts before a test asks."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from support.controlplane import ControlPlane, ProgramsMissingError

Factory = Callable[..., ControlPlane]


@contextmanager
def _factory(folders: pytest.TempPathFactory) -> Iterator[Factory]:
    with ExitStack() as started:

        def start(**options: Any) -> ControlPlane:
            try:
                plane = ControlPlane(folders.mktemp("plane"), **options)
            except ProgramsMissingError as missing:
                pytest.skip(str(missing))
            return started.enter_context(plane)

        yield start


@pytest.fixture(scope="module")
def control_plane_factory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Factory]:
    """Starts control planes that last as long as the module's tests: ``factory(**options)``."""
    with _factory(tmp_path_factory) as factory:
        yield factory


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One control plane with controllers, shared by the session: use a namespace of your own."""
    with _factory(tmp_path_factory) as factory:
        yield factory(controller_manager=True)
