"""JupyterLab and another front end on the same kernel: each gets what it can show."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import nbformat
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from playwright.sync_api import Page, expect

from jupyter_ext.frontend import VIEW

from .conftest import Hub
from .test_first_light import api, cell_output, in_the_lab, open_notebook, run_all_cells, shot
from .test_train_cell import KERNEL

__all__ = ["in_the_lab"]

pytestmark = pytest.mark.needs("chromium")

WHERE = "import ipykernel\nprint(ipykernel.get_connection_file())"
SEND = "%runai_train --detach --name shared -- sleep 600"
VS_CODE = {"cellId": "vscode-notebook-cell:/home/vera/a.ipynb#W0sZmlsZQ=="}


class Editor:
    """Another client of a kernel, with the requests of VS Code."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self._client = client

    def shown(self, code: str) -> dict[str, Any]:
        """The mime bundle that an execution displays."""
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": True, "stop_on_error": False}
        message = self._client.session.msg("execute_request", content, metadata=VS_CODE)
        self._client.shell_channel.send(message)
        while True:
            reply = self._client.get_iopub_msg(timeout=60)
            if reply["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            assert reply["msg_type"] != "error", reply["content"]
            if reply["msg_type"] in ("display_data", "execute_result"):
                return dict(reply["content"]["data"])

    def value(self, expression: str) -> str:
        reply = self._client.execute("", user_expressions={"it": expression}, reply=True, timeout=60)
        return str(reply["content"]["user_expressions"]["it"]["data"]["text/plain"])


@contextmanager
def editor(connection_file: str) -> Iterator[Editor]:
    client = BlockingKernelClient(connection_file=connection_file)
    client.load_connection_file()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        yield Editor(client)
    finally:
        client.stop_channels()


def test_two_front_ends_of_one_kernel_each_get_what_they_can_show(hub: Hub, in_the_lab: Callable[..., Page]) -> None:
    page = in_the_lab("vera")
    cells = [nbformat.v4.new_code_cell(source) for source in (WHERE, SEND, "_job")]
    file = hub.folder / "users" / "vera" / "shared.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=KERNEL), file)
    open_notebook(page, hub, "vera", "shared.ipynb")
    run_all_cells(page)
    card = page.locator(".jp-CodeCell").nth(2).locator(".runai-Card")
    expect(card).to_contain_text("running")
    where = re.search(r"/\S+\.json", cell_output(page, "get_connection_file").inner_text())
    assert where is not None

    with editor(where[0]) as vs_code:
        assert vs_code.value("_job._widget is None") == "True"  # the page's executions needed none
        assert VIEW in vs_code.shown("_job")
        vs_code.value("_job._widget.close()")

        page.reload()  # a new connection of the page to the same kernel
        expect(page.locator("#jp-main-statusbar")).to_contain_text("Python 3 (ipykernel) | Idle")
        page.locator(".jp-CodeCell").nth(2).locator(".cm-content").click()
        page.keyboard.press("Control+Enter")
        expect(page.locator(".jp-CodeCell").nth(2).locator(".jp-InputPrompt").first).to_have_text(
            re.compile(r"\[[5-9]\]")
        )
        expect(card).to_contain_text("running")
        assert vs_code.value("_job._widget.comm is None") == "True"
        assert VIEW in vs_code.shown("_job")
    shot(page, "two-front-ends")
    for job in api(page, "jobs")["jobs"]:
        api(page, f"jobs/{job['id']}/cancel", "POST")
