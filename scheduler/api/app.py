"""The API as a Tornado application: every path and its handler."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tornado.iostream import IOStream
from tornado.web import Application

from scheduler.api.agent import AGENT_ROUTES
from scheduler.api.audit import AuditHandler
from scheduler.api.base import ApiHandler, NoSuchPath
from scheduler.api.bundles import BlobHandler
from scheduler.api.connections import Connections
from scheduler.api.context import Context, Courier
from scheduler.api.declaredload import WithDeclaredLoad
from scheduler.api.displays import DisplayHandler
from scheduler.api.events import EventsHandler, StreamHandler
from scheduler.api.forecast import ForecastHandler
from scheduler.api.gpus import GpuHistoryHandler, NodeGpusHandler
from scheduler.api.jobgpus import JobGpuUseHandler
from scheduler.api.jobs import (
    ArraysHandler,
    CancelHandler,
    CheckHandler,
    DryRunHandler,
    ExplainHandler,
    JobHandler,
    JobsHandler,
    PauseHandler,
    ResumeHandler,
    SubmissionHandler,
)
from scheduler.api.logs import LogHandler, LogTimesHandler
from scheduler.api.metrics import Metrics
from scheduler.api.nodes import DrainHandler, NodePoolHandler
from scheduler.api.nodesamples import NodeSamplesHandler
from scheduler.api.notices import NoticesHandler, NoticesTestHandler
from scheduler.api.openapi import describe
from scheduler.api.ops import HealthHandler, MetricsHandler, OpenApiHandler, ReadyHandler
from scheduler.api.outputs import OutputHandler, OutputsHandler
from scheduler.api.owners import Owners
from scheduler.api.policies import PoliciesHandler
from scheduler.api.pool import (
    MeHandler,
    PoolApplyHandler,
    PoolFileHandler,
    PoolHandler,
    PoolPreviewHandler,
    ProjectHandler,
    ProjectsHandler,
    SnapshotHandler,
)
from scheduler.api.poolhistory import PoolHistoryHandler
from scheduler.api.reports import LatestReportsHandler, ReportHandler
from scheduler.api.schedules import RunHandler, ScheduleHandler, SchedulesHandler
from scheduler.api.sessions import ActivityHandler, SessionHandler, SessionsHandler, StopHandler
from scheduler.api.usage import UsageHandler, UsageTableHandler
from scheduler.api.users import GroupQuotaHandler, UserQuotaHandler, UsersHandler
from scheduler.api.whatif import RecordHandler, WhatIfHandler
from scheduler.files.blobs import MAX_BYTES
from scheduler.files.disk import Disk

if TYPE_CHECKING:
    from scheduler.api.auth import Authenticator
    from scheduler.controller import Controller
    from scheduler.engines.backend import Backend
    from scheduler.files.blobs import Blobs

ROUTES: tuple[tuple[str, type[ApiHandler]], ...] = (
    ("/api/v1/me", MeHandler),
    ("/api/v1/me/notices", NoticesHandler),
    ("/api/v1/me/notices/test", NoticesTestHandler),
    ("/api/v1/pool", PoolHandler),
    ("/api/v1/policies", PoliciesHandler),
    ("/api/v1/pool/file", PoolFileHandler),
    ("/api/v1/pool/apply", PoolApplyHandler),
    ("/api/v1/pool/preview", PoolPreviewHandler),
    ("/api/v1/pool/snapshot", SnapshotHandler),
    ("/api/v1/pool/history", PoolHistoryHandler),
    ("/api/v1/audit", AuditHandler),
    ("/api/v1/usage", UsageHandler),
    ("/api/v1/usage.csv", UsageTableHandler),
    ("/api/v1/usage/forecast", ForecastHandler),
    ("/api/v1/usage/record", RecordHandler),
    ("/api/v1/usage/what-if", WhatIfHandler),
    ("/api/v1/nodes/{node}/drain", DrainHandler),
    ("/api/v1/nodes/{node}/node-pool", NodePoolHandler),
    ("/api/v1/nodes/{node}/gpus", NodeGpusHandler),
    ("/api/v1/nodes/{node}/gpus/{gpu}/history", GpuHistoryHandler),
    ("/api/v1/projects", ProjectsHandler),
    ("/api/v1/projects/{name}", ProjectHandler),
    ("/api/v1/jobs", JobsHandler),
    ("/api/v1/arrays", ArraysHandler),
    ("/api/v1/jobs/check", CheckHandler),
    ("/api/v1/jobs/dry-run", DryRunHandler),
    ("/api/v1/jobs/{job_id}", JobHandler),
    ("/api/v1/jobs/{job_id}/explain", ExplainHandler),
    ("/api/v1/jobs/{job_id}/submission", SubmissionHandler),
    ("/api/v1/jobs/{job_id}/cancel", CancelHandler),
    ("/api/v1/jobs/{job_id}/pause", PauseHandler),
    ("/api/v1/jobs/{job_id}/resume", ResumeHandler),
    ("/api/v1/jobs/{job_id}/logs", LogHandler),
    ("/api/v1/jobs/{job_id}/log-times", LogTimesHandler),
    ("/api/v1/jobs/{job_id}/gpu-use", JobGpuUseHandler),
    ("/api/v1/jobs/{job_id}/display", DisplayHandler),
    ("/api/v1/jobs/{job_id}/metrics", ReportHandler),
    ("/api/v1/reports", LatestReportsHandler),
    ("/api/v1/jobs/{job_id}/outputs", OutputsHandler),
    ("/api/v1/jobs/{job_id}/outputs/{path}", OutputHandler),
    ("/api/v1/blobs/{digest}", BlobHandler),
    ("/api/v1/sessions", SessionsHandler),
    ("/api/v1/sessions/activity", ActivityHandler),
    ("/api/v1/sessions/{session_id}", SessionHandler),
    ("/api/v1/sessions/{session_id}/stop", StopHandler),
    ("/api/v1/schedules", SchedulesHandler),
    ("/api/v1/schedules/{schedule}", ScheduleHandler),
    ("/api/v1/schedules/{schedule}/run", RunHandler),
    ("/api/v1/users", UsersHandler),
    ("/api/v1/users/{name}/build-quota", UserQuotaHandler),
    ("/api/v1/groups/{name}/build-quota", GroupQuotaHandler),
    ("/api/v1/events", EventsHandler),
    ("/api/v1/events/{stream_id}", StreamHandler),
    *AGENT_ROUTES,
    ("/api/v1/node-samples", NodeSamplesHandler),
    ("/api/v1/openapi.json", OpenApiHandler),
    ("/healthz", HealthHandler),
    ("/readyz", ReadyHandler),
    ("/metrics", MetricsHandler),
)
"""Every path below the base path. A `{name}` or `{path}` may contain slashes; the others are one segment."""

PATTERNS = {
    "name": r"(?P<name>.+)",
    "path": r"(?P<path>.+)",
    "job_id": r"(?P<job_id>[A-Za-z0-9._@%-]{1,400})",
    "schedule": r"(?P<schedule>[A-Za-z0-9._@%-]{1,400})",
    "stream_id": r"(?P<stream_id>[A-Za-z0-9_-]{1,64})",
    "session_id": r"(?P<session_id>[A-Za-z0-9_-]{1,64})",
    "digest": r"(?P<digest>[0-9a-f]{64})",
    "node": r"(?P<node>[^/]{1,253})",
    "gpu": r"(?P<gpu>[A-Za-z0-9-]{1,9})",
    "area": r"(?P<area>[a-z0-9-]+)",
}


def pattern(path: str) -> str:
    """The regular expression of a path in `ROUTES`."""
    for name, expression in PATTERNS.items():
        path = path.replace(f"{{{name}}}", expression)
    return path


def make_app(
    controller: Controller,
    blobs: Blobs,
    backend: Backend,
    authenticator: Authenticator,
    *,
    state_dir: Path,
    base_url: str = "/",
    scrape_token: str | None = None,
    max_blob: int = MAX_BYTES,
    metrics: Metrics | None = None,
    connections: int | None = None,
    courier: Courier | None = None,
    clock: Callable[[], float] = time.time,
) -> Application:
    """The API under `base_url` (with a slash at both ends). `max_blob` bounds a bundle, in bytes; `metrics` is given if
    it times the plans; `connections` is the most that may be open (default: what the system's limits allow); without a
    `courier` there are no notices outside the browser.

    Must be made in the event loop that it will be served in.
    """
    metrics = metrics or Metrics()
    metrics.watch(lambda: controller.book, backend.inventory)
    controller.watch_forecasts(metrics.erred)
    following = asyncio.create_task(metrics.follow(controller))
    load = WithDeclaredLoad(backend.inventory, lambda: controller.book, state_dir / "declared-gpus", clock)
    api = Context(
        controller=controller,
        blobs=blobs,
        files=backend.files,
        inventory=load,
        traits=backend.traits,
        authenticator=authenticator,
        owners=Owners(state_dir / "blobs" / "owners", blobs.size),
        base_url=base_url,
        metrics=metrics,
        scrape_token=scrape_token or None,
        max_blob=max_blob,
        connections=Connections(IOStream.close, connections),
        disk=Disk(state_dir),
        agents=backend.agents,
        node_agents=backend.node_agents,
        clock=clock,
        notebooks=backend.notebooks,
        courier=courier,
    )
    prefix = base_url.rstrip("/")
    routes: list[Any] = [(prefix + pattern(path), handler) for path, handler in ROUTES]
    return Application(
        [*routes, *authenticator.pages(base_url)],
        default_handler_class=NoSuchPath,
        api=api,
        following=following,
        openapi=json.dumps(describe(ROUTES, base_url)),
        # Logins of a browser end with this process; the hub gives a new one without asking.
        cookie_secret=secrets.token_bytes(32),
        log_function=lambda handler: None,
    )
