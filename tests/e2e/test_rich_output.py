"""The output of a cell's job stays below the cell after a reload of the page and a restart of the kernel."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from .conftest import Hub, LogIn, eventually
from .test_first_light import api, cell_output, in_the_lab, open_notebook, run_all_cells, shot

__all__ = ["in_the_lab"]

pytestmark = pytest.mark.needs("chromium")

CELL = """%%runai_train --name rich --out step
import os, time
from pathlib import Path
import matplotlib.pyplot as plt
import pandas as pd
from IPython.display import display
from jupyter_ext import job
go = Path(os.environ["RUNAI_OUTPUT_DIR"]) / "go"
print("text before")
plt.plot([3, 2, 1]); plt.show()
for step in range(1, 31):
    job.report(step=step, total=100, loss=1 / step, accuracy=1 - 1 / step)
    time.sleep(0.02)
while not go.exists(): time.sleep(0.05)
print("text between")
display(pd.DataFrame({"epoch": [1, 2], "loss": [0.5, 0.25]}))
while not go.with_name("end").exists(): time.sleep(0.05)
print("text after")
"""


def write_notebook(hub: Hub, user: str, name: str, *cells: str) -> Path:
    path = hub.folder / "users" / user / name
    notebook: dict[str, Any] = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}},
        "cells": [
            {
                "cell_type": "code",
                "id": f"c{n}",
                "metadata": {},
                "source": cell,
                "outputs": [],
                "execution_count": None,
            }
            for n, cell in enumerate(cells)
        ],
    }
    path.write_text(json.dumps(notebook))
    return path


def restart_kernel(page: Page) -> None:
    page.get_by_role("menuitem", name="Kernel", exact=True).click()
    page.get_by_role("menuitem", name=re.compile(r"^Restart Kernel\W*( 0, 0)?$")).click()
    page.locator(".jp-Dialog button.jp-mod-accept").click()


def test_output_stays_over_a_reload_and_a_restart(hub: Hub, in_the_lab: Callable[..., Page], log_in: LogIn) -> None:
    page = in_the_lab("eve")
    write_notebook(hub, "eve", "rich.ipynb", CELL)
    open_notebook(page, hub, "eve", "rich.ipynb")
    run_all_cells(page)
    output = cell_output(page, "%%runai_train --name rich")
    expect(output.locator("img")).to_have_count(1, timeout=90_000)
    expect(output).to_contain_text("text before")
    expect(output.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "30")
    shot(page, "card-running")

    [job] = api(page, "jobs?mine=true")["jobs"]
    outputs = hub.folder / "pool" / "jobs" / job["id"] / "output"
    page.reload()  # the notebook was saved automatically when the card was added
    page.wait_for_selector(".jp-Notebook .jp-CodeCell")
    output = cell_output(page, "%%runai_train --name rich")
    expect(output.locator("img")).to_have_count(1)
    (outputs / "go").touch()
    expect(output.locator("table")).to_have_count(1)  # not from the kernel: its messages do not reach the new page
    expect(output).to_contain_text("text between")
    expect(output.locator("img")).to_have_count(1)

    restart_kernel(page)
    expect(output.locator("table")).to_have_count(1)
    (outputs / "end").touch()
    expect(output).to_contain_text("text after")
    assert eventually(lambda: api(page, f"jobs/{job['id']}")["state"] == "succeeded")
    expect(output.get_by_role("group")).to_contain_text("succeeded")
    output.get_by_role("button", name="Load results (step)").click()  # the new kernel does not have them
    expect(page.get_by_text("Set step in this notebook, from rich.").first).to_be_visible()
    shot(page, "card-results")

    # The saved outputs belong to the notebook: they are complete even without a scheduler.
    path = hub.folder / "users" / "eve" / "rich.ipynb"

    def saved() -> list[dict[str, Any]]:
        page.keyboard.press("Control+s")
        try:
            found: list[dict[str, Any]] = json.loads(path.read_text())["cells"][0]["outputs"]
        except json.JSONDecodeError:
            return []  # the file is being written
        whole = "text after" in json.dumps(found) and "follows" not in json.dumps(found)
        return found if whole else []

    kept = eventually(saved)
    kinds = [next(iter(one["data"])) if "data" in one else one["output_type"] for one in kept]
    assert kinds == [
        "application/vnd.runai.job+json",
        "stream",
        "image/png",
        "stream",
        "text/html",
        "stream",
    ]


def test_the_table_of_a_sweep_goes_on_after_a_reload(hub: Hub, in_the_lab: Callable[..., Page]) -> None:
    page = in_the_lab("ira")
    gate = hub.folder / "gate-of-the-sweep"
    waits = f"import pathlib, time\nwhile not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.05)"
    head = "%%runai_train --name tried --gpus 0 --sweep x=1,2 --minimize loss"
    report = "from jupyter_ext import job\njob.report(loss=x / 4)"
    write_notebook(hub, "ira", "sweep.ipynb", f"{head}\n{report}\n{waits}")
    open_notebook(page, hub, "ira", "sweep.ipynb")
    run_all_cells(page)
    output = cell_output(page, "--name tried")
    expect(output).to_contain_text("Best: tried-0", timeout=60_000)
    page.keyboard.press("Control+s")
    page.reload()
    page.wait_for_selector(".jp-Notebook .jp-CodeCell")
    table = cell_output(page, "--name tried").locator(".runai-Sweep")
    expect(table.get_by_role("status")).to_have_text("tried: 0 of 2 done · best loss 0.25", timeout=30_000)
    gate.touch()
    expect(table.get_by_role("status")).to_have_text("tried: 2 of 2 done · best loss 0.25")
    shot(page, "sweep-after-a-reload")
