"""Probes in two network namespaces with a WAN between them: open, blocked one way, and answered."""

import json
import os
import sys
import time
import urllib.error
from collections.abc import Iterator
from typing import Any

import pytest

from geotrain.cli import findings, probes
from geotrain.cli.probes import Answer, Placed
from support.sidecars import PACKAGE
from support.wan import Lab, why_not

pytestmark = pytest.mark.net

KEY = "key-of-this-test"
FETCH = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=20).read().decode())"
PATIENCE = 30.0  # seconds; an import takes one, more where the cores are shared


class Pair:
    """Two pods that each run the probe."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.placed: dict[str, Placed] = {}
        for number, (name, center) in enumerate((("p0", "dc-west"), ("p1", "dc-east"))):
            address = lab.pod(name, number)
            self.placed[name] = Placed(center, f"geotrain-probe-{number}", address)
            environment = {
                **os.environ,
                "PYTHONPATH": str(PACKAGE),
                probes.NAME: f"geotrain-probe-{number}",
                probes.KEY: KEY,
            }
            lab.start(name, [sys.executable, "-m", "geotrain", "probe"], env=environment)
        for name in self.placed:
            self._await(name)

    def ask(self, source: str, target: str) -> Answer:
        said = json.loads(self._get(source, probes.question(KEY, self.placed[target])))
        return Answer(said.get("name", ""), said.get("fault", ""), said.get("said", ""))

    def judge(self) -> list[Any]:
        there, back = self.ask("p0", "p1"), self.ask("p1", "p0")
        return probes.judge(self.placed["p0"], self.placed["p1"], there, back)

    def _get(self, name: str, path: str) -> str:
        url = f"http://127.0.0.1:15003/{path}"
        return self.lab.run(name, sys.executable, "-c", FETCH, url)

    def _await(self, name: str) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self._get(name, "healthz")
                return
            except RuntimeError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with Lab(5.0) as lab:
        yield Pair(lab)


def test_an_open_way_connects_both_ways(pair: Pair) -> None:
    assert [each.level for each in pair.judge()] == [findings.Level.OK] * 2


@pytest.mark.parametrize(
    ("verdict", "said"), [("drop", "no answer within 5 s"), ("reject with tcp reset", "refused")]
)
def test_a_way_that_is_blocked_is_named(pair: Pair, verdict: str, said: str) -> None:
    """New connections that enter p1 are stopped; what p1 opens itself goes on."""
    rules = (
        "add table inet guard; add chain inet guard in { type filter hook input priority 0; };"
        f" add rule inet guard in iif eth0 tcp dport 15002 tcp flags & (syn|ack) == syn {verdict}"
    )
    pair.lab.run("p1", "nft", rules)
    try:
        (error,) = findings.errors(pair.judge())
    finally:
        pair.lab.run("p1", "nft", "delete table inet guard")
    assert error.message.startswith("pods of dc-west to pods of dc-east: no connection")
    assert said in error.message
    assert "on leaving dc-west or on entering dc-east" in error.action


def test_another_that_answers_is_noticed(pair: Pair) -> None:
    answer = pair.ask("p0", "p1")
    assert not answer.reached(Placed("dc-east", "geotrain-probe-9", pair.placed["p1"].address))


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{KEY}x/connect?address=127.0.0.1&port=1", 404),
        (f"{KEY}/connect?address=127.0.0.1", 400),
        (f"{KEY}/connect?address=127.0.0.1&port=x", 400),
    ],
)
def test_nobody_else_makes_it_connect(pair: Pair, path: str, status: int) -> None:
    with pytest.raises(RuntimeError, match=f"{urllib.error.HTTPError.__name__}.*{status}"):
        pair._get("p0", path)
