"""The same training in one process: no split, no messages, the same batches in the same order."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

from .channels import Stopped
from .model import Shape
from .reports import Reports
from .schedule import BACKWARD, FORWARD, Action
from .settings import NONE, Place
from .stage import Stage


def train(
    place: Place,
    shape: Shape,
    options: argparse.Namespace,
    reports: Reports,
    is_stopping: Callable[[], bool],
) -> None:
    """Train the whole model on all replicas' batches, one micro-batch after another."""
    # One replica that has the micro-batches of all: samples are numbered alike.
    micro_batches = place.micro_batches * place.data
    alone = replace(
        place,
        rank=0,
        stage=0,
        replica=0,
        stages=1,
        data=1,
        micro_batches=micro_batches,
        recompute=NONE,
    )
    stage = Stage(alone, shape)
    for number in range(options.iterations):
        begin = time.monotonic()
        for micro_batch in range(micro_batches):
            if is_stopping():
                raise Stopped
            sample = alone.first_sample(number, micro_batch)
            stage.compute(Action(0, FORWARD, micro_batch), sample, None)
            stage.compute(Action(0, BACKWARD, micro_batch), sample, None)
        loss = stage.step(stage.gradients())
        reports.write(iteration=number, seconds=time.monotonic() - begin, loss=loss)
