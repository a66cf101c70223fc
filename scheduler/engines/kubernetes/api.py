"""Calls to the API server of a cluster, objects as JSON.

`kubernetes_asyncio` finds the cluster and authenticates (kubeconfig, service account, exec plugins, TLS, proxies). Its
generated models and its calls are not used: building them takes many times as long as parsing the JSON (decision 10).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from kubernetes_asyncio import config as kubeconfig
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.client.rest import RESTClientObject

from scheduler.engines.kubernetes.podviews import Object
from scheduler.errors import Invalid

CONNECTIONS = 64
"""Concurrent calls; others queue. Watches have connections of their own."""

PATIENCE = 30.0
"""Seconds until an unanswered call fails, without the time in which it queues."""

READ_AHEAD = 2**21
"""Bytes of a watch that may be buffered."""

JSON = "application/json"


@dataclass
class ApiError(Exception):
    """A failed call; `status` is 0 if there was no answer.

    `reason` is the API's error type (`AlreadyExists`), `message` its text.
    """

    status: int
    reason: str
    message: str

    @property
    def passing(self) -> bool:
        """Whether the same call may succeed later: no answer, an overloaded server, or a conflict (as with quotas)."""
        return self.status in (0, 408, 429) or self.status >= 500 or "object has been modified" in self.message

    def __str__(self) -> str:
        return self.message or self.reason or f"HTTP status {self.status}"


class Api:
    """The API server that `kubeconfig` (a file) and `context` name; without both, that of this pod's cluster, else that
    of KUBECONFIG or ~/.kube/config."""

    def __init__(self, kubeconfig: str = "", context: str = "") -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._configuration = Configuration()
        self._rest: RESTClientObject | None = None
        self._turns = asyncio.Semaphore(CONNECTIONS)

    async def open(self) -> None:
        """Load the configuration. Raises `Invalid` if it is missing or wrong."""
        configuration = self._configuration = Configuration()
        try:
            if self._kubeconfig or self._context:
                await self._load(self._kubeconfig or None)
            else:
                try:
                    kubeconfig.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
                except kubeconfig.ConfigException:
                    await self._load(None)
        except (kubeconfig.ConfigException, OSError, ValueError) as error:
            raise Invalid(f"The cluster cannot be found: {error}", field="kubeconfig") from error
        configuration.proxy = configuration.proxy or _proxy(configuration.host or "")
        self._rest = RESTClientObject(configuration, maxsize=0)
        # The client's own session reads the environment and ~/.netrc at every call.
        session = self._rest.pool_manager
        self._rest.pool_manager = aiohttp.ClientSession(
            connector=session.connector,
            read_bufsize=READ_AHEAD,
            timeout=aiohttp.ClientTimeout(),  # each call has its own
        )
        session.detach()

    async def close(self) -> None:
        if self._rest is not None:
            await self._rest.close()
            self._rest = None

    async def _load(self, file: str | None) -> None:
        await kubeconfig.load_kube_config(
            file, self._context or None, client_configuration=self._configuration, persist_config=False
        )

    async def get(self, path: str, **query: str | int) -> Any:
        return await self.call("GET", path, query=query)

    async def create(self, path: str, body: Object) -> Any:
        return await self.call("POST", path, body)

    async def delete(self, path: str, grace: int | None = None, uid: str | None = None) -> None:
        """Delete an object, only the one with `uid` if that is given; no error if it does not exist."""
        body: dict[str, Any] = {"propagationPolicy": "Background"}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        try:
            await self.call("DELETE", path, body)
        except ApiError as error:
            if error.status != 404 and not (error.status == 409 and uid is not None):
                raise

    async def call(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        content: str = JSON,
        query: Mapping[str, str | int] = MappingProxyType({}),
    ) -> Any:
        """Make a call and return its answer. Raises `ApiError`."""
        try:
            async with self._turns, asyncio.timeout(PATIENCE):
                answer = await self._ask(method, path, body, content, query)
                async with answer:
                    text = await answer.read()
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is one
            raise ApiError(0, "Unreachable", f"The Kubernetes API server does not answer ({error!r}).") from error
        if answer.status >= 400:
            raise _error(answer.status, text)
        return json.loads(text)

    async def lines(self, path: str, seconds: int, **query: str | int) -> AsyncIterator[bytes]:
        """The lines of an answer that takes up to `seconds`. Raises `ApiError`."""
        try:
            async with asyncio.timeout(seconds + PATIENCE):
                answer = await self._ask("GET", path, None, JSON, query)
                async with answer:
                    if answer.status >= 400:
                        raise _error(answer.status, await answer.read())
                    begun = b""
                    try:
                        async for piece in answer.content.iter_any():
                            *whole, begun = (begun + piece).split(b"\n")
                            for line in whole:
                                yield line
                    finally:
                        if answer.connection is not None and answer.connection.transport is not None:
                            answer.connection.transport.abort()  # closing it would wait for the server's consent
        except (aiohttp.ClientError, OSError) as error:
            raise ApiError(0, "Unreachable", f"The Kubernetes API server does not answer ({error!r}).") from error

    async def _ask(
        self, method: str, path: str, body: Object | None, content: str, query: Mapping[str, str | int]
    ) -> aiohttp.ClientResponse:
        assert self._rest is not None, "The API is not open."
        headers = {"Accept": JSON, "Content-Type": content, "User-Agent": "jupyter-runai"}
        if key := await self._configuration.get_api_key_with_prefix("BearerToken"):
            headers["Authorization"] = key
        url = f"{self._configuration.host}{path}" + (f"?{urlencode(query)}" if query else "")
        return await self._rest.pool_manager.request(
            method,
            url,
            headers=headers,
            data=None if body is None else json.dumps(body).encode(),
            proxy=self._rest.proxy,
            proxy_headers=self._rest.proxy_headers,
            server_hostname=self._rest.server_hostname,
        )


def _proxy(url: str) -> str | None:
    """The proxy that the environment sets for an address."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def _error(status: int, text: bytes) -> ApiError:
    try:
        said = json.loads(text)
        return ApiError(status, said.get("reason") or "", said.get("message") or "")
    except (ValueError, AttributeError):
        return ApiError(status, "", text.decode(errors="replace")[:500])
