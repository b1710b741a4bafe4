"""Rules about the tree that no other tool holds."""

import tomllib
from pathlib import Path

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


def test_every_dependency_says_why_it_is_there():
    text = (ROOT / "pyproject.toml").read_text()
    project = tomllib.loads(text)["project"]
    for requirement in [*project["dependencies"], *project["optional-dependencies"]["dev"]]:
        lines = [line for line in text.splitlines() if line.startswith(f'  "{requirement}"')]
        assert all("#" in line for line in lines), f"{requirement} needs a reason"
