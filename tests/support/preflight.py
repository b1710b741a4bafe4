"""The preflight script as a module: it is no part of a package."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "make" / "preflight.py"
SCRIPTS = sorted(SCRIPT.parent.glob("*.py"))


def load() -> ModuleType:
    """The script, not run."""
    if "preflight" not in sys.modules:
        specification = importlib.util.spec_from_file_location("preflight", SCRIPT)
        assert specification
        assert specification.loader
        module = importlib.util.module_from_spec(specification)
        sys.modules["preflight"] = module
        specification.loader.exec_module(module)
    return sys.modules["preflight"]


def machine() -> ModuleType:
    """What looks at the machine."""
    load()
    return sys.modules["machine"]


def kernel() -> ModuleType:
    """What tries the kernel."""
    load()
    return sys.modules["kernel"]
