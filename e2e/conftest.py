"""The bed that every end-to-end test runs on; brought up when the first of them asks."""

import os

import pytest

from e2e.testbed import clusters, docker, images
from e2e.testbed.config import Bed, load
from e2e.testbed.shell import TestbedError


@pytest.fixture(scope="session")
def bed() -> Bed:
    """The three clusters, with geotrain's images in their nodes.

    Skips only where the machine can have none: no docker, and no right to start it.
    """
    description = load()
    try:
        docker.start()
    except TestbedError as impossible:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(impossible))
    clusters.up(description)
    images.operator()
    images.trainer()
    images.load(description)
    return description
