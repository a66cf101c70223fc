"""A cluster behind the proxy in the environment's variables."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from scheduler.engines.kubernetes.api import Api, ApiError

KUBECONFIG = """
current-context: it
contexts: [{name: it, context: {cluster: it, user: it}}]
clusters: [{name: it, cluster: {server: "https://cluster.example:6443"}}]
users: [{name: it, user: {token: secret}}]
"""


@pytest.mark.parametrize(("others", "asked"), [("", {b"CONNECT cluster.example:6443 HTTP/1.1"}), (".example", set())])
async def test_calls_go_through_the_proxy_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: str, asked: set[bytes]
) -> None:
    heard: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append((await reader.readline()).strip())
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(hear, "127.0.0.1")
    async with server:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        monkeypatch.setenv("no_proxy", others)
        file = tmp_path / "kubeconfig"
        file.write_text(KUBECONFIG)
        api = Api(str(file))
        await api.open()
        with pytest.raises(ApiError) as error:
            await api.get("/version")
        await api.close()
    assert error.value.passing
    assert set(heard) == asked  # an unanswered call is repeated
