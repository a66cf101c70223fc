"""The validating webhook: `kubectl apply` refuses TrainJobs and Projects that the scheduler would refuse.

What must hold: the answer is the API's, with its sentence. An object that is being deleted, or whose spec does not
change, is always admitted, so that nothing gets stuck. What may succeed later is admitted, too: the operator tries it
again, and its conditions say so.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.web import Application, RequestHandler

from scheduler.api.context import Context
from scheduler.engines.kubernetes.api import ApiError
from scheduler.engines.kubernetes.settings import Kubernetes
from scheduler.errors import Invalid, RunaiError, TooMany, Unavailable
from scheduler.operator.asked import asked_job, asked_pool
from scheduler.operator.resources import viewed
from scheduler.pool.changes import refuse_harm

log = logging.getLogger(__name__)

LARGEST = 8 * 2**20
"""Bytes of a review: the API server stores objects of up to 1.5 MiB, and sends the object before and after a change."""

RELOAD = 60.0
"""Seconds between two readings of the certificate, which is renewed in place."""


class Webhook:
    """`user_of` returns the user of a namespace, or an empty string."""

    def __init__(self, settings: Kubernetes, context: Context, user_of: Callable[[str], Awaitable[str]]) -> None:
        self._folder = Path(settings.webhook_certificate)
        self._port = settings.webhook_port
        self._context = context
        self._user_of = user_of
        self._server = HTTPServer(
            Application([("/validate", Reviews, {"webhook": self})], log_function=lambda handler: None),
            max_body_size=LARGEST,
            idle_connection_timeout=300,
            body_timeout=30,
        )
        self._reloading: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Raises `Invalid` where the certificate cannot be read, or nothing can listen on the port."""
        try:
            self._server.ssl_options = self._tls()
            self._server.listen(self._port)
        except OSError as error:  # SSLError is one
            raise Invalid(
                f"The webhook needs tls.crt and tls.key in {self._folder}, and port {self._port}: {error}",
                field="webhook_certificate",
            ) from error
        self._reload_later()

    async def close(self) -> None:
        if self._reloading is not None:
            self._reloading.cancel()
        self._server.stop()
        await self._server.close_all_connections()

    async def refusal(self, request: Mapping[str, Any]) -> RunaiError | None:
        """Why a change is refused; `None`: it is admitted. Raises `LookupError` for what is no request."""
        item, before = viewed(request["object"]), request.get("oldObject") or {}
        if item["metadata"].get("deletionTimestamp") or item["spec"] == before.get("spec"):
            return None
        try:
            if request["resource"]["resource"] == "projects":
                after, now = asked_pool(self._context, item), self._context.controller.snapshot()
                refuse_harm(self._context.book.pool, after, now.workloads, now.nodes)
            elif not item["status"].get("jobId"):  # otherwise the change has no effect, as its conditions say
                user = await self._user_of(item["metadata"]["namespace"])
                await self._context.controller.check(await asked_job(self._context, item, user, None))
        except (TooMany, Unavailable, ApiError):
            return None
        except RunaiError as error:
            return error
        return None

    def _tls(self) -> ssl.SSLContext:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(self._folder / "tls.crt", self._folder / "tls.key")
        return tls

    def _reload_later(self) -> None:
        self._reloading = asyncio.get_running_loop().call_later(RELOAD, self._reload)

    def _reload(self) -> None:
        with suppress(OSError):  # it is being replaced
            self._server.ssl_options = self._tls()
        self._reload_later()


class Reviews(RequestHandler):
    """Answers AdmissionReviews."""

    def initialize(self, webhook: Webhook) -> None:
        self._webhook = webhook

    async def post(self) -> None:
        try:
            review = json.loads(self.request.body)
            uid, version = review["request"]["uid"], review["apiVersion"]
            error = await self._webhook.refusal(review["request"])
        except (ValueError, LookupError, TypeError, AttributeError):
            self.set_status(400)
            self.finish("Send an AdmissionReview of Kubernetes.\n")
            return
        response: dict[str, Any] = {"uid": uid, "allowed": error is None}
        if error is not None:
            response["status"] = {"code": error.status, "reason": type(error).__name__, "message": error.sentence}
        self.finish({"apiVersion": version, "kind": "AdmissionReview", "response": response})
