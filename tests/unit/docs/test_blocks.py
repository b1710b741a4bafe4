"""Fenced blocks of pages: every one says what it is, and every command is tested somewhere."""

import ast
import inspect
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from geotrain.api.labels import API_VERSION
from geotrain.api.v1alpha1 import KINDS
from geotrain.cli.main import app
from geotrain.gate import Gate
from geotrain.progress import Progress
from support import pages
from support.pages import LANGUAGES, NOT_RUN, PLACES, PROGRAMS, QUICK_START, ROOT, UNIT, Block

BLOCKS = pages.all_blocks()
SHELL = [block for block in BLOCKS if block.language == "sh"]
OFFLINE = {"plan", "explore", "timeline", "schedule", "topology", "version"}
"""What works without a cluster, and is therefore run here where its files are there."""


def names(block: Block) -> str:
    return block.name


@pytest.mark.parametrize("block", BLOCKS, ids=names)
def test_a_block_says_what_it_is(block):
    assert block.language in LANGUAGES, f"{block.name}: write one of {sorted(LANGUAGES)}"
    if block.language != "sh":
        first = {line.split()[0] for line in block.text.splitlines() if line.split()}
        assert not first & {*PROGRAMS, "$"}, f"{block.name} holds commands: make it sh"


@pytest.mark.parametrize("block", SHELL, ids=names)
def test_commands_are_tested_somewhere(block):
    assert block.place in PLACES, f"{block.name}: there is no place {block.place!r}"
    if block.place == NOT_RUN:
        assert len(block.why) > 10, f"{block.name} does not say why it is not run"
    if block.place == UNIT:
        for words in block.commands:
            assert _needs_no_cluster(words), f"{block.name}: say where {words} is tested"


def _needs_no_cluster(words: tuple[str, ...]) -> bool:
    program = Path(words[0]).name
    if program == "geotrain":
        return words[1] in OFFLINE and not {"cluster", "--context", "--hub-context"} & set(words)
    return program in ("make", "export", "cd")


@pytest.mark.parametrize("block", SHELL, ids=names)
def test_bash_reads_it(block):
    done = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True)
    assert done.returncode == 0, f"{block.name}: {done.stderr}"


def _geotrain(block: Block) -> Iterator[tuple[str, ...]]:
    for words in block.commands:
        at = next((n for n, word in enumerate(words) if Path(word).name == "geotrain"), None)
        if words[:2] == ("kubectl", "geo"):
            at = 1
        if at is not None and at == len([w for w in words[:at] if "=" in w or w == "kubectl"]):
            yield words[at + 1 :]


CALLS = sorted({call for block in SHELL for call in _geotrain(block)})


@pytest.mark.parametrize("call", CALLS, ids=" ".join)
def test_a_call_names_commands_options_and_arguments_that_exist(call):
    parse(call)


def parse(call: tuple[str, ...]) -> None:
    """Read a call as the command line does, and run nothing. Raises click's UsageError."""
    command: Any = typer.main.get_command(app)
    path, words = "geotrain", list(call)
    while hasattr(command, "list_commands") and words and not words[0].startswith("-"):
        found = command.get_command(command.context_class(command), words[0])
        assert found is not None, f"there is no command {path} {words[0]}"
        command, path = found, f"{path} {words.pop(0)}"
    words = [word for word in words if not set(word) <= set("<>")]
    _, left, _ = command.make_parser(command.context_class(command)).parse_args(words)
    given = [each for each in command.params if each.param_type_name == "argument"]
    if not any(each.nargs < 0 for each in given):
        assert len(left) <= len(given), f"{path} takes no {left[len(given) :]}"


def test_a_wrong_option_is_found():
    for wrong in (("plan", "--speed"), ("plam",), ("join", "dc", "--member", "x", "y")):
        with pytest.raises((Exception, AssertionError), match=r"[Nn]o such|there is no|takes no"):
            parse(wrong)


RUN = [
    pytest.param(calls, id=block.name)
    for block in SHELL
    if block.place == UNIT and (calls := [call for call in _geotrain(block) if call[0] in OFFLINE])
]


@pytest.mark.parametrize("calls", RUN)
def test_what_needs_no_cluster_works(calls, monkeypatch, tmp_path):
    """In a folder that shows the repository's own, so that what is written lies nowhere else."""
    monkeypatch.chdir(tmp_path)
    for folder in ("examples", "e2e"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    for call in calls:
        words = list(call)
        if words[0] == "explore":  # the whole search takes a minute where lines are traced
            words += ["--budget", "1ns"]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, (call, done.output)


def test_targets_of_make_exist():
    files = [ROOT / "Makefile", *(ROOT / "make").glob("*.mk")]
    targets = {
        target
        for file in files
        for line in re.findall(r"^([a-z][a-z0-9 -]*):", file.read_text(), re.M)
        for target in line.split()
    }
    for block in SHELL:
        for words in block.commands:
            if words[0] == "make":
                asked = {word for word in words[1:] if "=" not in word and word[0] != "-"}
                assert asked <= targets, f"{block.name}: make has no {asked - targets}"


def test_files_that_commands_name_exist():
    for block in SHELL:
        for words in block.commands:
            for word in words:
                if re.match(r"(examples|charts|crds|e2e|docs)/", word):
                    assert (ROOT / word).exists(), f"{block.name}: there is no {word}"


MANIFESTS = [
    pytest.param(document, id=f"{block.name}-{number}")
    for block in BLOCKS
    if block.language == "yaml" and "…" not in block.text
    for number, document in enumerate(yaml.safe_load_all(block.text))
    if isinstance(document, dict) and document.get("apiVersion") == API_VERSION
]


@pytest.mark.parametrize("manifest", MANIFESTS)
def test_a_manifest_is_one_that_we_take(manifest):
    kind = next(each for each in KINDS if each.kind() == manifest["kind"])
    kind.from_manifest(manifest)


def test_what_the_page_on_planning_shows_can_be_planned(tmp_path):
    page = "docs/plan-without-a-cluster.md"
    topology, job = (b.text for b in BLOCKS if (b.page, b.language) == (page, "yaml"))
    (tmp_path / "topology.yaml").write_text(topology)
    (tmp_path / "job.yaml").write_text(job)
    files = ["-f", str(tmp_path / "job.yaml"), "--topology", str(tmp_path / "topology.yaml")]
    done = CliRunner().invoke(app, ["plan", *files, "-o", "json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["placement"]


EXAMPLES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "examples").rglob("*.yaml"))
IN_COMMENTS = re.compile(r"^# (?:\.venv/bin/)?geotrain ((?:plan|explore)\b.* examples/.*)$", re.M)


@pytest.mark.parametrize("path", EXAMPLES)
def test_a_command_in_an_example_works(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    for found in IN_COMMENTS.findall((ROOT / path).read_text()):
        words = shlex.split(found)
        words += ["--budget", "1ns"] if words[0] == "explore" else []
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output


def test_blocks_are_read_with_their_marks():
    text = inspect.cleandoc(
        """
        <!-- test: running job -->
        ```sh
        geotrain plan -f a.yaml \\
          --grid | head   # and so on
        kubectl apply -f - <<EOF
        a: b
        EOF
        ```
        <!-- not run: it needs a cloud -->
        ```sh
        x
        ```
        """
    )
    first, second = pages.blocks(text)
    assert (first.place, first.line, second.place) == ("running job", 2, NOT_RUN)
    assert first.commands == (
        ("geotrain", "plan", "-f", "a.yaml", "--grid"),
        ("head",),
        ("kubectl", "apply", "-f", "-"),
    )
    assert second.why == "it needs a cloud"
    with pytest.raises(ValueError, match=r"page\.md:1: this block is not closed"):
        list(pages.blocks("```sh\nx\n"))


def test_the_short_form_of_the_readme_is_the_quick_start():
    (short,) = [block for block in SHELL if (block.page, block.place) == ("README.md", QUICK_START)]
    whole = {
        command
        for block in SHELL
        if block.page == "docs/quickstart.md"
        for command in block.commands
    }
    assert set(short.commands) <= whole
    assert {block.page for block in SHELL if block.place == QUICK_START} == {
        "README.md",
        "docs/quickstart.md",
    }


PYTHON = [pytest.param(b.text, id=b.name) for b in BLOCKS if b.language == "python"]


@pytest.mark.parametrize("text", PYTHON)
def test_python_in_pages_uses_what_is_there(text):
    called = {
        (node.value.id, node.attr)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    for name, kind in (("progress", Progress), ("Progress", Progress), ("gate", Gate)):
        for owner, attribute in called:
            if owner == name:
                assert hasattr(kind, attribute), f"{kind.__name__} has no {attribute}"


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "json"], ids=names)
def test_json_in_pages_is_json(block):
    json.loads(block.text)
