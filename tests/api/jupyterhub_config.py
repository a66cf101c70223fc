"""A hub for the tests of `HubAuthenticator`: real users, tokens, scopes and logins, without a proxy."""

import os
from typing import Any

from jupyterhub.proxy import Proxy

c = get_config()  # type: ignore[name-defined]  # noqa: F821


class NoProxy(Proxy):
    """The tests use the hub's own port."""

    should_start = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.routes: dict[str, dict[str, Any]] = {}

    async def add_route(self, routespec: str, target: str, data: dict[str, Any]) -> None:
        self.routes[routespec] = {"routespec": routespec, "target": target, "data": data}

    async def delete_route(self, routespec: str) -> None:
        self.routes.pop(routespec, None)

    async def get_all_routes(self) -> dict[str, dict[str, Any]]:
        return self.routes


SCOPES = ["custom:runai:read", "custom:runai:submit", "custom:runai:admin"]
ACCESS = "access:services!service=runai"

c.JupyterHub.proxy_class = NoProxy
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = "let-me-in"
c.Authenticator.allow_all = True
c.JupyterHub.bind_url = f"http://127.0.0.1:{os.environ['TEST_HUB_PUBLIC_PORT']}"
c.JupyterHub.hub_ip = "127.0.0.1"
c.JupyterHub.hub_port = int(os.environ["TEST_HUB_PORT"])
c.JupyterHub.db_url = "sqlite:///jupyterhub.sqlite"
c.JupyterHub.cookie_secret_file = "cookie_secret"
c.JupyterHub.custom_scopes = {
    "custom:runai:read": {"description": "read"},
    "custom:runai:submit": {"description": "submit", "subscopes": ["custom:runai:read"]},
    "custom:runai:admin": {"description": "admin", "subscopes": ["custom:runai:submit"]},
}
c.JupyterHub.load_groups = {"vision-team": {"users": ["ben"]}}
c.JupyterHub.load_roles = [
    {"name": "user", "scopes": ["self", ACCESS, "custom:runai:submit"]},
    {"name": "pool-admin", "scopes": [ACCESS, "custom:runai:admin"], "users": ["root"]},
    {
        "name": "tester",
        "scopes": ["admin:users", "tokens", ACCESS, "custom:runai:admin"],
        "services": ["tester"],
    },
    {"name": "robot", "scopes": [ACCESS, "custom:runai:submit"], "services": ["ann"]},
]
c.JupyterHub.services = [
    {
        "name": "runai",
        "api_token": os.environ["TEST_SERVICE_TOKEN"],
        "oauth_client_id": "service-runai",
        "oauth_redirect_uri": "/services/runai/oauth_callback",
        "oauth_client_allowed_scopes": ["custom:runai:admin"],
        "oauth_no_confirm": True,
    },
    {"name": "tester", "api_token": os.environ["TEST_ADMIN_TOKEN"]},
    {"name": "ann", "api_token": os.environ["TEST_ROBOT_TOKEN"]},
]
