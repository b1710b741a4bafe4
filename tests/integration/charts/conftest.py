"""Helm, or a skip that says what is missing."""

import pytest

from support import helm
from support.controlplane import ProgramsMissingError


@pytest.fixture(scope="module", autouse=True)
def has_helm() -> None:
    """Skips the module, saying why, where helm is missing."""
    try:
        helm.helm("version", "--short")
    except ProgramsMissingError as missing:
        pytest.skip(str(missing))
