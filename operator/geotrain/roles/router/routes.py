"""The router's HTTP face: OpenAI's completions, and what operators ask for."""

import asyncio
import contextlib
import json
import logging
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web

from geotrain.prefill.routing import Refuse
from geotrain.roles.router import completions
from geotrain.roles.router.completions import BadRequest, Completion, Limits, Tokenizer
from geotrain.roles.router.ports import Clock, DecodeFailed, Text, WorkerRefused
from geotrain.roles.router.serving import OutOfTime, Service, Ticket
from geotrain.units import Seconds

_log = logging.getLogger(__name__)
_FAULTS: Final[Mapping[type[Exception], tuple[int, str]]] = {
    WorkerRefused: (400, "invalid_request_error"),
    OutOfTime: (504, "timeout_error"),
    DecodeFailed: (502, "server_error"),
}


@dataclass(slots=True)
class Face:
    """What the handlers share. ``most`` bounds the requests that are open at a time."""

    service: Service
    model: str
    clock: Clock
    wall: Clock
    is_ready: Callable[[], bool]
    tokenizer: Tokenizer = field(default_factory=completions.ApproximateTokenizer)
    limits: Limits = field(default_factory=Limits)
    most: int = 512
    is_draining: bool = False
    open: int = 0
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.idle.set()

    def enter(self) -> None:
        """Count a request that begins."""
        self.open += 1
        self.idle.clear()

    def leave(self) -> None:
        """Count a request that ends, however it does."""
        self.open -= 1
        if not self.open:
            self.idle.set()


FACE: Final = web.AppKey("face", Face)


def application(face: Face, body_limit: int = 2 * 2**20) -> web.Application:
    """Make the application; a larger body than ``body_limit`` bytes is answered 413."""
    app = web.Application(client_max_size=body_limit, middlewares=[_in_openai_shape])
    app[FACE] = face
    app.router.add_post("/v1/completions", _completions)
    app.router.add_get("/v1/models", _models)
    app.router.add_get("/healthz", _healthz)
    app.router.add_get("/readyz", _readyz)
    app.router.add_get("/metrics", _metrics)
    app.router.add_get("/stats", _stats)
    return app


@web.middleware
async def _in_openai_shape(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Answer every error, also those of aiohttp itself, as OpenAI's clients expect them."""
    try:
        return await handler(request)
    except BadRequest as error:
        return _error(error.status, error.message, "invalid_request_error", error.code, error.param)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        return _error(error.status, error.reason, "invalid_request_error")
    except tuple(_FAULTS) as error:
        status, kind = _FAULTS[type(error)]
        return _error(status, str(error), kind)
    except Exception:
        _log.exception("%s %s failed", request.method, request.path)
        return _error(500, "the router failed; its log says more", "server_error")


async def _completions(request: web.Request) -> web.StreamResponse:
    face = request.app[FACE]
    arrival = face.clock()
    if face.is_draining:
        return _later(503, "the router is shutting down; another one takes over", "draining")
    if face.open >= face.most:
        face.service.stats.refusals["TooManyRequests"] += 1
        return _later(429, f"{face.most} requests are open; retry in 1s", "TooManyRequests")
    face.enter()
    try:
        return await _complete(request, face, arrival)
    finally:
        face.leave()


async def _complete(request: web.Request, face: Face, arrival: Seconds) -> web.StreamResponse:
    try:
        document = json.loads(await request.read())
    except ValueError as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    completion = completions.parse(document, face.model, face.tokenizer, face.limits)
    name = f"cmpl-{uuid.uuid4().hex}"
    tickets = face.service.admit(name, completion, arrival)
    if isinstance(tickets, Refuse):
        return _later(429, tickets.reason.sentence, tickets.reason.code, tickets.retry_after)
    answer = _Answer(face, name, int(face.wall()), completion, tickets)
    try:
        return await (answer.streamed(request) if completion.stream else answer.whole())
    finally:
        for ticket in tickets:  # those that a cancelled handler did not even begin
            face.service.settle(ticket, "cancelled")


class _Answer:
    """One request's answer, whole or in pieces, over all of its prompts at once."""

    def __init__(
        self, face: Face, name: str, created: int, completion: Completion, tickets: list[Ticket]
    ) -> None:
        self._face = face
        self._head = (name, created, face.model)
        self._completion = completion
        self._tickets = tickets
        self._texts = [Text() for _ in tickets]

    async def whole(self) -> web.Response:
        """Wait for everything."""
        async with contextlib.aclosing(self._pieces()) as pieces:
            async for _ in pieces:
                pass
        document = completions.answer(*self._head, self._completion, self._texts)
        return web.json_response(document, headers=self._headers())

    async def streamed(self, request: web.Request) -> web.StreamResponse:
        """Send server-sent events. Until the first piece is there, a failure is a status."""
        response = web.StreamResponse()
        response.content_type = "text/event-stream"
        response.headers["Cache-Control"] = "no-cache"
        with contextlib.suppress(ConnectionResetError):  # the client went away
            try:
                await self._send(request, response)
            except tuple(_FAULTS) as error:
                if not response.prepared:
                    raise
                _, kind = _FAULTS[type(error)]
                await response.write(completions.event(completions.error(str(error), kind)))
            await response.write(completions.DONE)
            await response.write_eof()
        return response

    async def _send(self, request: web.Request, response: web.StreamResponse) -> None:
        async with contextlib.aclosing(self._pieces()) as pieces:
            async for index, piece, is_last in pieces:
                if not response.prepared:
                    response.headers.update(self._headers())
                    await response.prepare(request)
                await response.write(self._chunk(index, piece, is_last))
        if self._completion.include_usage:
            last = completions.usage_chunk(*self._head, self._completion, self._texts)
            await response.write(last)

    async def _pieces(self) -> AsyncGenerator[tuple[int, Text, bool]]:
        """Give (choice, text, whether the choice ends) of all prompts as they come.

        The first failure ends the others.
        """
        queue: asyncio.Queue[tuple[int, Text, bool] | Exception] = asyncio.Queue()
        tasks = [
            asyncio.create_task(self._run(index, ticket, queue))
            for index, ticket in enumerate(self._tickets)
        ]
        try:
            left = len(tasks)
            while left:
                item = await queue.get()
                if isinstance(item, Exception):
                    raise item
                index, piece, is_last = item
                before = self._texts[index]
                self._texts[index] = Text(before.text + piece.text, before.tokens + piece.tokens)
                left -= is_last
                yield item
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, index: int, ticket: Ticket, queue: asyncio.Queue[Any]) -> None:
        pieces = self._face.service.serve(ticket, self._completion)
        try:
            async for piece in pieces:
                queue.put_nowait((index, piece, False))
            queue.put_nowait((index, Text(), True))
        except Exception as error:  # whoever reads the queue raises it
            queue.put_nowait(error)

    def _chunk(self, index: int, piece: Text, is_last: bool) -> bytes:
        written = len(self._texts[index].tokens)
        finish = completions.finish_reason(written, self._completion) if is_last else None
        return completions.chunk(*self._head, index, piece.text, finish)

    def _headers(self) -> dict[str, str]:
        """Tell where the first prompt ran and how the promise compares with what came."""
        ticket = self._tickets[0]
        headers = {
            "x-geotrain-worker": ticket.worker,
            "x-geotrain-predicted-ttft": f"{ticket.predicted:.6f}",
        }
        if ticket.time_to_first_token is not None:
            headers["x-geotrain-ttft"] = f"{ticket.time_to_first_token:.6f}"
        return headers


async def _models(request: web.Request) -> web.Response:
    model = {"id": request.app[FACE].model, "object": "model", "created": 0, "owned_by": "geotrain"}
    return web.json_response({"object": "list", "data": [model]})


async def _healthz(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def _readyz(request: web.Request) -> web.Response:
    face = request.app[FACE]
    if face.is_draining:
        return web.Response(status=503, text="draining\n")
    if not face.is_ready():
        return web.Response(status=503, text="the list of workers has not been read\n")
    return web.Response(text="ok\n")


async def _metrics(request: web.Request) -> web.Response:
    body = request.app[FACE].service.metrics.exposition()
    return web.Response(body=body, headers={"Content-Type": "text/plain; version=0.0.4"})


async def _stats(request: web.Request) -> web.Response:
    face = request.app[FACE]
    return web.json_response(face.service.stats.document(face.service.fleet, face.clock()))


def _later(status: int, message: str, code: str, after: Seconds = 1.0) -> web.Response:
    kind = "rate_limit_error" if status == 429 else "server_error"
    response = _error(status, message, kind, code)
    response.headers["Retry-After"] = f"{after:.0f}"
    return response


def _error(
    status: int, message: str, kind: str, code: str | None = None, param: str | None = None
) -> web.Response:
    return web.json_response(completions.error(message, kind, code, param), status=status)
