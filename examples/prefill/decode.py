"""``python -m examples.prefill.decode``: a decode service that only pretends.

Decode runs elsewhere in reality, on inference GPUs that fetch the keys and values from the
prefill worker. This one keeps the protocol and nothing else: its tokens follow from the handle
of the keys and values, so equal prompts have equal answers.

    POST /v1/decode {"id": "…", "kv": {"handle": "…", …}, "max_tokens": n}
        200: {"text": "…", "tokens": […]}
"""

from __future__ import annotations

import argparse
import signal
import threading
import time
import zlib
from collections.abc import Callable
from typing import Any

from ..trainer.stopping import leave
from .serving import HttpError, Server
from .words import VOCABULARY, word

MOST_TOKENS = 65_536
_ANSWERS_WITHIN = 10.0  # seconds


class Decode:
    """Writes tokens; each takes ``token_time`` seconds."""

    def __init__(self, token_time: float = 0.0) -> None:
        self._token_time = token_time

    def decode(self, document: dict[str, Any], _: Callable[[], bool]) -> dict[str, Any]:
        """Answer one request."""
        kv, count = document.get("kv"), document.get("max_tokens")
        handle = kv.get("handle") if isinstance(kv, dict) else None
        if not isinstance(handle, str):
            raise HttpError(400, "kv.handle must name what a prefill left")
        if type(count) is not int or not 0 <= count <= MOST_TOKENS:
            raise HttpError(400, f"max_tokens must be 0 to {MOST_TOKENS}")
        time.sleep(self._token_time * count)
        tokens = [zlib.crc32(f"{handle}/{n}".encode()) % VOCABULARY for n in range(count)]
        return {"text": "".join(word(token) for token in tokens), "tokens": tokens}


def health(_: dict[str, Any], __: Callable[[], bool]) -> dict[str, Any]:
    """Say that the service serves."""
    return {"status": "ok"}


def main() -> int:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="decode", description="Pretend to decode.")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--token-time", type=float, default=0.0, help="seconds a token takes")
    options = parser.parse_args()
    leaving = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: leaving.set())
    routes = {"POST /v1/decode": Decode(options.token_time).decode, "GET /healthz": health}
    server = Server(("", options.port), routes)
    server.start()
    leaving.wait()
    server.drain(_ANSWERS_WITHIN)
    return 0


if __name__ == "__main__":
    leave(main())  # threads may still be at work
