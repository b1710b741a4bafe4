"""Rules about the tree that no other tool holds."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]


def test_the_operator_folder_is_not_a_package():
    # operator/__init__.py would shadow the standard library's `operator` for `python -m`.
    assert [p.name for p in (ROOT / "operator").glob("*.py")] == []


def test_no_module_takes_the_name_of_a_standard_module():
    confusing = {"queue", "select", "sched", "types", "resource", "profile", "signal"}
    confusing |= {"trace", "platform", "statistics"}
    modules = {p.stem for p in (ROOT / "operator/geotrain").glob("*.py")}
    assert not modules & confusing


def test_the_lock_names_no_index():
    for lock in ("requirements.lock", "requirements-dev.lock"):
        text = (ROOT / lock).read_text()
        assert "://" not in text
        assert "index-url" not in text


def test_what_is_locked_installs_on_the_oldest_python():
    """Its first patch release too: Debian 12 has 3.11.2, and some packages want a later one."""
    lock = (ROOT / "requirements-dev.lock").read_text()
    wanted = {}
    for name in re.findall(r"^([A-Za-z0-9._-]+)==", lock, re.MULTILINE):
        try:
            wanted[name] = metadata(name).get("Requires-Python") or ""
        except PackageNotFoundError:
            continue  # its marker leaves it out on this machine
    assert len(wanted) > 100
    oldest = "3.11.0"
    assert {n: w for n, w in wanted.items() if not SpecifierSet(w).contains(oldest)} == {}


def test_every_dependency_says_why_it_is_there():
    text = (ROOT / "pyproject.toml").read_text()
    project = tomllib.loads(text)["project"]
    extras = project["optional-dependencies"].values()
    for requirement in [*project["dependencies"], *(each for extra in extras for each in extra)]:
        lines = [line for line in text.splitlines() if line.startswith(f'  "{requirement}"')]
        assert all("#" in line for line in lines), f"{requirement} needs a reason"
