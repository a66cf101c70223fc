"""The hub's users and their servers, as the scheduler asks the hub for them with its own token.

What must hold: nothing here says who sends a request (`hub_auth` does), and an answer of the hub is never the answer to
a caller: a caller is told what is missing, never what the hub wrote.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from typing import Any, Protocol
from urllib.parse import quote

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest, HTTPResponse

from scheduler.errors import Unavailable
from scheduler.model import GroupName, UserName

PAGE = 200
"""Users in one answer of the hub: the most that it gives."""

KNOWN_SECONDS = 20.0
"""For how long the hub's users are not asked for again."""

_PAGES = "application/jupyterhub-pagination+json"


@dataclass(frozen=True, slots=True)
class HubUser:
    """A user of the hub. `last_activity` is the hub's: any traffic of a server counts."""

    name: UserName
    groups: frozenset[GroupName]
    last_activity: float | None


class Directory(ABC):
    """Who there is, and whose servers can be stopped."""

    @abstractmethod
    async def users(self) -> Sequence[HubUser]:
        """All users. Raises `Unavailable` with what is missing."""

    @abstractmethod
    async def user(self, name: UserName) -> HubUser | None:
        """A user; `None` where there is none of this name. Raises as `users`."""

    @abstractmethod
    async def stop_server(self, user: UserName, server: str) -> bool:
        """Stop a notebook server; false where there is none. Raises `Unavailable` with what is missing."""


class Hub(Protocol):
    """Where the hub answers, and the service's own token: `HubOAuth` is one."""

    api_url: str
    api_token: str
    certfile: str
    keyfile: str
    client_ca: str


class HubDirectory(Directory):
    """The directory of the hub that this process is a service of."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._known: tuple[float, Sequence[HubUser]] | None = None

    async def users(self) -> Sequence[HubUser]:
        if self._known is None or monotonic() - self._known[0] > KNOWN_SECONDS:
            self._known = monotonic(), await self._read()
        return self._known[1]

    async def user(self, name: UserName) -> HubUser | None:
        known = {user.name: user for user in await self.users()}
        if name not in known:
            self._known = None  # they may have come since it was read
            known = {user.name: user for user in await self.users()}
        return known.get(name)

    async def _read(self) -> Sequence[HubUser]:
        found: list[HubUser] = []
        offset: int | None = 0
        while offset is not None:
            path = f"users?limit={PAGE}&offset={offset}"
            answer = await self._ask("GET", path, "list:users", Accept=_PAGES)
            if answer.code != 200:
                raise _refused(answer)
            page = json.loads(answer.body)
            found += map(_user, page["items"])
            following = page["_pagination"]["next"]
            offset = following and following["offset"]
        return found

    async def stop_server(self, user: UserName, server: str) -> bool:
        self._known = None  # it may have been read before this user was there
        below = f"servers/{quote(server, safe='')}" if server else "server"
        answer = await self._ask("DELETE", f"users/{quote(user, safe='@')}/{below}", "delete:servers")
        if answer.code in (400, 404):  # it does not run, or there is none
            return False
        if answer.code not in (202, 204):
            raise _refused(answer)
        return True

    async def _ask(self, method: str, path: str, scope: str, **headers: str) -> HTTPResponse:
        hub = self._hub
        request = HTTPRequest(
            f"{hub.api_url.rstrip('/')}/{path}",
            method,
            headers={"Authorization": f"token {hub.api_token}", **headers},
            request_timeout=60,
            client_cert=hub.certfile or None,
            client_key=hub.keyfile or None,
            ca_certs=hub.client_ca or None,
        )
        try:
            answer = await AsyncHTTPClient().fetch(request, raise_error=False)
        except (OSError, HTTPClientError):
            raise Unavailable("The hub does not answer; try again when it is running.") from None
        if answer.code == 403:
            raise Unavailable(
                f"The hub does not permit it; add the scope {scope} to the role of the service runai, and restart the "
                "hub."
            )
        return answer


def _refused(answer: HTTPResponse) -> Unavailable:
    return Unavailable(f"The hub refused ({answer.code}); its log says why.")


def _user(model: dict[str, Any]) -> HubUser:
    seen = model.get("last_activity")
    return HubUser(
        UserName(str(model["name"])),
        frozenset(GroupName(str(group)) for group in model.get("groups") or ()),
        datetime.fromisoformat(seen.replace("Z", "+00:00")).timestamp() if seen else None,
    )
