"""The server extension: it brings the pool to the notebook server's user, with the user's own rights and no more.

It holds the token (of the hub, or of an embedded scheduler's state folder) and passes the API on to the browser, which
never sees one. Starting costs the server nothing: where the user has no hub, a scheduler is started when first asked
for.
"""

from __future__ import annotations

import os
from typing import Any

from jupyter_server.extension.application import ExtensionApp
from traitlets import Bool

from jupyter_ext.cell_line import CellLineHandler
from jupyter_ext.connection import Mode
from jupyter_ext.dialog import DryRunHandler, FilesHandler, SubmitHandler
from jupyter_ext.frontend import RENDERER
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
        os.environ[RENDERER] = "jupyterlab"  # for kernels: jobs are shown by the front end that has come with this
        if self.upstream.mode is Mode.EMBEDDED:
            # So that kernels find the same one, whatever their own Jupyter makes of its data folder.
            os.environ.setdefault("RUNAI_STATE_DIR", str(default_state_dir()))

    def initialize_handlers(self) -> None:
        handlers: list[tuple[Any, ...]] = [
            (r"/runai/status", StatusHandler),
            (r"/runai/jobs", SubmitHandler),
            (r"/runai/dry-run", DryRunHandler),
            (r"/runai/files", FilesHandler),
            (r"/runai/line", CellLineHandler),
            (r"/runai/api/v1/events", EventsHandler),
            (r"/runai/api/v1/events/([A-Za-z0-9_-]{1,64})", StreamHandler),
            (r"/runai/api/v1/(.*)", ProxyHandler),
        ]
        self.handlers.extend(handlers)

    async def stop_extension(self) -> None:
        await self.relay.close()
        await self.upstream.close()
