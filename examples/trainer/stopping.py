"""SIGTERM: stop after the current action, wherever the main thread is.

A handler runs only when the main thread comes back to Python, and a rendezvous can keep it in
C++ for minutes; the default action does not exist for a container's first process. So a thread of
its own waits for the signal, and ends the process if the main thread does not.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

EXIT_CODE = 128 + signal.SIGTERM
_PATIENCE = 5.0  # longer than any action, shorter than a pod's grace period


class Stopping:
    """Whether the rank was asked to stop. Make it before any other thread is started."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # inherited by later threads
        threading.Thread(target=self._watch, name="sigterm", daemon=True).start()

    def __call__(self) -> bool:
        """Whether SIGTERM came."""
        return self._asked.is_set()

    def _watch(self) -> None:
        signal.sigwait({signal.SIGTERM})
        self._asked.set()
        threading.Event().wait(_PATIENCE)
        leave(EXIT_CODE)


def leave(code: int) -> None:
    """End the process now: threads that wait for a dead peer cannot be joined."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
