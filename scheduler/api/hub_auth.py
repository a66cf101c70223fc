"""Authentication behind a JupyterHub: the hub identifies every token, and logs browsers in.

What must hold:
- An identity is the hub's answer to a token (in the `Authorization` header, or in the cookie of a login through the
  hub), or the service's own token, which the hub gave only to this process. Nothing else is considered.
- A token grants nothing without the scope to access this service. A cookie authorises a request that changes something
  only with the XSRF token that belongs to it, which `HubOAuth` checks.
- A service is never mistaken for a user of the same name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from jupyterhub.services.auth import HubOAuth, HubOAuthCallbackHandler
from tornado.web import RequestHandler

from scheduler.api.access import SPAWNER, Caller, Scope
from scheduler.api.auth import Authenticator, same, token_of
from scheduler.api.directory import HubDirectory
from scheduler.api.pages import page_routes
from scheduler.errors import Forbidden
from scheduler.model import GroupName, UserName

CACHE_SECONDS = 30
"""For how long the hub's answer to a token is cached: the longest time that a revoked token, or a lost group, keeps
working."""


SERVICE = Caller.of(SPAWNER, frozenset({Scope.ADMIN}))
"""This process itself, and the hub's spawner."""


class HubAuthenticator(Authenticator):
    """Authenticates with the hub of which this process is a service."""

    def __init__(self, hub: HubOAuth | None = None) -> None:
        """Without `hub` the settings are read from the environment in which the hub starts its services."""
        self.hub = hub or HubOAuth(cache_max_age=CACHE_SECONDS)
        # The login's cookie is not sent with requests from other sites (except for links).
        self.hub.cookie_options = {"samesite": "Lax", **self.hub.cookie_options}
        self._directory = HubDirectory(self.hub)

    @property
    def directory(self) -> HubDirectory:
        return self._directory

    async def identify(self, handler: RequestHandler) -> Caller | None:
        token = token_of(handler.request)
        if token is not None and same(token, self.hub.api_token):
            return SERVICE
        # The hub's class caches its answer on the handler; a long stream asks again.
        vars(handler).pop("_cached_hub_user", None)
        model = await self.hub.get_user(handler, sync=False)
        if model is not None and not self._opens(model):
            needed = " or ".join(sorted(self.hub.access_scopes))
            raise Forbidden(f"This needs the scope {needed}, which your token does not have.")
        return None if model is None else self.caller(model)

    def remember(self, handler: RequestHandler) -> Callable[[], Awaitable[Caller | None]]:
        token = token_of(handler.request)
        return super().remember(handler) if token is None else partial(self._whose, token)

    async def _whose(self, token: str) -> Caller | None:
        if same(token, self.hub.api_token):
            return SERVICE
        model = await self.hub.user_for_token(token, sync=False)
        return None if model is None or not self._opens(model) else self.caller(model)

    def _opens(self, model: Mapping[str, Any]) -> bool:
        """Whether a token may be used with this service."""
        access = self.hub.access_scopes
        return not access or bool(self.hub.check_scopes(access, model))

    def caller(self, model: Mapping[str, Any]) -> Caller:
        """The caller that a user model of the hub describes, with the scopes of the token."""
        name = str(model["name"])
        return Caller.of(
            UserName(f"service/{name}" if model.get("kind") == "service" else name),
            frozenset(scope for scope in Scope if self._has(scope, model)),
            frozenset(GroupName(str(group)) for group in model.get("groups") or ()),
        )

    def _has(self, scope: Scope, model: Mapping[str, Any]) -> bool:
        name = f"custom:runai:{scope.value}"
        if scope is Scope.ADMIN:
            # A scope that is restricted to a user or server does not count for the whole pool.
            return name in model["scopes"]
        return bool(self.hub.check_scopes({name}, model))

    def pages(self, base_url: str) -> list[tuple[Any, ...]]:
        hub = self.hub

        class Callback(HubOAuthCallbackHandler):  # type: ignore[misc]
            hub_auth = hub

        return [(f"{base_url}oauth_callback", Callback), *page_routes(base_url, self, hub)]
