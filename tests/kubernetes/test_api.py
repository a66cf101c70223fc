"""Calls to an API server that is slow, or stops answering."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from threading import Thread

import psutil
import pytest
from aiohttp import web

from hub_spawner.ports import any_free
from scheduler.engines.kubernetes import api as module
from scheduler.engines.kubernetes.api import Api
from tests.kubernetes.certificates import Authority

KUBECONFIG = """
current-context: it
contexts: [{{name: it, context: {{cluster: it, user: it}}}}]
clusters: [{{name: it, cluster: {{server: "{url}", certificate-authority: {ca}}}}}]
users: [{{name: it, user: {{token: secret}}}}]
"""
EVENT = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n"


async def test_a_call_has_its_time_from_its_turn_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six calls that take half a second each, one at a time: the last ones queue for longer than a call may take."""
    monkeypatch.setattr(module, "CONNECTIONS", 1)
    monkeypatch.setattr(module, "PATIENCE", 2.0)

    async def answer(request: web.Request) -> web.Response:
        await asyncio.sleep(0.5)
        return web.json_response({"path": request.path})

    app = web.Application()
    app.router.add_get("/{path}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port := any_free())
    await site.start()
    (tmp_path / "kubeconfig").write_text(KUBECONFIG.format(url=f"http://127.0.0.1:{port}", ca=Authority(tmp_path).cert))
    api = Api(str(tmp_path / "kubeconfig"))
    await api.open()
    answers = await asyncio.gather(*(api.get(f"/{number}") for number in range(6)))
    assert [each["path"] for each in answers] == [f"/{number}" for number in range(6)]
    await api.close()
    await runner.cleanup()


async def test_a_watch_of_a_silent_server_ends_at_once(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    signed = authority.sign("server", "server")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(signed.cert, signed.key)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        silent: list[ssl.SSLSocket] = []

        def answer_once() -> None:
            connection = context.wrap_socket(listening.accept()[0], server_side=True)
            connection.recv(65536)
            connection.sendall(EVENT)
            silent.append(connection)

        server = Thread(target=answer_once)
        server.start()
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG.format(url=f"https://127.0.0.1:{port}", ca=authority.cert))
        api = Api(str(kubeconfig))
        await api.open()
        arrived = asyncio.Event()

        async def watch() -> None:
            async for _ in api.lines("/watch", 60):
                arrived.set()

        watching = asyncio.create_task(watch())
        await arrived.wait()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await api.close()
        server.join()
        open_connections = [
            made for made in psutil.Process().net_connections() if made.raddr and made.raddr.port == port
        ]
        silent[0].close()
    assert open_connections == []
