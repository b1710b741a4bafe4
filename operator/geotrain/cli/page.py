"""A plan's iteration as one HTML page that zooms and pans: no other file, no network.

``chart/`` holds the page's frame, style and script. The script draws on a canvas what is on screen
and no more, so that a plan of some hundred thousand actions stays smooth. Bars travel as flat lists
of numbers, because an object for each would make the page five times as long.
"""

import json
from importlib.resources import files
from typing import Any, Final

from geotrain.cli import reports
from geotrain.model.plan import Plan
from geotrain.planning.schedule.charts import Bar, BarKind, Lane, lanes
from geotrain.units import Seconds

_KINDS: Final = {kind: number for number, kind in enumerate(BarKind)}


def page(plan: Plan) -> str:
    """The whole page."""
    frame, style, script = (_part(name) for name in ("page.html", "page.css", "page.js"))
    # A "<" could only come from a name; written so, it can end neither the element nor a comment.
    data = json.dumps(content(plan), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    parts = {"STYLE": style, "DATA": data, "SCRIPT": script}
    text = frame
    for name, part in parts.items():
        text = text.replace(f"/*{name}*/", part)
    return text


def content(plan: Plan) -> dict[str, Any]:
    """What the script draws; times in whole nanoseconds.

    Of each lane, ``bars`` is begin, length, kind, index into ``labels`` or -1, one after another.
    """
    rows = lanes(plan)
    labels = {bar.label: 0 for row in rows for bar in row.bars if bar.label}
    labels = {label: number for number, label in enumerate(labels)}
    return {
        "title": reports.headline(plan),
        "period": _nanoseconds(plan.iteration),
        "kinds": list(_KINDS),
        "labels": list(labels),
        "lanes": [_lane(row, labels) for row in rows],
    }


def _lane(lane: Lane, labels: dict[str, int]) -> dict[str, Any]:
    flat = [number for bar in lane.bars for number in _numbers(bar, labels)]
    return {"name": lane.name, "dataCenter": lane.data_center, "bars": flat}


def _numbers(bar: Bar, labels: dict[str, int]) -> tuple[int, int, int, int]:
    begin, end = _nanoseconds(bar.begin), _nanoseconds(bar.end)
    return begin, end - begin, _KINDS[bar.kind], labels[bar.label] if bar.label else -1


def _nanoseconds(time: Seconds) -> int:
    return round(time * 1e9)


def _part(name: str) -> str:
    return (files("geotrain.cli") / "chart" / name).read_text(encoding="utf-8")
