"""The notebook server's connection to the scheduler: its address, the user's token, and a connection pool."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from jupyter_ext.connection import NO_POOL, Mode, locate, mode
from scheduler import __version__
from scheduler.client import Address
from scheduler.errors import RunaiError, Unavailable

DOWN = "The scheduler does not answer. Running jobs continue. Reconnecting…"

_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
_STREAM = httpx.Timeout(30.0, connect=5.0, read=None)
_LIMITS = httpx.Limits(max_connections=200, max_keepalive_connections=20)


class Upstream:
    """Forwards requests with the user's token. `embedded` is false where no scheduler may be started here."""

    def __init__(self, *, embedded: bool = True) -> None:
        self.embedded = embedded
        self._address: Address | None = None
        self._looking = asyncio.Lock()
        self._direct: httpx.AsyncClient | None = None
        self._declared: bool | None = None

    @property
    def mode(self) -> Mode:
        found = mode()
        return Mode.NONE if found is Mode.EMBEDDED and not self.embedded else found

    @contextlib.asynccontextmanager
    async def send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        *,
        streams: bool = False,
        content: bytes | None = None,
    ) -> AsyncIterator[httpx.Response]:
        """A request to `path` below `/api/v1/`; the answer's body is still to be read.

        Raises `Unavailable` where nothing answers; later errors are httpx's.
        """
        reply = await self._begin(method, path, headers, content, _STREAM if streams else _TIMEOUT)
        try:
            yield reply
        finally:
            await reply.aclose()

    async def _begin(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        content: bytes | None,
        timeout: httpx.Timeout,
    ) -> httpx.Response:
        for again in (True, False):
            address = await self.address()
            request = self._http.build_request(
                method,
                f"{address.url.rstrip('/')}/api/v1/{path}",
                headers={
                    **headers,
                    "Authorization": f"Bearer {address.token}",
                    "Accept-Encoding": "identity",
                },
                content=content,
                timeout=timeout,
            )
            try:
                return await self._http.send(request, stream=True)
            except httpx.TransportError as error:
                # An embedded scheduler that was started again may have another address, and a kept connection may be
                # that of one that died. A request that may have been carried out is not repeated.
                self._address = None
                if not again or (method != "GET" and not isinstance(error, httpx.ConnectError)):
                    raise Unavailable(DOWN) from None
        raise AssertionError("unreachable")

    async def address(self) -> Address:
        """The scheduler's address; the user's own scheduler is started if necessary. Raises `Unavailable` where there
        is none."""
        if self.mode is Mode.NONE:
            raise Unavailable(
                NO_POOL if mode() is Mode.NONE else "This server does not start a scheduler; set RUNAI_URL."
            )
        async with self._looking:
            if self._address is None or not self._address.is_held():
                self._address = await asyncio.to_thread(locate)
            return self._address

    @property
    def _http(self) -> httpx.AsyncClient:
        if self._direct is None:
            local = urlsplit(self._address.url).hostname if self._address else None
            self._direct = httpx.AsyncClient(limits=_LIMITS, trust_env=local not in ("127.0.0.1", "::1", "localhost"))
        return self._direct

    async def status(self) -> dict[str, Any]:
        """The status of the scheduler and of this server's lease."""
        message: str | None = None
        try:
            if self._declared is None:
                async with self.send("GET", "pool", {}) as reply:
                    view = await _json(reply)
                    self._declared = bool(view["declared"])
            else:
                async with self.send("GET", "me", {}) as reply:
                    await _json(reply)
        except RunaiError as error:
            message = error.sentence
        except httpx.TransportError:
            message = DOWN
        return {
            "connected": message is None,
            "mode": self.mode,
            "message": message,
            "declared": self._declared,
            "version": __version__,
            "lease": _lease(),
        }

    async def close(self) -> None:
        if self._direct is not None:
            await self._direct.aclose()


async def _json(reply: httpx.Response) -> dict[str, Any]:
    """The body of an answer. Raises the error that it contains."""
    await reply.aread()
    try:
        body = reply.json()
    except ValueError:
        raise Unavailable(DOWN) from None
    if reply.is_error:
        raise Unavailable(str(body.get("detail", DOWN)))
    assert isinstance(body, dict)
    return body


def _lease() -> dict[str, list[str]] | None:
    """The GPUs of this server's lease; `None` without a lease (it may see all GPUs of the machine then)."""
    given = os.environ.get("RUNAI_GPUS")
    return None if given is None else {"gpus": [gpu for gpu in given.split(",") if gpu]}
