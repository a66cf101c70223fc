"""Run cells in a user's server as a browser does: through the proxy, over a websocket."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import Any

import httpx
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect


@dataclass
class Cell:
    """A cell's result: its output, its value, and its error."""

    printed: str = ""
    value: str = ""
    error: str = ""
    displayed: list[dict[str, Any]] = field(default_factory=list)


class Notebook:
    """A kernel of the server at `url`, whose owner's token is `token`."""

    def __init__(self, url: str, token: str) -> None:
        self._headers = {"Authorization": f"token {token}"}
        self._url = f"{url.rstrip('/')}/api/kernels"
        kernel = httpx.post(self._url, headers=self._headers, json={"name": "python3"}, timeout=60).raise_for_status()
        self._id = kernel.json()["id"]

    async def run(self, code: str) -> Cell:
        request = HTTPRequest(f"ws{self._url.removeprefix('http')}/{self._id}/channels", headers=self._headers)
        socket = await websocket_connect(request)
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": True}
        header = {"msg_id": uuid.uuid4().hex, "msg_type": "execute_request", "session": "tests", "version": "5.3"}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        await socket.write_message(json.dumps(message))
        cell = Cell()
        said: str | bytes | None = b""
        try:
            while (said := await socket.read_message()) is not None:
                told = json.loads(said)
                if told["parent_header"].get("msg_id") == header["msg_id"] and not _take(cell, told):
                    return cell
            raise AssertionError("the server closed the connection")
        finally:
            socket.close()
            while said is not None:  # until the server has also closed it
                said = await socket.read_message()


def _take(cell: Cell, told: dict[str, Any]) -> bool:
    """Process a kernel's message about a cell; returns whether more will follow."""
    content = told["content"]
    match told["msg_type"]:
        case "stream":
            cell.printed += content["text"]
        case "execute_result":
            cell.value = content["data"]["text/plain"]
        case "display_data":
            cell.displayed.append(content["data"])
        case "error":
            cell.error = f"{content['ename']}: {content['evalue']}"
        case "status":
            return bool(content["execution_state"] != "idle")
    return True
