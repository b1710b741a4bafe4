"""``python -m examples.prefill.worker``: serve prefills in the bubbles of a training rank.

    POST /prefill {"id": "…", "tokens": […]} or {"id": "…", "count": n}
        200 when done: {"id", "queued": s, "computed": s, "layers": n, "token", "text",
            "kv": {"handle", "bytes"}}
        400 the request is wrong; 429 the queue is full; 503 the worker leaves, ask another one
    GET /state   the gate, the queue and what was done, times CLOCK_MONOTONIC
    GET /healthz

From the environment: GEOTRAIN_GATE (the rank's page; without it the GPU is the worker's own),
GEOTRAIN_GUARD, GEOTRAIN_MINIMUM_BUBBLE, GEOTRAIN_PROFILE (prefill.json), GEOTRAIN_ACCELERATOR.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from geotrain.gate import DONE_NS, Gate, GateState

from ..trainer.accelerator import ADDRESS_VARIABLE, Accelerator, Device, NoDevice
from ..trainer.stopping import leave
from .kernels import LayerTimes, ProfileError, seconds
from .prompts import Full, Prompt, Prompts, Refused
from .runner import Model, NoModel, Runner, Turnstile
from .serving import HttpError, Server

MOST_TOKENS = 2**20
_DONE = DONE_NS / 1e9
_ANSWERS_WITHIN = 1.0  # seconds
_PATIENCE = 10.0  # seconds without the accelerator, after which other workers get the prompts


class Worker:
    """The routes of a worker."""

    def __init__(self, times: LayerTimes, prompts: Prompts, gate: Gate | None) -> None:
        self._times = times
        self._prompts = prompts
        self._gate = gate

    def prefill(self, document: dict[str, Any], is_wanted: Callable[[], bool]) -> dict[str, Any]:
        """Queue a prompt and wait for it, as long as the client does."""
        identity, tokens, count = _request(document)
        work = self._times.layers * self._times.layer(count)
        prompt = Prompt(identity, tokens, count, work)
        try:
            self._prompts.put(prompt)
            return prompt.wait(is_wanted)
        except Full as error:
            raise HttpError(429, str(error)) from error
        except Refused as error:
            raise HttpError(503, str(error)) from error

    def state(self, _: dict[str, Any], __: Callable[[], bool]) -> dict[str, Any]:
        """Describe the gate and the queue."""
        # A worker without a gate has a GPU of its own: idle for good.
        page = self._gate.read() if self._gate else None
        gate = gate_document(page) if page else {**_OWN_GPU}
        return {"now": time.monotonic(), "wall": time.time(), "gate": gate, **self._prompts.state()}

    def health(self, _: dict[str, Any], __: Callable[[], bool]) -> dict[str, Any]:
        """Say that the worker serves."""
        return {"status": "ok"}

    def routes(self) -> dict[str, Any]:
        """Return the routes for a server."""
        return {
            "POST /prefill": self.prefill,
            "GET /state": self.state,
            "GET /healthz": self.health,
        }


_OWN_GPU = {"state": "idle", "idleUntil": _DONE, "bubbles": [], "period": 0.0}


def gate_document(page: GateState) -> dict[str, Any]:
    """Write what a page says as JSON, which has no infinity: training that is done is far away."""
    until = page.idle_until
    return {
        "state": page.state.name.lower(),
        "idleUntil": _DONE if until == math.inf else until,
        "bubbles": [[begin, end] for begin, end in page.bubbles],
        "period": page.period,
    }


def _request(document: dict[str, Any]) -> tuple[str, list[int] | None, int]:
    """Read a request's id, tokens and their count. Raises HttpError."""
    identity, tokens, count = (document.get(key) for key in ("id", "tokens", "count"))
    if not isinstance(identity, str) or not identity:
        raise HttpError(400, "id must be a text that is not empty")
    if (tokens is None) == (count is None):
        raise HttpError(400, "give either tokens or count")
    if tokens is not None:
        if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
            raise HttpError(400, "tokens must be a list of whole numbers")
        count = len(tokens)
    if type(count) is not int or not 1 <= count <= MOST_TOKENS:
        raise HttpError(400, f"a prompt has 1 to {MOST_TOKENS} tokens")
    return identity, tokens, count


def main(environment: Mapping[str, str] = os.environ) -> int:
    """Serve until SIGTERM; return 0 then, 2 where the input is wrong."""
    options = _parser().parse_args()
    leaving = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: leaving.set())
    try:
        times, gate = _times(environment), _gate(environment)
        guard = seconds(environment.get("GEOTRAIN_GUARD", "2ms"))
        minimum = seconds(environment.get("GEOTRAIN_MINIMUM_BUBBLE", "0s"))
    except (ProfileError, ValueError) as error:
        print(f"worker: {error}", file=sys.stderr)
        return 2
    prompts, device = Prompts(options.queue), _device(environment)
    emulated = not isinstance(device, NoDevice)
    window = options.window if emulated else None
    model = _model(options, times.layers, emulated)
    runner = Runner(times, prompts, Turnstile(gate, guard, minimum), device, model, window)
    server = Server(("", options.port), Worker(times, prompts, gate).routes())
    server.start()
    faults: list[BaseException] = []
    threading.Thread(target=_run, args=(runner, leaving, faults), name="gpu", daemon=True).start()
    leaving.wait()
    prompts.leave(0.0 if faults else options.grace)
    server.drain(_ANSWERS_WITHIN)
    return 1 if faults else 0


def _run(runner: Runner, leaving: threading.Event, faults: list[BaseException]) -> None:
    """Compute for ever; a fault ends the worker, so that its prompts go to another one."""
    try:
        while True:
            runner.step()
    except BaseException as fault:
        traceback.print_exc()
        faults.append(fault)
        leaving.set()


def _times(environment: Mapping[str, str]) -> LayerTimes:
    path = environment.get("GEOTRAIN_PROFILE", "/etc/geotrain/prefill.json")
    try:
        return LayerTimes.from_json(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ProfileError(f"the prefill profile cannot be read: {error}") from error


def _gate(environment: Mapping[str, str]) -> Gate | None:
    path = environment.get("GEOTRAIN_GATE", "")
    return Gate(path) if path else None


def _device(environment: Mapping[str, str]) -> Device:
    """Return the device of the rank whose gate this is: both are named by job and rank."""
    address, gate = environment.get(ADDRESS_VARIABLE, ""), environment.get("GEOTRAIN_GATE", "")
    if not address:
        return NoDevice()
    device = os.path.basename(gate) or "own"
    return Accelerator(address, device, "prefill", patience=_PATIENCE)


def _model(options: argparse.Namespace, layers: int, emulated: bool) -> Model:
    """Import PyTorch only where something is computed with it."""
    if options.model == "none":
        return NoModel()
    import torch

    from .model import TinyModel

    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return TinyModel(min(layers, options.real_layers) if emulated else layers, device=device)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="worker", description="Serve prefills in bubbles.")
    add = parser.add_argument
    add("--port", type=int, default=8000)
    add("--queue", type=int, default=64, help="prompts held at once")
    add("--grace", type=float, default=3.0, help="seconds the prompt at work has after SIGTERM")
    add("--model", choices=("tiny", "none"), default="tiny")
    add("--window", type=int, default=64, help="real tokens where the accelerator is emulated")
    add("--real-layers", type=int, default=4, help="real layers where it is")
    return parser


if __name__ == "__main__":
    leave(main())  # threads may still be at work
