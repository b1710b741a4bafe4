"""The command as a whole: names, help, exit codes, and what a user may do to it."""

import io
import os
import re
import shlex
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from geotrain import __version__
from geotrain.cli import exits, main
from geotrain.cli.examples import EXAMPLES
from geotrain.cli.main import COMMANDS, app, program

ROOT = Path(__file__).parents[3]
GEOTRAIN = [sys.executable, "-c", "from geotrain.cli.main import main; main()"]
PLAN = ("plan", "-f", "examples/three-dc")


def run(*arguments, **options):
    usual = {"capture_output": True, "text": True, "cwd": ROOT, "timeout": 60}
    return subprocess.run([*GEOTRAIN, *arguments], check=False, **(usual | options))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/usr/bin/geotrain", "geotrain"),
        ("kubectl-geo", "kubectl geo"),
        ("/x/kubectl-geo", "kubectl geo"),
        ("kubectl_geo.exe", "kubectl geo"),
        ("-c", "geotrain"),
    ],
)
def test_the_name_it_was_called_by(path, name):
    assert program(path) == name


def test_help_shows_that_name(tmp_path, capfd):
    link = tmp_path / "kubectl-geo"
    link.write_text(f"#!{sys.executable}\nfrom geotrain.cli.main import main\nmain()\n")
    link.chmod(0o755)
    done = subprocess.run([link, "plan", "-h"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: kubectl geo plan")


def test_every_command_has_the_help_that_the_list_shows():
    for name, (module, said) in COMMANDS.items():
        if name == "topology":
            continue
        found = getattr(import_module(f"geotrain.cli.{module}"), name)
        assert " ".join(found.__doc__.split("\n\n")[0].split()) == said


def test_every_command_says_its_exit_codes():
    for name in COMMANDS:
        shown = CliRunner().invoke(app, [name, "--help"], terminal_width=200).stdout
        if name != "topology":
            assert "2    wrong input or options" in shown, name
            assert "Examples:" in shown, name


def test_help_fits_eighty_columns_in_words():
    for name in ("", *COMMANDS):
        shown = CliRunner().invoke(app, [*filter(None, [name]), "--help"], terminal_width=80).stdout
        examples = {example for each in EXAMPLES.values() for _, example in each}
        lines = [line for line in shown.splitlines() if line.strip() not in examples]
        assert max(map(len, lines)) <= 80, name
        assert "list[" not in shown


def test_every_example_is_one_of_a_command_and_takes_its_options():
    root = typer.main.get_command(app)
    assert EXAMPLES.keys() == {*COMMANDS, "topology import"} - {"topology"}
    for command, shown in EXAMPLES.items():
        for _, example in shown:
            words = shlex.split(re.search(r"geotrain ([^|)]*)", example)[1])
            assert " ".join(words).startswith(command)
            context = root.make_context("geotrain", words, resilient_parsing=False)
            inner = root.get_command(context, words[0])
            inner.make_context(words[0], words[1:])


def test_the_version_is_printed():
    assert CliRunner().invoke(app, ["--version"]).stdout == f"{__version__}\n"


def test_help_and_planning_import_no_client_of_kubernetes():
    code = (
        "import sys; from typer.testing import CliRunner; from geotrain.cli.main import app;"
        "CliRunner().invoke(app, sys.argv[1:]);"
        "print(sorted({'kubernetes', 'pydantic', 'matplotlib', 'rich.table'} & sys.modules.keys()))"
    )
    for arguments, imported in ((["--help"], "[]"), ([*PLAN], "['pydantic']")):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True, text=True, check=True, cwd=ROOT,
        )  # fmt: skip
        assert done.stdout.strip() == imported


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["plan", "-f", "missing.yaml"], 2, "missing.yaml cannot be read: No such file"),
        (["plan", "-f", "tests"], 2, "tests holds no manifests"),
        (["plan", "-f", "/dev/null"], 2, "there is no GeoTrainingJob in -f: it is empty"),
        (["plan", "-f", "-"], 2, "there is no GeoTrainingJob in -f: it is empty"),
        (["plan", "-f", "crds"], 2, "it holds CustomResourceDefinition"),
        (["plan", "-f", "README.md"], 2, "README.md"),
        ([*PLAN, "--job", "other"], 2, "there is no GeoTrainingJob 'other' in -f; there is"),
        ([*PLAN, "--request-timeout", "soon"], 2, "--request-timeout: 'soon' is not a duration"),
        (["nonsense"], 2, "No such command"),
        (["plan", "--nonsense"], 2, "No such option"),
        (["links", "--hub-context", "x"], 2, "there is no context 'x' in your kubeconfig"),
        (["links", "--context", "x"], 2, "there is no context 'x' in your kubeconfig"),
        (["links", "--kubeconfig", "none"], 2, "--kubeconfig: there is no file none"),
        (["explain", "gpt", "-n", "a", "-A"], 2, "give either -n or -A"),
        (["explain", "gpt", "-n", ""], 2, "-n: name a namespace, or give -A for all"),
        (["logs", "gpt", "-f", "-p"], 2, "give either --follow or --previous"),
        (["logs", "gpt", "--rank", "x"], 2, "--rank 'x' is no rank"),
        (["logs", "gpt", "--since", "x"], 2, "--since: 'x' is not a duration"),
        (["top", "--interval", "0s"], 2, "--interval is 0s; give a time above 0"),
    ],
)
def test_wrong_input_is_a_sentence_and_two(arguments, code, said, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with pytest.raises(SystemExit) as ended:
        main.main(arguments)
    told = capsys.readouterr()
    assert ended.value.code == code
    assert said in told.err
    assert told.out == ""


def test_whoever_reads_only_the_head_gets_no_traceback():
    for arguments in (PLAN, ("--help",), (*PLAN, "-o", "json")):
        process = subprocess.Popen(
            [*GEOTRAIN, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
        )
        process.stdout.close()
        said = process.stderr.read().decode()
        process.stderr.close()
        assert process.wait(30) == exits.BROKEN_PIPE
        assert said == ""


def test_control_c_ends_quietly(tmp_path):
    exploration = tmp_path / "large.yaml"  # it takes minutes, whatever else the machine does
    small = (ROOT / "examples/explore/moe-671b.yaml").read_text()
    exploration.write_text(
        small.replace("units: 4, rate: 12.5G", "units: 64, rate: 12.5G").replace("4096}", "65536}")
    )
    process = subprocess.Popen(
        [*GEOTRAIN, "explore", "-f", exploration, "--budget", "1h"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr.readline() == "searching layouts, at most 1h …\n"
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=30)
    assert (process.returncode, out, said) == (exits.INTERRUPTED, "", "")


def test_what_a_terminal_cannot_show_is_no_traceback():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = run("plan", "-f", "∞.yaml", env=environment)
    assert done.returncode == exits.FAULT
    assert "Traceback" not in done.stderr


def test_interrupts_anywhere_are_quiet(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "app", interrupted)
    with pytest.raises(SystemExit) as ended:
        main.main(["plan"])
    assert ended.value.code == exits.INTERRUPTED


class Closed(io.StringIO):
    """Standard output that nobody reads any more; ``kept`` says what goes without a word."""

    reconfigure = None

    def __init__(self, kept=()):
        super().__init__()
        self.kept = kept

    def write(self, text):
        return len(text) if "write" in self.kept else self.fail()

    def flush(self):
        return None if "flush" in self.kept else self.fail()

    def fail(self):
        raise BrokenPipeError

    def fileno(self):
        return self.number


@pytest.mark.parametrize("kept", [(), ("write",), ("flush",)])
@pytest.mark.parametrize("arguments", [["--help"], ["version", "--client"], ["__complete", ""]])
def test_a_pipe_may_close_at_any_moment(arguments, kept, monkeypatch, tmp_path):
    with (tmp_path / "out").open("w") as stand_in:
        closed = Closed(kept)
        closed.number = stand_in.fileno()
        monkeypatch.setattr(sys, "stdout", closed)
        with pytest.raises(SystemExit) as ended:
            main.main(arguments)
    assert ended.value.code == exits.BROKEN_PIPE


def test_the_completion_of_a_word_goes_past_typer(capsys):
    with pytest.raises(SystemExit) as ended:
        main.main(["__complete", "expl"])
    assert ended.value.code == exits.FINE
    assert capsys.readouterr().out.splitlines()[-1] == ":4"


def test_an_unknown_name_is_no_command():
    command = typer.main.get_command(app)
    assert command.get_command(command.make_context("x", [], resilient_parsing=True), "y") is None
