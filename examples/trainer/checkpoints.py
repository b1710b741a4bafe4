"""Checkpoints: a file a rank and iteration, whole or not there.

Ranks are never a full iteration apart for long, so the newest iteration that all of them have is
among their last few files; older ones are removed.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import torch

from .settings import Place

_KEEP = 3


class Checkpoints:
    """The files of one rank under ``directory``, by stage, pipeline length and replica."""

    def __init__(self, directory: str | os.PathLike[str], place: Place) -> None:
        name = f"stage-{place.stage}-of-{place.stages}-replica-{place.replica}"
        self._directory = Path(directory) / name
        self._directory.mkdir(parents=True, exist_ok=True)

    def iterations(self) -> list[int]:
        """After how many iterations there is a checkpoint, ascending."""
        matches = (re.fullmatch(r"(\d+)\.pt", entry.name) for entry in self._directory.iterdir())
        return sorted(int(match[1]) for match in matches if match)

    def save(self, iterations: int, state: dict[str, Any]) -> None:
        """Write the state after ``iterations``; a crash leaves the file whole or not there."""
        path = self._path(iterations)
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
        for old in self.iterations()[:-_KEEP]:
            self._path(old).unlink()

    def load(self, iterations: int) -> dict[str, Any]:
        """Read the state after ``iterations``."""
        state: dict[str, Any] = torch.load(self._path(iterations), map_location="cpu")
        return state

    def _path(self, iterations: int) -> Path:
        return self._directory / f"{iterations:08d}.pt"
