"""Control planes for the controller's tests: one hub and two members, kept for the whole folder."""

import pytest

from support.controlplane import ControlPlane, ProgramsMissingError


@pytest.fixture(scope="package")
def hub_plane(tmp_path_factory):
    yield from plane(tmp_path_factory.mktemp("hub"))


def plane(directory, **options):
    try:
        started = ControlPlane(directory, **options)
    except ProgramsMissingError as error:
        pytest.skip(str(error))
    with started:
        yield started
