"""Who is asking. An authenticator turns the credentials of a request into a `Caller`, or into nothing.

What must hold: an identity comes only from a credential that the authenticator itself verified; a credential is
never taken from a URL, never logged and never told to anybody.
"""

from __future__ import annotations

import hmac
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from tornado.httputil import HTTPServerRequest
from tornado.web import RequestHandler

from scheduler.api.access import Caller, Scope
from scheduler.model import UserName

_AUTHORIZATION = re.compile(r"(?:token|bearer)\s+(\S+)\s*", re.IGNORECASE)


def token_of(request: HTTPServerRequest) -> str | None:
    """The token in `Authorization: token …` or `Bearer …`."""
    match = _AUTHORIZATION.fullmatch(request.headers.get("Authorization", ""))
    return match.group(1) if match else None


def same(a: str, b: str) -> bool:
    """Compare two secrets in a time that does not tell where they differ."""
    return hmac.compare_digest(a.encode(), b.encode())


class Authenticator(ABC):
    """Verifies credentials."""

    @abstractmethod
    async def identify(self, handler: RequestHandler) -> Caller | None:
        """Who sends this request; `None` where the credentials are missing or not valid (any more). Raises `Forbidden`
        where they are not meant for this service.

        Asked again during a long stream, it verifies again.
        """

    def remember(self, handler: RequestHandler) -> Callable[[], Awaitable[Caller | None]]:
        """How to identify the sender again when the request is long over; it keeps no more of it than that takes."""
        return partial(self.identify, handler)

    def pages(self, base_url: str) -> Sequence[tuple[Any, ...]]:
        """Tornado routes for browsers (a login's callback, an HTML page), where this way of logging in has any."""
        return ()


class TokenAuth(Authenticator):
    """A scheduler of one's own, without a hub: whoever holds the state folder's token is its user, with every scope."""

    def __init__(self, token: str, user: str) -> None:
        if not token:
            raise ValueError("The token must not be empty.")
        self._token = token
        self._caller = Caller.of(UserName(user), frozenset({Scope.ADMIN}))

    async def identify(self, handler: RequestHandler) -> Caller | None:
        return await self._whose(token_of(handler.request))

    def remember(self, handler: RequestHandler) -> Callable[[], Awaitable[Caller | None]]:
        return partial(self._whose, token_of(handler.request))

    async def _whose(self, token: str | None) -> Caller | None:
        return self._caller if token is not None and same(token, self._token) else None
