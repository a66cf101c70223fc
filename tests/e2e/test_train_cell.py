"""The first login opens the sample notebook and the panel, and “Train this cell” trains a cell without any syntax."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Page, expect

from .conftest import Hub, LogIn, eventually
from .test_first_light import api, cell_output, in_the_lab, open_notebook, shot

__all__ = ["in_the_lab"]

pytestmark = pytest.mark.needs("chromium")

KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}}
SETTINGS = ".jupyter/lab/user-settings/jupyter-runai/welcome.jupyterlab-settings"


def test_the_first_login_opens_the_sample_notebook_and_the_panel(hub: Hub, log_in: LogIn) -> None:
    page = log_in("lea")
    page.goto(f"{hub.url}hub/spawn")
    page.wait_for_url(re.compile("/user/lea/lab"), timeout=90_000)
    expect(page.locator(".jp-Notebook .jp-CodeCell").first).to_be_visible(timeout=60_000)
    expect(page.locator(".runai-Panel")).to_be_visible()
    shot(page, "first-login")
    settings: Path = hub.folder / "users" / "lea" / SETTINGS
    assert eventually(lambda: settings.exists() and "false" in settings.read_text())
    page.goto(f"{hub.url}user/lea/lab?reset")
    expect(page.locator(".jp-Launcher")).to_be_visible(timeout=60_000)
    expect(page.locator(".jp-Notebook")).to_have_count(0)


def test_a_cell_is_trained_by_mouse(hub: Hub, in_the_lab: Callable[..., Page]) -> None:
    page = in_the_lab("lea")
    cells = [
        nbformat.v4.new_code_cell(source) for source in ("half = 20", "answer = 2 * half + 2\nprint('it is', answer)")
    ]
    cells.append(nbformat.v4.new_code_cell("print('here', answer)"))
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=KERNEL), hub.folder / "users" / "lea" / "cells.ipynb")
    open_notebook(page, hub, "lea", "cells.ipynb")
    page.locator(".jp-CodeCell", has_text="half = 20").locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    cell = page.locator(".jp-CodeCell", has_text="2 * half")
    cell.locator(".cm-content").click()
    cell.get_by_role("button", name="Run this cell on the GPU pool").click()

    dialog = page.locator(".runai-SubmitDialog")
    expect(dialog.get_by_label("GPUs", exact=True)).to_be_focused()
    dialog.get_by_label("GPUs", exact=True).fill("0.5")
    dialog.get_by_label("Returned variables", exact=True).fill("answer")
    expect(dialog.locator(".runai-Submit-line")).to_have_text("%%runai_train --gpus 0.5 --out answer")
    shot(page, "train-cell")
    dialog.get_by_role("button", name="Send").click()
    expect(dialog).to_have_count(0)
    expect(cell).to_contain_text("%%runai_train --gpus 0.5 --out answer")
    expect(cell_output(page, "2 * half")).to_contain_text("it is 42", timeout=60_000)
    expect(cell.locator(".runai-Card")).to_contain_text("succeeded", timeout=60_000)

    page.locator(".jp-CodeCell", has_text="print('here'").locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    expect(cell_output(page, "print('here'")).to_contain_text("here 42")

    cell.locator(".cm-content").click(button="right")
    page.get_by_role("menuitem", name="Train This Cell…").click()
    expect(dialog.get_by_label("GPUs", exact=True)).to_have_value("0.5")
    expect(dialog.get_by_label("GPUs", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    shot(page, "trained-cell")


def test_a_job_leads_back_to_its_cell(hub: Hub, in_the_lab: Callable[..., Page]) -> None:
    """Also where the notebook is no longer open; its cell is the last of many."""
    page = in_the_lab("lea")
    cells = [nbformat.v4.new_code_cell(f"n = {n}\n" * 12) for n in range(8)]
    cells.append(nbformat.v4.new_code_cell("%runai_train --gpus 0 --name leads -- echo trained", id="trains"))
    folder: Path = hub.folder / "users" / "lea" / "work"
    folder.mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=KERNEL), folder / "many.ipynb")
    open_notebook(page, hub, "lea", "work/many.ipynb")
    cell = page.locator(".jp-CodeCell", has_text="--name leads")
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    expect(cell.locator(".runai-Card")).to_contain_text("succeeded", timeout=60_000)
    (job,) = [job["id"] for job in api(page, "jobs")["jobs"] if job["name"] == "leads"]
    assert api(page, f"jobs/{job}/submission")["cell"] == {"notebook": "work/many.ipynb", "id": "trains"}

    page.goto(f"{hub.url}user/lea/lab?reset")
    page.locator(".runai-Status").click()
    row = page.locator(".runai-Job", has_text="leads")
    row.hover()
    row.get_by_role("button", name="Open leads").click()
    shown = page.locator(".runai-JobPage").get_by_role("button", name="Go to the cell in work/many.ipynb")
    expect(shown).to_be_visible()
    shot(page, "job-with-cell")
    shown.click()
    expect(page.locator(".jp-Cell.jp-mod-active", has_text="--name leads")).to_be_in_viewport()
    shot(page, "back-in-cell")
