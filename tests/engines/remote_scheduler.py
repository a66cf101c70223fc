"""A scheduler with remote workers in a separate process, to be killed: `python -m … STATE_DIR CONTAINERS PORT`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tornado.netutil import bind_sockets

from scheduler.api.app import make_app
from scheduler.api.auth import TokenAuth
from scheduler.api.server import make_server
from scheduler.controller import Controller
from scheduler.files.blobs import Blobs
from scheduler.store import Store
from tests.engines.remote import ADDRESS, Containers, remote

TOKEN = "key-of-the-only-user"


async def main(state_dir: Path, containers: Path, port: int) -> None:
    store = Store(f"sqlite:///{state_dir}/runai.sqlite")
    store.open()
    backend = remote(state_dir, Containers(containers), f"http://{ADDRESS}:{port}")
    await backend.leadership.acquire()
    controller = Controller(store, backend)
    await controller.start()
    app = make_app(controller, Blobs(state_dir), backend, TokenAuth(TOKEN, "ann"), state_dir=state_dir)
    server = make_server(app)
    server.add_sockets(bind_sockets(port, ADDRESS))
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
