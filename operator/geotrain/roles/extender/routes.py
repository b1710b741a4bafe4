"""The extender's HTTP routes: parse, ask ``geotrain.fitting``, print.

An answer that cannot be given is an error the scheduler sees, never "all nodes fit": in the filter
by its Error field, elsewhere by a 4xx or 5xx, since those answers have no such field. The scheduler
then tries the pod again; ``geotrain_extender_errors_total`` counts.
"""

import json
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from aiohttp import web
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)

from geotrain.errors import GeotrainError, InputError
from geotrain.fitting import filter_nodes, objection, prioritize
from geotrain.roles.extender import wire
from geotrain.roles.extender.mirror import Mirror

_BODY_LIMIT: Final = 64 * 2**20  # bytes; 5,000 whole nodes are 30 MB
_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5)  # seconds
_log = logging.getLogger(__name__)

_Answer: TypeAlias = Callable[[object], Any]
_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class NotSyncedError(GeotrainError):
    """The watches of nodes and pods do not stand: nothing can be said."""


class Metrics:
    """What the extender counts, without names of objects in the labels."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.seconds = Histogram(
            "geotrain_extender_seconds",
            "Time to answer the scheduler",
            ["verb"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.errors = Counter(
            "geotrain_extender_errors",
            "Questions that were answered with an error",
            ["verb", "reason"],
            registry=self.registry,
        )
        self.nodes = Counter(
            "geotrain_extender_nodes",
            "Nodes judged, by verb and verdict",
            ["verb", "verdict"],
            registry=self.registry,
        )


class Routes:
    """One extender: a mirror to look at, and metrics."""

    def __init__(self, mirror: Mirror, metrics: Metrics | None = None) -> None:
        self._mirror = mirror
        self._metrics = metrics or Metrics()

    def application(self) -> web.Application:
        """The aiohttp application with all routes."""
        application = web.Application(client_max_size=_BODY_LIMIT)
        application.add_routes(
            [
                web.post("/filter", self._verb("filter", self._filter)),
                web.post("/prioritize", self._verb("prioritize", self._prioritize)),
                web.post("/preempt", self._verb("preempt", self._preempt)),
                *self._health_routes(),
            ]
        )
        return application

    def health(self) -> web.Application:
        """What others than the scheduler may ask: is it well, is it ready, its metrics."""
        application = web.Application()
        application.add_routes(self._health_routes())
        return application

    def _health_routes(self) -> list[web.RouteDef]:
        return [
            web.get("/healthz", _healthz),
            web.get("/readyz", self._readyz),
            web.get("/metrics", self._show_metrics),
        ]

    def _verb(self, verb: str, answer: _Answer) -> _Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            begin = time.perf_counter()
            try:
                return _json(answer(self._document(body)))
            except InputError as error:
                return self._failed(verb, 400, "BadRequest", str(error))
            except NotSyncedError as error:
                return self._failed(verb, 503, "NotSynced", str(error))
            except Exception:
                _log.exception("%s failed", verb)
                return self._failed(
                    verb, 500, "Fault", "a fault in the extender; its log says which"
                )
            finally:
                self._metrics.seconds.labels(verb).observe(time.perf_counter() - begin)

        return handle

    def _document(self, body: bytes) -> object:
        if not self._mirror.synced:
            raise NotSyncedError("nodes and pods are not all seen yet; try again")
        try:
            return json.loads(body)
        except ValueError as error:
            raise InputError(f"the body is not JSON: {error}") from error

    def _failed(self, verb: str, status: int, reason: str, sentence: str) -> web.Response:
        self._metrics.errors.labels(verb, reason).inc()
        if verb == "filter":
            return _json(wire.filter_error(sentence))
        return web.Response(status=status, text=sentence)

    def _filter(self, document: object) -> dict[str, Any]:
        question = wire.parse_question(document)
        filtered = filter_nodes(question.pod, question.names, self._mirror.occupancy)
        self._count("filter", len(filtered.passed), len(filtered.failed))
        return wire.filter_result(question, filtered)

    def _prioritize(self, document: object) -> list[dict[str, Any]]:
        question = wire.parse_question(document)
        return wire.priorities(prioritize(question.pod, question.names, self._mirror.occupancy))

    def _preempt(self, document: object) -> dict[str, Any]:
        preemption = wire.parse_preemption(document)
        kept = []
        for node, uids in preemption.victims.items():
            why = objection(preemption.pod, uids, self._mirror.occupancy)
            if why is None:
                kept.append(node)
            else:
                _log.info("%s may not evict on %s: %s", "/".join(preemption.pod.key), node, why)
        self._count("preempt", len(kept), len(preemption.victims) - len(kept))
        return wire.preemption_result(preemption, kept)

    def _count(self, verb: str, passed: int, failed: int) -> None:
        self._metrics.nodes.labels(verb, "passed").inc(passed)
        self._metrics.nodes.labels(verb, "failed").inc(failed)

    async def _readyz(self, _: web.Request) -> web.Response:
        if self._mirror.synced:
            return web.Response(text="ok")
        return web.Response(status=503, text="nodes and pods are not yet known")

    async def _show_metrics(self, _: web.Request) -> web.Response:
        text = generate_latest(self._metrics.registry)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})


async def _healthz(_: web.Request) -> web.Response:
    return web.Response(text="ok")


def _json(document: Any) -> web.Response:
    return web.Response(
        body=json.dumps(document, separators=(",", ":")).encode(), content_type="application/json"
    )
