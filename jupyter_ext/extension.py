"""The server extension: gives the notebook server's user access to the pool, with the user's own permissions.

It holds the token (of the hub, or of an embedded scheduler's state folder) and forwards the API to the browser, which
never sees a token. It does not slow the server's start: without a hub, a scheduler is started on first use.
"""

from __future__ import annotations

import os
from typing import Any

from jupyter_server.extension.application import ExtensionApp
from traitlets import Bool

from jupyter_ext.activity import ActivityHandler, ActivityReports, holds_gpus
from jupyter_ext.cell_line import CellLineHandler
from jupyter_ext.connection import Mode
from jupyter_ext.dialog import CloneHandler, DryRunHandler, FilesHandler, SubmitHandler
from jupyter_ext.form_templates import JobFileHandler, TemplatesHandler
from jupyter_ext.frontend import ROOT
from jupyter_ext.proxy import EventsHandler, ProxyHandler, StatusHandler, StreamHandler
from jupyter_ext.relay import Relay
from jupyter_ext.upstream import Upstream
from scheduler.discovery.statefolder import default_state_dir


class RunaiExtension(ExtensionApp):
    """`/runai/…` of a notebook server."""

    name = "jupyter_runai"

    embedded = Bool(True, help="Whether to start a scheduler for this user if there is no hub and none runs.").tag(
        config=True
    )

    def initialize_settings(self) -> None:
        self.upstream = Upstream(embedded=self.embedded)
        self.relay = Relay(self.upstream)
        self.settings["runai_upstream"] = self.upstream
        self.settings["runai_relay"] = self.relay
        assert self.serverapp is not None
        kernels, server = self.serverapp.kernel_manager, os.environ.get("JUPYTERHUB_SERVER_NAME", "")
        self.activity = ActivityReports(self.upstream, kernels.list_kernels, kernels.shutdown_all, server)
        self.settings["runai_activity"] = self.activity
        os.environ[ROOT] = self.serverapp.root_dir
        if self.upstream.mode is Mode.EMBEDDED:
            # So that kernels find the same scheduler, whatever their own Jupyter's data folder is.
            os.environ.setdefault("RUNAI_STATE_DIR", str(default_state_dir()))

    def initialize_handlers(self) -> None:
        handlers: list[tuple[Any, ...]] = [
            (r"/runai/status", StatusHandler),
            (r"/runai/jobs", SubmitHandler),
            (r"/runai/dry-run", DryRunHandler),
            (r"/runai/files", FilesHandler),
            (r"/runai/form", CloneHandler),
            (r"/runai/line", CellLineHandler),
            (r"/runai/templates", TemplatesHandler),
            (r"/runai/job-file", JobFileHandler),
            (r"/runai/activity", ActivityHandler),
            (r"/runai/api/v1/events", EventsHandler),
            (r"/runai/api/v1/events/([A-Za-z0-9_-]{1,64})", StreamHandler),
            (r"/runai/api/v1/(.*)", ProxyHandler),
        ]
        self.handlers.extend(handlers)

    async def _start_jupyter_server_extension(self, serverapp: Any) -> None:
        if self.upstream.mode is Mode.HUB and holds_gpus():
            self.activity.begin()

    async def stop_extension(self) -> None:
        await self.activity.end()
        await self.relay.close()
        await self.upstream.close()
