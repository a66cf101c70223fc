"""For operators and monitoring: liveness, readiness, metrics and the API description."""

from __future__ import annotations

from scheduler.api.access import Caller, Scope
from scheduler.api.auth import same, token_of
from scheduler.api.base import ApiHandler
from scheduler.api.endpoint import TEXT, endpoint
from scheduler.errors import Unavailable
from scheduler.model import UserName


class HealthHandler(ApiHandler):
    @endpoint("200 as long as the process answers", None, media=TEXT)
    async def get(self) -> None:
        self.set_header("Content-Type", "text/plain")
        self.finish("ok\n")


class ReadyHandler(ApiHandler):
    @endpoint(
        "200 when the state is loaded, plans are made and changes can be written",
        None,
        media=TEXT,
        refuses=(Unavailable,),
    )
    async def get(self) -> None:
        controller = self.api.controller
        if not controller.ready:
            raise Unavailable("The scheduler is starting or stopping; try again in a moment.")
        if controller.trouble is not None:
            raise controller.trouble
        await self.api.disk.check()
        self.set_header("Content-Type", "text/plain")
        self.finish("ok\n")


class MetricsHandler(ApiHandler):
    """For administrators, and for the scrape token, which opens nothing else."""

    async def authenticate(self, scope: Scope) -> Caller:
        token, scrape = token_of(self.request), self.api.scrape_token
        if token is not None and scrape is not None and same(token, scrape):
            return Caller(UserName("metrics"), frozenset())
        return await super().authenticate(scope)

    @endpoint("Metrics for Prometheus", Scope.ADMIN, media=TEXT)
    async def get(self) -> None:
        self.set_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.finish(self.api.metrics.text())


class OpenApiHandler(ApiHandler):
    @endpoint("This API, described in OpenAPI 3.1", None)
    async def get(self) -> None:
        self.set_header("Content-Type", "application/json")
        self.finish(self.settings["openapi"])
