"""The command line: one rank, or the whole model in one process for comparison."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from dataclasses import replace

import torch

from . import rank, reference
from .channels import Stopped
from .model import Shape
from .profile import ProfileError
from .rendezvous import RendezvousError
from .reports import Reports
from .schedule import ScheduleError
from .settings import RECOMPUTE, Place, SettingsError
from .stopping import EXIT_CODE, Stopping, leave

_USER_ERRORS = (SettingsError, ScheduleError, ProfileError, RendezvousError)


def run(stopping: Stopping) -> int:
    """Train; return the exit code 0, or leave the process with 1, 2 (wrong input) or 143."""
    options = _parser().parse_args()
    torch.set_num_threads(1)  # the tensors are tiny, and many ranks may share a core
    try:
        place = Place.from_environment(os.environ)
        if options.recompute:
            place = replace(place, recompute=options.recompute)
        layers = options.layers or place.stages
        shape = Shape(layers, options.hidden, options.sequence, options.vocabulary, options.seed)
        train = reference.train if options.single_process else rank.train
        train(place, shape, options, Reports(options.log), stopping)
    except _USER_ERRORS as error:
        print(f"trainer: {error}", file=sys.stderr, flush=True)
        leave(2)
    except Stopped:
        leave(EXIT_CODE)
    except Exception:  # a lost peer, a damaged message: the gang starts again
        traceback.print_exc()
        leave(1)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="trainer", description="Train a small GPT as a geotrain job."
    )
    add = parser.add_argument
    add("--iterations", type=int, default=100, help="train up to this many iterations")
    add("--profile", help="costs of the layers (default: /etc/geotrain/profile.json, if there)")
    add("--recompute", choices=RECOMPUTE, help="activations (default: GEOTRAIN_RECOMPUTE, late)")
    add("--checkpoint-dir", help="write checkpoints there, and resume from them")
    add("--checkpoint-every", type=int, default=10, metavar="ITERATIONS")
    add("--log", help="append the lines of standard output to this file")
    add("--trace", metavar="FOLDER", help="write when each action ran into a file there")
    add("--single-process", action="store_true", help="the same training in this process alone")
    add("--layers", type=int, help="layers computed for real (default: one a stage)")
    add("--hidden", type=int, default=32)
    add("--sequence", type=int, default=16)
    add("--vocabulary", type=int, default=64)
    add("--seed", type=int, default=0, help="of the initial weights")
    add("--backend", choices=("auto", "gloo", "nccl"), default="auto")
    add("--receives-ahead", type=int, default=16, help="receives posted ahead of their messages")
    add("--timeout", type=float, default=600.0, help="seconds to wait for the other ranks")
    return parser
