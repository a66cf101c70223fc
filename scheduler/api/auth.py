"""Authentication: turns the credentials of a request into a `Caller`, or `None`.

What must hold: an identity comes only from a credential that the authenticator itself verified; a credential is never
taken from a URL, logged or passed on.
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
from scheduler.api.directory import Directory
from scheduler.model import UserName

_AUTHORIZATION = re.compile(r"(?:token|bearer)\s+(\S+)\s*", re.IGNORECASE)


def token_of(request: HTTPServerRequest) -> str | None:
    """The token in `Authorization: token …` or `Bearer …`."""
    match = _AUTHORIZATION.fullmatch(request.headers.get("Authorization", ""))
    return match.group(1) if match else None


def same(a: str, b: str) -> bool:
    """Compare two secrets in constant time."""
    return hmac.compare_digest(a.encode(), b.encode())


class Authenticator(ABC):
    """Verifies credentials."""

    @property
    def directory(self) -> Directory | None:
        """The users there are and their servers, where somebody can tell."""
        return None

    @abstractmethod
    async def identify(self, handler: RequestHandler) -> Caller | None:
        """The sender of this request; `None` where credentials are missing or not (or no longer) valid. Raises
        `Forbidden` where they are not meant for this service.

        A further call during a long stream verifies again.
        """

    async def user(self, name: UserName) -> Caller | None:
        """A user without a request, with the permission to submit jobs and the groups that they are in now; `None`
        where there is no such user. Raises `Unavailable` where nobody can tell."""
        user = await self.directory.user(name) if self.directory is not None else None
        return None if user is None else Caller.of(name, frozenset({Scope.SUBMIT}), user.groups)

    def remember(self, handler: RequestHandler) -> Callable[[], Awaitable[Caller | None]]:
        """A function that identifies the sender again after the request has ended; it keeps only what it needs of the
        request."""
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

    async def user(self, name: UserName) -> Caller | None:
        return self._caller if name == self._caller.name else None

    def remember(self, handler: RequestHandler) -> Callable[[], Awaitable[Caller | None]]:
        return partial(self._whose, token_of(handler.request))

    async def _whose(self, token: str | None) -> Caller | None:
        return self._caller if token is not None and same(token, self._token) else None
