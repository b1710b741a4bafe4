"""The decode service over HTTP: it goes on where a prefill ended."""

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp

from geotrain.roles.router.ports import DecodeFailed, Text
from geotrain.units import Seconds

_ATTEMPTS = 3
_PAUSE: Seconds = 0.1


class HttpDecode:
    """Client of one decode service. A request keeps its id over attempts, so none runs twice."""

    def __init__(self, session: aiohttp.ClientSession, url: str, timeout: Seconds) -> None:
        self._session = session
        self._url = f"{url.rstrip('/')}/v1/decode"
        self._timeout = aiohttp.ClientTimeout(total=timeout)

    async def decode(
        self, request: str, kv: Mapping[str, Any], max_tokens: int, sampling: Mapping[str, Any]
    ) -> Text:
        """Write tokens after a prefill; a service that is away is asked again twice."""
        body = {"id": request, "kv": dict(kv), "max_tokens": max_tokens}
        if sampling:
            body["sampling"] = dict(sampling)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await self._ask(body)
            except (aiohttp.ClientError, TimeoutError) as error:
                if attempt == _ATTEMPTS:
                    raise DecodeFailed(
                        f"the decode service does not answer: {error or type(error).__name__}"
                    ) from error
            await asyncio.sleep(_PAUSE * attempt)
        raise AssertionError("the last attempt returns or raises")

    async def _ask(self, body: Mapping[str, Any]) -> Text:
        async with self._session.post(self._url, json=body, timeout=self._timeout) as response:
            if 400 <= response.status < 500:
                text = (await response.text())[:256]
                raise DecodeFailed(f"the decode service refused ({response.status}): {text}")
            response.raise_for_status()
            document = await response.json()
        try:
            return Text(str(document["text"]), tuple(int(token) for token in document["tokens"]))
        except (KeyError, TypeError, ValueError) as error:
            raise DecodeFailed(
                f"the decode service says something else than agreed: {error!r}"
            ) from error
