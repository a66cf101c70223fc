"""The page of the pool for browsers behind a hub, at the root of the service; it shows what the API returns.

It is an empty page that `static/admin.js` fills, as the user who is logged in. It allows no script or style except its
own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jupyterhub.services.auth import HubOAuth, HubOAuthenticated
from tornado.web import HTTPError, RequestHandler, StaticFileHandler, authenticated

from scheduler.api.access import Caller, Scope
from scheduler.api.auth import Authenticator
from scheduler.errors import Forbidden

HERE = Path(__file__).parent
STATIC = HERE / "static"

CSP = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)


def close_headers(handler: RequestHandler) -> None:
    """Forbid foreign scripts, framing, sniffing and referrers."""
    handler.set_header("Content-Security-Policy", CSP)
    handler.set_header("X-Content-Type-Options", "nosniff")
    handler.set_header("Referrer-Policy", "no-referrer")
    handler.clear_header("Server")


class PageHandler(HubOAuthenticated, RequestHandler):  # type: ignore[misc]
    """Sends users who are not logged in to the hub (with PKCE), and shows the page to users with the read scope."""

    def initialize(self, authenticator: Authenticator, hub: HubOAuth) -> None:
        self.authenticator = authenticator
        self.hub_auth = hub

    def set_default_headers(self) -> None:
        close_headers(self)
        self.set_header("Cache-Control", "no-store")

    async def prepare(self) -> None:
        try:
            self.current_user = await self.authenticator.identify(self)
        except Forbidden:
            raise HTTPError(403) from None

    @authenticated
    async def get(self) -> None:
        caller: Caller = self.current_user
        if Scope.READ not in caller.scopes:
            raise HTTPError(403)
        # Reading the token sets its cookie, which the page's script sends with its changes.
        assert self.xsrf_token
        self.render(
            str(HERE / "templates" / "page.html"),
            base_url=self.hub_auth.base_url,
            hub_home=self.hub_auth.hub_host + self.hub_auth.hub_prefix + "home",
            user=caller.name,
            admin=caller.admin,
            script=STATIC.joinpath("admin.js").is_file(),
            style=STATIC.joinpath("admin.css").is_file(),
        )

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        if status_code == 405:
            self.set_header("Allow", "GET")
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(
            "Your account does not have access to the pool. Ask an administrator for the scope custom:runai:read.\n"
            if status_code == 403
            else f"The page cannot be loaded ({status_code}). Try again; the scheduler's log says more.\n"
        )


class PageFiles(StaticFileHandler):
    """The page's script, styles and fonts. They are the same for everybody and contain no data."""

    def set_default_headers(self) -> None:
        close_headers(self)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        if status_code == 405:
            self.set_header("Allow", "GET, HEAD")
        super().write_error(status_code, **kwargs)

    def set_extra_headers(self, path: str) -> None:
        self.set_header("Cache-Control", "no-cache")


def page_routes(base_url: str, authenticator: Authenticator, hub: HubOAuth) -> list[tuple[Any, ...]]:
    return [
        (base_url, PageHandler, {"authenticator": authenticator, "hub": hub}),
        (f"{base_url}static/(.+)", PageFiles, {"path": str(STATIC)}),
    ]
