"""The first login opens the sample notebook and the panel, and “Train this cell” trains a cell without any syntax."""

from __future__ import annotations

import json
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
THEMES = ".jupyter/lab/user-settings/@jupyterlab/apputils-extension/themes.jupyterlab-settings"
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


def test_the_form_says_what_goes_along_once_the_kernel_is_idle(hub: Hub, in_the_lab: Callable[..., Page]) -> None:
    """As the dry run says it; the notebook stays as it was."""
    page = in_the_lab("lea")
    folder: Path = hub.folder / "users" / "lea" / "along"
    folder.mkdir()
    (folder / "shapes.py").write_text("AREA = 6\n")
    data = "import numpy as np\nimages = np.zeros((1000, 28, 28))[::2]\nlr = 0.1\nrows = (r for r in images)"
    head = "%%runai_train --gpus 0 --dry-run\n"
    cells = [
        data,
        "while not os.path.exists('go'): time.sleep(0.05)",
        f"{head}print(images.mean() * lr)",
        "sum(rows) + len([a, b, c, d, e, lr])",
    ]
    names = "a, b, c, d, e = 1, 'two', [3.0], {4: 5}, {6}"
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(text) for text in [f"import os, time\n{names}", *cells]], metadata=KERNEL
    )
    nbformat.write(notebook, folder / "along.ipynb")
    open_notebook(page, hub, "lea", "along/along.ipynb")
    for text, prompt in ((names, "[1]:"), ("images = ", "[2]:"), ("while", "[*]:")):
        cell = page.locator(".jp-CodeCell", has_text=text)
        cell.locator(".cm-content").click()
        page.keyboard.press("Shift+Enter")
        expect(cell.locator(".jp-InputPrompt").first).to_have_text(prompt)

    trained = page.locator(".jp-CodeCell", has_text="images.mean()")
    trained.locator(".cm-content").click()
    trained.get_by_role("button", name="Run this cell on the GPU pool").click()
    dialog = page.locator(".runai-SubmitDialog")
    along = dialog.locator(".runai-Along")
    expect(along).to_have_text("What goes along is known once the kernel is idle.")
    shot(page, "along-busy")
    (folder / "go").touch()
    expect(along).to_have_text(
        re.compile(
            r"Takes along images \(ndarray, about 3 MiB\), lr \(float, \d+ B\) and 2 files of this folder \(9 B\)"
        )
    )
    dialog.get_by_label("GPUs", exact=True).fill("1")
    expect(dialog.get_by_role("status")).to_contain_text("It is over quota, and this cell saves nothing: ")
    shot(page, "along")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    trained.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    expect(cell_output(page, "images.mean()")).to_contain_text(
        re.compile(
            r"Takes along images \(ndarray, about 3.0 MiB\), lr \(float, \d+ B\) and 2 files of this folder \(9 B\)"
        )
    )
    expect(trained.locator(".jp-InputPrompt")).to_have_text("[4]:")

    shows_all_variables(page)
    themes: Path = hub.folder / "users" / "lea" / THEMES
    themes.parent.mkdir(parents=True, exist_ok=True)
    themes.write_text(json.dumps({"theme": "JupyterLab Dark"}))
    open_notebook(page, hub, "lea", "along/along.ipynb")
    shows_all_variables(page, "-dark")


def shows_all_variables(page: Page, theme: str = "") -> None:
    last = page.locator(".jp-CodeCell", has_text="sum(rows)")
    last.locator(".cm-content").click()
    last.get_by_role("button", name="Run this cell on the GPU pool").click()
    along = page.locator(".runai-SubmitDialog .runai-Along")
    expect(along).to_contain_text("`rows` can't be sent: generator (cannot pickle 'generator' object).")
    along.get_by_text("All 6 variables").click()
    expect(along.get_by_role("row")).to_have_count(7)
    shot(page, f"along-many{theme}")
    page.set_viewport_size({"width": 640, "height": 900})
    shot(page, f"along-many{theme}-640")
    page.set_viewport_size({"width": 1360, "height": 900})
    page.keyboard.press("Escape")
    expect(along).to_have_count(0)


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
