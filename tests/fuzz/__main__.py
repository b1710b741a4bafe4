"""Coverage-guided fuzzing of one target, or of all one after another, with Atheris.

libFuzzer grows a corpus from the target's seeds by new coverage of geotrain's own code. Half of
the inputs it changes as bytes, the other half as structure (``mutation``). An input that raises,
takes longer than ``_TIMEOUT`` or more memory than ``_MEMORY`` ends the run, and is written to
``--findings``.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import atheris

from fuzz import NAMES

_TIMEOUT = 10  # seconds
_MEMORY = 1024  # MiB
_LENGTH = 16384  # bytes
_EXECUTED = re.compile(r"number_of_executed_units: (\d+)")


def fuzz(name: str, seconds: int, seed: int, findings: Path) -> None:
    """Never returns: libFuzzer ends the process."""
    sys.modules["numba"] = None  # compiled code has no coverage, and instrumented code no compiler
    with atheris.instrument_imports(include=["geotrain"]):
        from fuzz.targets import TARGETS, changed, check
    target = TARGETS[name]

    def mutated(data: bytes, most: int, number: int) -> bytes:
        other = changed(target, data, number) if number % 2 else data
        return atheris.Mutate(data, most) if other == data else other[:most]

    findings.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(target.seeds):
            (Path(folder) / str(number)).write_bytes(data)
        options = {
            "max_total_time": seconds,
            "seed": seed,
            "timeout": _TIMEOUT,
            "rss_limit_mb": _MEMORY,
            "max_len": _LENGTH,
            "artifact_prefix": f"{findings}/{name}-",
            "print_final_stats": 1,
            "verbosity": 0,
        }
        arguments = [f"-{option}={value}" for option, value in options.items()]
        atheris.Setup(
            [sys.argv[0], *arguments, folder],
            lambda data: check(target, data),
            custom_mutator=mutated,
        )
        atheris.Fuzz()


def main() -> int:
    """Fuzz one target here, or every one in a process of its own; says how many inputs it tried."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("target", nargs="?", choices=NAMES)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1, help="0: another one each time")
    parser.add_argument("--findings", type=Path, default=Path(".fuzz"))
    options = parser.parse_args()
    if options.target:
        fuzz(options.target, options.seconds, options.seed, options.findings)
    status = 0
    for name in NAMES:
        command = [sys.executable, "-m", "fuzz", name, *sys.argv[1:]]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
        executed = _EXECUTED.search(done.stderr)
        if done.returncode or executed is None:
            sys.stderr.write(done.stdout + done.stderr)
            status = 1
        count = int(executed[1]) if executed else 0
        line = {"name": f"fuzz_{name}_inputs", "value": count, "unit": "inputs"}
        print(json.dumps(line), flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
