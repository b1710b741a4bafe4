"""What a shell is offered for the word that is being typed."""

import os
import shutil
import subprocess
import sys

import pytest

from geotrain.cli import completion
from geotrain.cli.completion import SCRIPTS, candidates
from geotrain.errors import Unreachable
from support import hubs


@pytest.fixture
def hub(live):
    for each in hubs.documents("topology.yaml"):
        live.put(each)
    live.put(hubs.documents("job.yaml")[0])
    for name in ("team-a", "team-b"):
        live.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return live


def values(*words):
    return [value for value, _ in candidates(words[:-1], words[-1])[0]]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["expl"], ["explain", "explore"]),
        (["topology", ""], ["import"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["top", "p"], ["pools"]),
        (["plan", "--obj"], ["--objective"]),
        (["plan", "--objective", "c"], ["cost"]),
        (["plan", "--objective=c"], ["--objective=cost"]),
        (["links", "-o", ""], ["table", "wide", "json", "yaml", "name"]),
        (["links", "--hel"], ["--help"]),
        (["explain", ""], ["gpt"]),
        (["explain", "-n", "team-b", ""], []),
        (["explain", "-n", "te"], ["team-a", "team-b"]),
        (["explain", "--hub-context", "h"], ["hub"]),
        (["explain", "--context", "h"], ["hub"]),
        (["join", "--hub-context", "h"], ["hub"]),
        (["plan", "--hub"], ["--hub-context"]),
        (["explain", "gpt", ""], []),
        (["logs", "--tail", "5", "-f", "g"], ["gpt"]),
        (["logs", "gpt", "--member-context", ""], ["dc-central=", "dc-east=", "dc-west="]),
        (["logs", "gpt", "--member-context", "dc-west="], ["dc-west=hub"]),
        (["version", "x"], []),
        (["--version", "lin"], ["links"]),
        (["plan", "--nonsense="], []),
    ],
)
def test_candidates(hub, words, wanted):
    found = values(*words)
    assert found[: len(wanted)] == wanted
    assert wanted or not [each for each in found if not each.startswith("-")]


def test_files_are_left_to_the_shell(hub):
    assert candidates(["plan", "-f"], "") == ([], True)
    assert candidates(["topology", "import", "azure", "a.csv"], "") == ([], True)
    assert candidates(["plan", "--job"], "") == ([], False)


def test_commands_come_with_what_they_do(hub):
    assert candidates([], "links")[0][0][1].startswith("List the wide-area links")


def answered(capsys, *words):
    completion.answer(words)
    return capsys.readouterr().out.splitlines()


def test_the_answer_is_as_kubectl_reads_it(hub, capsys):
    assert answered(capsys, "--", "lin")[0].startswith("links\tList the wide-area links")
    assert answered(capsys, "lin")[-1] == ":4"
    assert answered(capsys, "plan", "-f", "")[-1] == ":0"
    assert len(answered(capsys)) > 10


@pytest.mark.parametrize("words", [["nonsense", ""], ["explain", ""], ["explain", "-n", ""]])
def test_faults_are_silence(hub, capsys, words):
    hub.fail_next("list", Unreachable("down"), times=9)
    assert answered(capsys, *words) == [":4"]


def test_kubectl_asks_the_plugin(hub, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-geo", "explain", ""])
    completion.plugin()
    assert capsys.readouterr().out == "gpt\n:4\n"


@pytest.mark.parametrize("shell", list(SCRIPTS))
def test_the_scripts_are_printed_and_parse(live, shell):
    found = live.run("completion", shell).stdout
    assert found == SCRIPTS[shell]
    assert "geotrain __complete" in found.replace('"${words[0]}"', "geotrain")
    program = shutil.which(shell)
    if program is not None:
        subprocess.run([program, "-n"], input=found, text=True, check=True)


BASH = """
geotrain() {{
  printf '%s|' "$@" >> {folder}/asked
  printf 'kind-dc-west\\tx\\n--context=kind-dc-west\\ndc-west=kind-dc-west\\nalone=\\n{end}\\n'
}}
source {folder}/script
COMP_LINE={line!r}
COMP_POINT=${{#COMP_LINE}}
_geotrain
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("line", "asked", "wanted"),
    [
        ("geotrain logs ki", "__complete|logs|ki|", ["kind-dc-west"]),
        ("geotrain logs --context=k", "__complete|logs|--context=k|", ["kind-dc-west"]),
        ("KUBECONFIG=/a geotrain logs dc-west=", "__complete|logs|dc-west=|", ["kind-dc-west"]),
        ("geotrain logs ", "__complete|logs||", ["kind-dc-west", "--context=kind-dc-west",
                                                 "dc-west=kind-dc-west", "alone="]),
    ],
)  # fmt: skip
def test_bash_completes_after_spaces_and_after_equals_signs(tmp_path, line, asked, wanted):
    (tmp_path / "script").write_text(SCRIPTS["bash"])
    program = BASH.format(folder=tmp_path, line=line, end=":4")
    done = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, check=True,
        env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.stdout.splitlines() == wanted
    assert (tmp_path / "asked").read_text() == asked


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_offers_files_where_files_are_meant(tmp_path):
    (tmp_path / "script").write_text(SCRIPTS["bash"])
    (tmp_path / "job.yaml").touch()
    line = f"geotrain plan -f {tmp_path}/jo"
    program = BASH.format(folder=tmp_path, line=line, end=":0")
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{tmp_path}/job.yaml"]
