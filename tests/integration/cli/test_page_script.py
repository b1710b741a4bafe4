"""The page's script, run by node on a stand-in for a browser: it draws, zooms, pans and answers."""

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from geotrain.cli.page import page
from geotrain.model.plan import Plan
from geotrain.planning.placement.choose import choose
from support.planning import links, profile, topology, workload

HARNESS = Path(__file__).parent / "page_harness.js"
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")

Event = tuple[str, str, dict[str, Any]]
Play = Callable[[Sequence[Event]], list[dict[str, Any]]]


def key(name: str) -> Event:
    return ("chart", "keydown", {"key": name})


def pointer(kind: str, x: float, y: float, **more: Any) -> Event:
    return ("chart", kind, {"clientX": x, "clientY": y, "pointerId": 1, **more})


def plan(micro_batches: int) -> Plan:
    places = topology({"a": 2, "b": 2}, links(("a", "b"), capacity=1.6e9, round_trip=0.02))
    job = workload(
        profile=profile(2), pipeline=2, global_batch=2 * micro_batches, schedule="OneFOneB"
    )
    found = choose(places, job)
    assert isinstance(found, Plan)
    return found


def played(folder: Path, shown: Plan, events: Sequence[Event]) -> dict[str, Any]:
    path = folder / "plan.html"
    path.write_text(page(shown), encoding="utf-8")
    done = subprocess.run(
        [str(NODE), str(HARNESS), str(path)],
        input=json.dumps(events), capture_output=True, text=True, check=True,
    )  # fmt: skip
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture
def play(tmp_path: Path) -> Play:
    def run(events: Sequence[Event]) -> list[dict[str, Any]]:
        answers: list[dict[str, Any]] = played(tmp_path, plan(4), events)["answers"]
        return answers

    return run


def test_title_and_legend_say_what_is_drawn(tmp_path: Path) -> None:
    found = played(tmp_path, plan(4), [])
    assert "an iteration" in found["title"]
    assert found["legend"] == ["forward", "backward", "bubble", "transfer", "window"]


def test_rows_and_time_are_labelled(play: Play) -> None:
    (whole,) = play([key("0")])
    assert {"a", "b", "stage 0 replica 0", "to b replica 1", "0"} <= set(whole["texts"])
    assert any(text.endswith(" ms") for text in whole["texts"])


def test_hovering_tells_the_action(play: Play) -> None:
    at_the_start = pointer("pointermove", 134, 26 + 22 + 10)
    hovered, left = play([at_the_start, ("chart", "pointerleave", {})])
    assert hovered["tip"].splitlines()[:2] == [
        "0F0: forward of micro-batch 0, stage 0",
        "a, stage 0 replica 0",
    ]
    assert "0 ns to 10 ms, 10 ms" in hovered["tip"]
    assert left["tip"] == ""


def test_the_keyboard_steps_through_actions_and_rows(play: Play) -> None:
    answers = play([key("]"), key("]"), key("["), key("j"), key("Escape")])
    said = [answer["status"].partition(";")[0] for answer in answers]
    first = "0F0: forward of micro-batch 0, stage 0"
    assert said == [first, "0F1: forward of micro-batch 1, stage 0", first, first, ""]
    assert "replica 1" in answers[3]["status"]


def widest(answer: dict[str, Any]) -> float:
    bars = [r for r in answer["rects"] if r["fill"] == "#2f6db5"]
    return max((bar["wide"] for bar in bars), default=0.0)


def test_zooming_and_panning_move_what_is_drawn(play: Play) -> None:
    wheel = pointer("wheel", 134, 60, deltaX=0, deltaY=-200, deltaMode=0)
    sideways = pointer("wheel", 134, 60, deltaX=100, deltaY=0, deltaMode=0)
    whole, near, keyed, moved, back, button = play(
        [key("0"), wheel, key("+"), sideways, key("0"), ("button", "click", {"index": 0})]
    )
    assert widest(near) > 1.3 * widest(whole)
    assert widest(keyed) > widest(near)
    assert moved["rects"] != keyed["rects"]
    assert back["rects"] == whole["rects"]
    assert button["rects"] != whole["rects"]


def test_dragging_pans_and_a_click_selects(play: Play) -> None:
    y = 26 + 22 + 10
    answers = play(
        [
            key("+"),
            pointer("pointerdown", 600, y),
            pointer("pointermove", 500, y),
            pointer("pointerup", 500, y),
            key("0"),
            pointer("pointerdown", 134, y),
            pointer("pointerup", 134, y),
            pointer("dblclick", 134, y),
        ]
    )
    assert answers[2]["rects"] != answers[0]["rects"]
    assert answers[3]["status"] == ""
    assert answers[6]["status"].startswith("0F0: forward")
    assert widest(answers[7]) > 3 * widest(answers[6])


def test_two_fingers_zoom(play: Play) -> None:
    y = 26 + 22 + 10
    second = {"pointerId": 2}
    down = [pointer("pointerdown", 300, y), pointer("pointerdown", 500, y, **second)]
    answers = play([key("0"), *down, pointer("pointermove", 700, y, **second)])
    assert widest(answers[-1]) > 1.5 * widest(answers[0])


def test_kinds_can_be_hidden(play: Play) -> None:
    hide = ("legend", "change", {"index": 0, "set": {"checked": False}})
    before, after = play([key("0"), hide])
    assert widest(before) > 0
    assert widest(after) == 0


def test_a_frame_of_many_actions_draws_few_rectangles(tmp_path: Path) -> None:
    """What is narrower than a pixel shares it: at most some rectangles a pixel and row."""
    shown = plan(2000)
    (frame,) = played(tmp_path, shown, [key("0")])["answers"]
    assert sum(map(len, shown.compute)) == 16_000
    assert len(frame["rects"]) < 8 * 1000
