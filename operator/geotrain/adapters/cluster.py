"""One Kubernetes API over aiohttp: JSON, keep-alive, retries where repeating is safe, and watches.

The official client is left to the credentials: with threads it takes six times the processor time
for the same calls. Answers become members of ``geotrain.errors``, with the server's own sentence.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Final

import aiohttp

from geotrain.adapters.credentials import Credentials, from_document, parse
from geotrain.api.labels import FIELD_MANAGER
from geotrain.api.objects import PODS, ApiResource, Change, ChangeType, Object, Patch
from geotrain.errors import (
    ClusterError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from geotrain.units import Seconds

_JSON: Final = "application/json"
_APPLY: Final = "application/apply-patch+yaml"  # JSON is YAML
_MERGE: Final = "application/merge-patch+json"
_JSON_PATCH: Final = "application/json-patch+json"

_IN_FLIGHT: Final = 32  # measured: more does not bind pods sooner, fewer does
_PAGE: Final = 500  # objects a page of a list, as client-go
_TRIES: Final = 5
_FIRST_PAUSE: Final[Seconds] = 0.1
_LONGEST_PAUSE: Final[Seconds] = 10.0
_REQUEST_TIMEOUT: Final = aiohttp.ClientTimeout(total=30, connect=5)
_SILENCE: Final[Seconds] = 150.0  # bookmarks come about every minute; longer: the path is dead
_WATCH_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, connect=5, sock_read=_SILENCE)
_LOG_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, connect=5)  # a rank may be silent for hours
_LONGEST_GOODBYE: Final[Seconds] = 1.0  # to what connects while it is given up
_RESUME_PAUSE: Final[Seconds] = 0.2  # between two streams, so that a server in trouble gets air
_MESSAGE_LENGTH: Final = 256  # of a server's sentence; more could hold what it was sent

_ERRORS: Final[dict[int, type[ClusterError]]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
}


class HttpCluster:
    """A cluster's API. Use one for the length of the process, and ``close`` it."""

    def __init__(
        self,
        credentials: Credentials,
        *,
        in_flight: int = _IN_FLIGHT,
        timeout: Seconds | None = None,
    ) -> None:
        """``timeout`` is that of a whole request (None: 30 s), watches and logs not counted."""
        self._credentials = credentials
        self._timeout = _REQUEST_TIMEOUT if timeout is None else aiohttp.ClientTimeout(timeout)
        self._room = asyncio.Semaphore(in_flight)
        self._session: aiohttp.ClientSession | None = None
        self._given_up: set[asyncio.Future[aiohttp.ClientResponse]] = set()
        self.clock_skew: Seconds | None = None
        """By how much the server's clock is ahead of ours at its last answer, to about a second;
        None before one."""

    def __repr__(self) -> str:
        return f"HttpCluster({self._credentials.host!r})"

    async def get(self, resource: ApiResource, namespace: str, name: str) -> Object:
        """Read one object; NotFound when there is none."""
        return await self._call("GET", resource.path(namespace, name))

    async def find(self, resource: ApiResource, namespace: str, name: str) -> Object | None:
        """Read one object, None when there is none, with the right to list its kind."""
        query = {"fieldSelector": f"metadata.name={name}"}
        page = await self._call("GET", resource.path(namespace), query=query)
        return next(iter(_named(resource, page.get("items") or [])), None)

    async def list(
        self, resource: ApiResource, namespace: str = "", selector: str = ""
    ) -> Sequence[Object]:
        """Read all objects that match the label selector, page by page."""
        return [o async for page in self._pages(resource, namespace, selector) for o in page[0]]

    async def create(
        self, resource: ApiResource, manifest: Object, *, subresource: str = ""
    ) -> Object:
        """Create an object, or a subresource of the one that it names; Conflict when it exists."""
        meta = manifest.get("metadata") or {}  # reviews have none
        name = meta["name"] if subresource else ""
        path = resource.path(meta.get("namespace", ""), name, subresource)
        return await self._call("POST", path, body=manifest, query=_MANAGER, repeatable=False)

    async def apply(self, resource: ApiResource, manifest: Object) -> Object:
        """Server-side apply, taking over fields of other managers."""
        meta = manifest["metadata"]
        path = resource.path(meta.get("namespace", ""), meta["name"])
        query = {**_MANAGER, "force": "true"}
        return await self._call("PATCH", path, body=manifest, query=query, content=_APPLY)

    async def patch(
        self,
        resource: ApiResource,
        namespace: str,
        name: str,
        patch: Patch,
        *,
        subresource: str = "",
    ) -> Object:
        """Change an object by a JSON merge patch (a mapping) or a JSON patch (a sequence)."""
        merge = isinstance(patch, Mapping)
        return await self._call(
            "PATCH",
            resource.path(namespace, name, subresource),
            body=patch,
            query=_MANAGER,
            content=_MERGE if merge else _JSON_PATCH,
            repeatable=merge,
        )

    async def delete(
        self,
        resource: ApiResource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        grace: Seconds | None = None,
    ) -> None:
        """Delete an object; NotFound when there is none, Conflict when its uid is another."""
        options: dict[str, Any] = {"propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace is not None:
            options["gracePeriodSeconds"] = int(grace)
        await self._call("DELETE", resource.path(namespace, name), body=options)

    async def watch(
        self, resource: ApiResource, namespace: str = "", selector: str = ""
    ) -> AsyncIterator[Change]:
        """List, then follow changes for ever, across closed streams and expired versions."""
        version = ""
        while True:
            if not version:
                places: set[tuple[str, str]] = set()
                async for objects, listed in self._pages(resource, namespace, selector):
                    version = listed
                    for each in objects:
                        places.add(_place(each))
                        yield Change("ADDED", each)
                yield Change("SYNCED", {}, frozenset(places))
            try:
                async for change in self._stream(resource, namespace, selector, version):
                    version = change.object["metadata"]["resourceVersion"]
                    if change.type != "SYNCED":
                        yield change
            except Gone:
                version = ""
            await asyncio.sleep(_RESUME_PAUSE)

    async def pod_proxy_get(self, namespace: str, pod: str, port: int, path: str) -> Object:
        """GET a JSON document from a pod through the API server."""
        url = f"/api/v1/namespaces/{namespace}/pods/http:{pod}:{port}/proxy/{path.lstrip('/')}"
        return await self._call("GET", url, repeatable=False)

    async def version(self) -> str:
        """The API server's version, like v1.33.1."""
        return str((await self._call("GET", "/version")).get("gitVersion", ""))

    def renew(self, kubeconfig: str) -> None:
        """Log in as another kubeconfig of the same cluster says; watches that are open go on.

        Raises CredentialsError as ``credentials.from_document`` does.
        """
        self._credentials = from_document(parse(kubeconfig))

    async def pod_logs(
        self, namespace: str, pod: str, query: Mapping[str, str]
    ) -> AsyncIterator[bytes]:
        """Lines of a container's log, without their ends, as the server sends them.

        ``query`` holds the parameters of the API: container, follow, tailLines, previous, …
        A stream that is cut ends with Unreachable; a last line may lack its end.
        """
        try:
            path = PODS.path(namespace, pod, "log")
            answer = await self._send("GET", path, query, _LOG_TIMEOUT, headers={"Accept": "*/*"})
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(self._credentials.host, error) from error
        async with answer:
            if answer.status >= 400:
                raise _refusal(answer.status, await answer.text(), answer.headers)
            rest = b""
            try:
                async for chunk in answer.content.iter_any():
                    *complete, rest = (rest + chunk).split(b"\n")
                    for line in complete:
                        yield line
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise _unreachable(self._credentials.host, error) from error
            finally:
                _abort(answer)
            if rest:
                yield rest

    async def close(self) -> None:
        """Give up all connections."""
        if self._given_up:
            await asyncio.wait(self._given_up, timeout=_LONGEST_GOODBYE)
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _pages(
        self, resource: ApiResource, namespace: str, selector: str
    ) -> AsyncIterator[tuple[Sequence[Object], str]]:
        """The pages of a list, each with the version at which a watch may go on."""
        query = {"limit": str(_PAGE), **_selecting(selector)}
        while True:
            page = await self._call("GET", resource.path(namespace), query=query)
            items = _named(resource, page.get("items") or [])
            yield items, page["metadata"].get("resourceVersion", "")
            following = page["metadata"].get("continue")
            if not following:
                return
            query["continue"] = following

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content: str = _JSON,
        repeatable: bool = True,
    ) -> Object:
        """One request and its repetitions: after 429 always, after a fault if that is safe."""
        pause = _FIRST_PAUSE
        for last in (*(False,) * (_TRIES - 1), True):
            try:
                async with self._room:
                    return await self._request(method, path, body, query or {}, content)
            except TooManyRequests as error:
                if last:
                    raise
                await asyncio.sleep(min(max(error.retry_after, pause), _LONGEST_PAUSE))
            except _ConnectionLost:
                if last or not repeatable:
                    raise
                await asyncio.sleep(pause)
            pause *= 2
        raise AssertionError("the last try returns or raises")

    async def _request(
        self, method: str, path: str, body: Any, query: Mapping[str, str], content: str
    ) -> Object:
        more: dict[str, Any] = {}
        if body is not None:
            more["data"] = json.dumps(body, separators=(",", ":"))
            more["headers"] = {"Content-Type": content}
        try:
            async with await self._send(method, path, query, self._timeout, **more) as answer:
                self.clock_skew = _skew(answer.headers, self.clock_skew)
                text = await answer.text()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(self._credentials.host, error) from error
        if answer.status >= 400:
            raise _refusal(answer.status, text, answer.headers)
        return _parsed(text)

    async def _stream(
        self, resource: ApiResource, namespace: str, selector: str, version: str
    ) -> AsyncIterator[Change]:
        """One watch until its stream ends. Bookmarks come out as SYNCED, for their version."""
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            **_selecting(selector),
        }
        try:
            answer = await self._send("GET", resource.path(namespace), query, _WATCH_TIMEOUT)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unreachable(self._credentials.host, error) from error
        async with answer:
            if answer.status >= 400:
                raise _refusal(answer.status, await answer.text(), answer.headers)
            try:
                async for line in _lines(answer.content):
                    yield _change(line)
            except (aiohttp.ClientError, TimeoutError, OSError):
                return  # cut in the middle: to go on from the last version is right either way
            finally:
                _abort(answer)

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
        **more: Any,
    ) -> aiohttp.ClientResponse:
        """Send a request. Who is cancelled while it reads leaves the connection to its own end.

        A TLS connection that is given up before its first step is never closed: asyncio's protocol
        has no transport to close yet. It would stay for as long as the process lives. What changes
        something ends with who wanted it nevertheless.
        """
        url, headers = self._credentials.host + path, {**self._headers(), **more.pop("headers", {})}
        request = self._open().request(
            method, url, params=query, timeout=timeout, headers=headers, **more, **self._way()
        )
        if method != "GET":
            return await request
        sent = asyncio.ensure_future(request)
        try:
            return await asyncio.shield(sent)
        except asyncio.CancelledError:
            self._given_up.add(sent)
            sent.add_done_callback(self._given_up.discard)
            sent.add_done_callback(_drop)
            raise

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            secured = self._credentials.ssl
            connector = aiohttp.TCPConnector(limit=0, ssl=True if secured is None else secured)
            self._session = aiohttp.ClientSession(connector=connector)
        return self._session

    def _headers(self) -> dict[str, str]:
        authorization = self._credentials.authorization
        headers = {"Accept": _JSON, "User-Agent": FIELD_MANAGER}
        if authorization:
            headers["Authorization"] = authorization
        proxy = self._credentials.proxy
        if proxy is not None and proxy.authorization and self._credentials.ssl is None:
            headers["Proxy-Authorization"] = proxy.authorization  # it reads a plain request itself
        return headers

    def _way(self) -> dict[str, Any]:
        """How the server is reached and recognised.

        As with kubectl, an https proxy is recognised by the same authorities as the server.
        """
        proxy = self._credentials.proxy
        way: dict[str, Any] = {"server_hostname": self._credentials.server_hostname}
        if proxy is None:
            return way
        known = {"Proxy-Authorization": proxy.authorization} if proxy.authorization else None
        return {**way, "proxy": proxy.url, "proxy_headers": known}


def _abort(stream: aiohttp.ClientResponse) -> None:
    """End a stream at once: to part in TLS's way takes a round trip that nobody waits for."""
    if stream.connection is not None and stream.connection.transport is not None:
        stream.connection.transport.abort()


def _drop(sent: asyncio.Future[aiohttp.ClientResponse]) -> None:
    if not sent.cancelled() and sent.exception() is None:
        _abort(sent.result())
        sent.result().close()


def _skew(headers: Mapping[str, str], before: Seconds | None) -> Seconds | None:
    try:
        said = parsedate_to_datetime(headers["Date"]).timestamp()
    except (KeyError, ValueError):
        return before
    return said + 0.5 - time.time()  # the header is cut to whole seconds


def _named(resource: ApiResource, items: Sequence[Object]) -> Sequence[Object]:
    """Lists leave these two out of their items."""
    for each in items:
        each["apiVersion"], each["kind"] = resource.api_version, resource.kind
    return items


def _place(found: Object) -> tuple[str, str]:
    return found["metadata"].get("namespace", ""), found["metadata"]["name"]


class _ConnectionLost(Unreachable):
    """The connection broke: the request may or may not have been carried out."""


_MANAGER: Final = {"fieldManager": FIELD_MANAGER}


def _selecting(selector: str) -> dict[str, str]:
    return {"labelSelector": selector} if selector else {}


def _unreachable(host: str, error: BaseException) -> Unreachable:
    """Only a broken connection is worth an immediate repetition; a refused one is not."""
    said = str(error) or type(error).__name__
    sentence = f"{host} does not answer: {said}"[:_MESSAGE_LENGTH]
    broken = isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError)
    refused = isinstance(error, aiohttp.ClientConnectorError)
    return _ConnectionLost(sentence) if broken and not refused else Unreachable(sentence)


def _refusal(status: int, text: str, headers: Mapping[str, str]) -> ClusterError:
    sentence = _sentence(text) or f"the API server answered {status}"
    if status == 429:
        return TooManyRequests(sentence, _retry_after(headers))
    return _ERRORS.get(status, ClusterError)(sentence)


def _retry_after(headers: Mapping[str, str]) -> Seconds:
    try:
        return float(headers.get("Retry-After", "1"))
    except ValueError:  # an HTTP date, which no API server sends
        return 1.0


def _sentence(text: str) -> str:
    """The message of a Status object, or the text itself when it is none, cut to a length."""
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    message = document.get("message") if isinstance(document, dict) else None
    return str(message or text)[:_MESSAGE_LENGTH].strip()


def _parsed(text: str) -> Object:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ClusterError(f"not JSON: {text[:_MESSAGE_LENGTH]!r}") from error
    if not isinstance(document, dict):
        raise ClusterError(f"not an object: {text[:_MESSAGE_LENGTH]!r}")
    return document


_CHANGES: Final[dict[str, ChangeType]] = {
    "ADDED": "ADDED",
    "MODIFIED": "MODIFIED",
    "DELETED": "DELETED",
    "BOOKMARK": "SYNCED",
}


def _change(line: bytes) -> Change:
    event = _parsed(line.decode())
    found = event.get("object") or {}
    kind = _CHANGES.get(event.get("type", ""))
    if kind is None:  # ERROR, with a Status as its object
        raise _refusal(int(found.get("code", 500)), json.dumps(found), {})
    return Change(kind, found)


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length; a rest without an end is part of a cut stream and is dropped."""
    rest = b""
    async for chunk in content.iter_any():
        *complete, rest = (rest + chunk).split(b"\n")
        for line in complete:
            if line.strip():
                yield line
