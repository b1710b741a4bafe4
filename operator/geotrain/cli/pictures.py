"""The pictures of docs/schedules: ``python -m geotrain.cli.pictures [--check]``.

Each shows one iteration of four ranks with equal times for F, I and W, drawn from the replay.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from geotrain.model.plan import Action, Kind
from geotrain.planning.schedule.actions import parse_action
from geotrain.planning.schedule.bubbles import makespan
from geotrain.planning.schedule.policies import policy
from geotrain.planning.schedule.timeline import Timeline, program, replay
from geotrain.planning.schedule.uniform import Uniform

FOLDER: Final = Path("docs/schedules")
_RANKS: Final = 4
_NEAR: Final = Uniform(2.0, 2.0, 2.0, 0.2)
_FAR: Final = Uniform(2.0, 2.0, 2.0, 1.0, 0.2, latency=4.0, boundaries=(1,))
_RECOMPUTED: Final = Uniform(2.0, 4.0, 2.0, 1.0, 0.2, latency=4.0, boundaries=(1,), recompute=2.0)
PICTURES: Final[dict[str, Uniform]] = {
    "gpipe": _NEAR,
    "1f1b": _NEAR,
    "interleaved": _NEAR,
    "zb-1p": _NEAR,
    "zb-2p": _NEAR,
    "zb-v": _NEAR,
    "dualpipe-v": _NEAR,
    "varuna": _RECOMPUTED,
    "atlas": _FAR,
    "geopipe": _FAR,
    "geopipe-split": _FAR,
    "greedy": _FAR,
}
"""The schedules that have a picture, and the times it is drawn with."""

_MICRO_BATCHES: Final = 8
_WIDTH, _LEFT, _ROW, _TOP, _FOOT = 960, 56, 26, 8, 30
# A second stage of a rank is drawn in the lighter shade.
_COLORS: Final = {
    Kind.FORWARD: ("#2f6db5", "#8db8e8"),
    Kind.BACKWARD: ("#c2571a", "#eba878"),
    Kind.INPUT_GRADIENT: ("#c2571a", "#eba878"),
    Kind.WEIGHT_GRADIENT: ("#3a7d44", "#93cb9b"),
}
_LEGEND: Final = (
    (Kind.FORWARD, "forward"),
    (Kind.INPUT_GRADIENT, "backward or input gradient"),
    (Kind.WEIGHT_GRADIENT, "weight gradient"),
)


def picture(name: str) -> str:
    """One iteration of a schedule as SVG: a row a rank, micro-batches as numbers."""
    chosen = policy(name)
    costs = PICTURES[name].costs(chosen.layout(_RANKS, chosen.chunks or 2))
    order = chosen.order(costs, None, _MICRO_BATCHES)
    timeline = replay(program(order), costs, 1, iterations=1)
    height = _TOP + _RANKS * _ROW + _FOOT
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            'font-family="sans-serif" font-size="11">',
            f"<title>{name}: {_RANKS} ranks, {_MICRO_BATCHES} micro-batches</title>",
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            *_bars(timeline),
            *_legend(height - 10),
            "</svg>\n",
        )
    )


def main(arguments: list[str]) -> int:
    """Write the pictures, or only compare; returns the exit status."""
    drawn = {FOLDER / f"{name}.svg": picture(name) for name in PICTURES}
    if arguments != ["--check"]:
        for path, text in drawn.items():
            path.write_text(text, encoding="utf-8")
        return 0
    for path, text in drawn.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"{path} differs from what the code draws; run make crds", file=sys.stderr)
            return 1
    return 0


def _bars(timeline: Timeline) -> Iterator[str]:
    scale = (_WIDTH - _LEFT - 8) / makespan(timeline)
    devices = timeline.program.devices
    for rank in range(devices):
        top = _TOP + rank * _ROW
        yield f'<text x="4" y="{top + 16}">rank {rank}</text>'
        for work in timeline.compute(rank, 0):
            action = parse_action(work.label)
            begin = _LEFT + work.begin * scale
            width = (work.end - work.begin) * scale
            yield (
                f'<rect x="{begin:.2f}" y="{top}" width="{width:.2f}" height="{_ROW - 4}" '
                f'fill="{_color(action, devices)}" stroke="#ffffff" stroke-width="0.5"/>'
            )
            yield (
                f'<text x="{begin + width / 2:.2f}" y="{top + 15}" text-anchor="middle" '
                f'fill="{"#ffffff" if action.stage < devices else "#000000"}">'
                f"{action.micro_batch}</text>"
            )


def _color(action: Action, devices: int) -> str:
    return _COLORS[action.kind][action.stage >= devices]


def _legend(base: int) -> Iterator[str]:
    for number, (kind, text) in enumerate(_LEGEND):
        left = _LEFT + 220 * number
        yield f'<rect x="{left}" y="{base - 10}" width="12" height="12" fill="{_COLORS[kind][0]}"/>'
        yield f'<text x="{left + 18}" y="{base}">{text}</text>'


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
