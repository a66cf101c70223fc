"""`kill -9` of a kernel or a notebook server: the job keeps running, and its output is below its cell again."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator

import psutil
import pytest
from playwright.sync_api import Error, Page, expect

from .conftest import Hub, eventually
from .test_first_light import api, cell_output, in_the_lab, open_notebook, run_all_cells, shot
from .test_rich_output import write_notebook

__all__ = ["in_the_lab"]

pytestmark = pytest.mark.needs("chromium")

CELL = """%%runai_train --name outlives --out y
import os, time
from pathlib import Path
print("begun", flush=True)
while not (Path(os.environ["RUNAI_OUTPUT_DIR"]) / "go").exists(): time.sleep(0.05)
print("went on", flush=True)
y = 7
"""


def processes(hub: Hub, user: str, word: str) -> Iterator[psutil.Process]:
    """The processes in the user's home directory whose command line contains `word`."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            home = process.environ().get("HOME") == str(hub.folder / "users" / user)
            if home and any(word in part for part in process.cmdline()):
                yield process


@pytest.mark.parametrize("victim", ["ipykernel", "singleuser"])
def test_a_job_outlives_the_kernel_and_the_server_and_its_owner_sees_it(
    hub: Hub, in_the_lab: Callable[..., Page], victim: str
) -> None:
    user = f"gus-{victim}"
    page = in_the_lab(user)
    write_notebook(hub, user, "outlives.ipynb", CELL)
    open_notebook(page, hub, user, "outlives.ipynb")
    run_all_cells(page)
    output = cell_output(page, "%%runai_train --name outlives")
    expect(output).to_contain_text("begun", timeout=90_000)
    page.keyboard.press("Control+s")
    expect(page.locator(".lm-TabBar-tab.jp-mod-dirty")).to_have_count(0)
    [job] = api(page, "jobs?mine=true")["jobs"]

    killed = list(processes(hub, user, victim))
    assert killed
    for process in killed:
        process.send_signal(signal.SIGKILL)
    psutil.wait_procs(killed, timeout=30)

    if victim == "singleuser":
        expect(page.locator(".jp-Dialog")).to_contain_text("is not running")

        def started_again() -> bool:
            with contextlib.suppress(Error):  # the page may navigate there by itself
                page.goto(f"{hub.url}hub/spawn/{user}")  # the hub notices the end at its next poll
            return page.locator("#jupyter-config-data").count() > 0 and "/lab" in page.url

        assert eventually(started_again, 90)
        open_notebook(page, hub, user, "outlives.ipynb")
        output = cell_output(page, "%%runai_train --name outlives")
    assert api(page, f"jobs/{job['id']}")["state"] == "running"
    (hub.folder / "pool" / "jobs" / job["id"] / "output" / "go").touch()
    expect(output).to_contain_text("went on", timeout=60_000)
    expect(output.get_by_role("group")).to_contain_text("succeeded")
    assert eventually(lambda: api(page, f"jobs/{job['id']}")["state"] == "succeeded")
    shot(page, f"outlived-{victim}")
