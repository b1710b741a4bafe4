"""Where the test bed keeps what it builds and what it knows about itself."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]  # the repository
HERE = Path(__file__).parent
CACHE = Path(os.environ.get("GEOTRAIN_CACHE") or "~/.cache/geotrain").expanduser()
PROGRAMS = Path(os.environ.get("GEOTRAIN_PROGRAMS") or CACHE / "bin").expanduser()
IMAGES = CACHE / "images"  # image archives, named by the hash of their inputs
WHEELS = CACHE / "wheels"  # Python packages for the images, by lock file
RUN = CACHE / "run"  # state, logs and credentials of the bed that runs now
DOCKER = CACHE / "docker"  # the daemon's log and its runtime


def kubeconfig(name: str) -> Path:
    """A kubeconfig that works on this machine."""
    return RUN / f"kubeconfig-{name}"


def audit() -> Path:
    """The folder with the policy of the API servers' audit logs, which nodes mount."""
    return RUN / "audit"


def internal_kubeconfig(name: str) -> Path:
    """A kubeconfig that works in pods of every cluster: it names the node's address."""
    return RUN / f"kubeconfig-internal-{name}"
