"""JSON over HTTP/1.1 with the standard library: one thread a connection, few connections."""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_LONGEST_BODY = 64 * 2**20


class HttpError(Exception):
    """An answer other than 200."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


Route = Callable[[dict[str, Any], Callable[[], bool]], dict[str, Any]]
"""Takes the request's JSON and whether the client still waits; returns the answer's JSON."""


class Server(ThreadingHTTPServer):
    """Serves ``routes``, keyed by method and path such as ``POST /prefill``."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], routes: dict[str, Route]) -> None:
        self.routes = routes
        self._active = 0
        self._changed = threading.Condition()
        super().__init__(address, _Handler)

    def start(self) -> None:
        """Serve in a thread of its own."""
        threading.Thread(target=self.serve_forever, name="http", daemon=True).start()
        print(f"serving on port {self.server_address[1]}", flush=True)

    def drain(self, timeout: float) -> bool:
        """Wait until every request has its answer; False after ``timeout`` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._active == 0, timeout)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Count a request while it is answered."""
        with self._changed:
            self._active += 1
        try:
            yield
        finally:
            with self._changed:
                self._active -= 1
                self._changed.notify_all()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 600  # of a connection that is kept open

    server: Server

    def do_GET(self) -> None:
        with self.server.busy():
            self._answer({})

    def do_POST(self) -> None:
        with self.server.busy():
            self._post()

    def _post(self) -> None:
        try:
            length = int(self.headers.get("Content-Length", 0))
        except ValueError:
            length = -1
        if not 0 <= length <= _LONGEST_BODY:
            self.close_connection = True
            self._write(400, {"error": f"give a body of at most {_LONGEST_BODY} bytes"})
            return
        try:
            document = json.loads(self.rfile.read(length) or b"{}")
        except ValueError:
            document = None
        if not isinstance(document, dict):
            self._write(400, {"error": "the body must be a JSON object"})
            return
        self._answer(document)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name there
        """Write no line for each request."""

    def _answer(self, document: dict[str, Any]) -> None:
        route = self.server.routes.get(f"{self.command} {self.path.partition('?')[0]}")
        if route is None:
            self._write(404, {"error": f"there is no {self.command} {self.path}"})
            return
        try:
            answer = route(document, self._is_waiting)
        except HttpError as error:
            self._write(error.status, {"error": str(error)})
            return
        self._write(200, answer)

    def _is_waiting(self) -> bool:
        """Whether the client is still there: a connection that it closed reads as empty."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        try:
            return not readable or self.connection.recv(1, socket.MSG_PEEK) != b""
        except OSError:
            return False

    def _write(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            if status in (429, 503):
                self.send_header("Retry-After", "1")
            self.end_headers()
            self.wfile.write(body)
        except OSError:  # the client is gone
            self.close_connection = True
