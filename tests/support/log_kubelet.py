"""A kubelet that has nothing but logs: the API server asks it as it asks a real one.

It listens on loopback with a certificate of its own, which API servers do not check unless told
to, and answers ``/containerLogs/NAMESPACE/POD/CONTAINER`` with the parameters of the real one.
"""

import ssl
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlparse

PERIOD = 0.02


@dataclass
class Log:
    """Lines (time and text) of a container; a follower gets more until it is ``ended``."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    ended: bool = True
    cuts: int = 0  # streams that are broken off after what there is, instead of followed

    def write(self, time: str, text: str) -> None:
        self.lines.append((time, text))


class Kubelet:
    """A server with ``logs`` by pod and container; ``asked`` are the queries it got."""

    def __init__(self, directory: Path) -> None:
        self.logs: dict[tuple[str, str], Log] = {}
        self.previous: dict[tuple[str, str], Log] = {}
        self.asked: list[dict[str, str]] = []
        self._stopped = threading.Event()
        certificate, key = directory / "kubelet.crt", directory / "kubelet.key"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
             "-subj", "/CN=kubelet", "-out", certificate, "-keyout", key],
            check=True, capture_output=True,
        )  # fmt: skip
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._server.shutdown()
        self._server.server_close()

    def node(self, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
        """A Node whose kubelet this is."""
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": dict(labels)},
            "status": {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": self._server.server_port}},
            },
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        kubelet = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                address = urlparse(self.path)
                query = {name: values[0] for name, values in parse_qs(address.query).items()}
                *_, pod, container = address.path.split("/")
                kubelet.asked.append({"pod": pod, "container": container, **query})
                known = kubelet.previous if query.get("previous") == "true" else kubelet.logs
                log = known.get((pod, container))
                if log is None:
                    self.send_response(404)
                    self.end_headers()
                    return
                self.send_response(200)
                self.end_headers()
                kubelet._send(self, log, query)

        return Handler

    def _send(self, handler: BaseHTTPRequestHandler, log: Log, query: Mapping[str, str]) -> None:
        begin = len(log.lines) - int(query["tailLines"]) if "tailLines" in query else 0
        sent = max(0, begin)
        since = query.get("sinceTime", "")
        follows = query.get("follow") == "true"
        cut = follows and log.cuts > 0
        if cut:
            log.cuts -= 1
        while True:
            ended = log.ended
            while sent < len(log.lines):
                time, text = log.lines[sent]
                sent += 1
                if time >= since[:19]:
                    handler.wfile.write(f"{time} {text}\n".encode())
                    handler.wfile.flush()
            if not follows or ended or cut or self._stopped.wait(PERIOD):
                return
