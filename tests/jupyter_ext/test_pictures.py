"""Progress bars and other widgets of a job are shown as pictures, and updated in place."""

from __future__ import annotations

import re
from typing import Any

import nbformat
import pytest

from jupyter_ext.card import MIME
from jupyter_ext.pictures import WIDGETS, Pictures
from tests.jupyter_ext.pool import Kernel, RunningPool, Shown

BAR = """import time
from tqdm.{module} import tqdm
for step in tqdm(range(8), desc="<Training>"):
    time.sleep(0.2)
"""


def pictures(shown: Shown) -> list[str]:
    """The successive pictures of a display."""
    return [data["text/html"] for data in (*shown.displays, *shown.updates) if MIME not in data]


def is_a_bar_that_moves(shown: Shown) -> None:
    parts = [float(part) for one in pictures(shown) for part in re.findall(r'value="([0-9.]+)"', one)]
    assert len(shown.displays) == 2  # the card, and one bar
    assert parts[0] == 0.0
    assert parts[-1] == 1.0
    assert parts == sorted(parts)
    assert any(0 < part < 1 for part in parts)
    assert "&lt;Training&gt;" in pictures(shown)[-1]
    assert "8/8" in pictures(shown)[-1]


@pytest.mark.parametrize("module", ["notebook", "auto"])
def test_a_notebooks_progress_bar_moves_in_a_cells_job(module: str, kernel: Kernel) -> None:
    shown = kernel.run("%%runai_train\n" + BAR.format(module=module))
    assert shown.error is None, shown.error
    is_a_bar_that_moves(shown)
    assert "%|" not in shown.stdout
    log = kernel.value("_job.logs()")
    assert "0/8" in log
    assert "<Training>: 100% 8/8" in log.replace("\\u2007", "")


def test_and_in_a_notebooks_job(kernel: Kernel) -> None:
    cells = [nbformat.v4.new_code_cell(BAR.format(module="auto")), nbformat.v4.new_code_cell("print('end')")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), kernel.folder / "bar.ipynb")
    shown = kernel.run("%runai_train bar.ipynb")
    assert shown.error is None, shown.error
    is_a_bar_that_moves(shown)
    assert "end\n" in shown.stdout


def test_a_removed_bar_leaves_nothing_and_other_widgets_are_text(kernel: Kernel, pool: RunningPool) -> None:
    shown = kernel.run(
        """%%runai_train
import ipywidgets as widgets
from IPython.display import display
from tqdm.notebook import trange
for _ in trange(3, leave=False): pass
display(widgets.IntSlider(3))
progress = widgets.IntProgress(3, max=12, description="so far")
widgets.VBox([widgets.Label("a < b"), progress, widgets.HTML("<b>bold</b>")])
"""
    )
    gone, boxed = (data["text/html"] for data in shown.displays if MIME not in data)
    assert 'value="0.0000"' in gone
    assert "" in pictures(shown)
    assert "IntSlider(value=3)" in shown.stdout
    assert "a &lt; b" in boxed
    assert 'value="0.2500"' in boxed
    assert "<b>bold</b>" in boxed


@pytest.mark.parametrize("at_least", [1, 3])
def test_the_last_picture_shows_the_last_state(at_least: int) -> None:
    told: list[dict[str, Any]] = []
    drawn = Pictures(lambda output, plain: told.append({**output, "plain": plain}))
    drawn.told("comm_open", "m", {"state": {"_model_name": "LabelModel", "value": "0"}})
    assert drawn.picture({WIDGETS: {"model_id": "other"}}) is None
    assert drawn.picture({"text/plain": "0"}) is None
    first = drawn.picture({WIDGETS: {"model_id": "m"}})
    assert first is not None
    for value in range(at_least * 100):
        drawn.told("comm_msg", "m", {"method": "update", "state": {"value": str(value)}})
    drawn.close()
    assert len(told) < at_least * 100  # not each change is worth a line
    assert told[-1]["data"]["text/html"] == f"<span> {at_least * 100 - 1}</span>"
    assert told[-1]["plain"] == f"{at_least * 100 - 1}\n"
    assert told[-1]["transient"] == first["transient"]
    drawn.close()
    assert told[-1]["plain"] == f"{at_least * 100 - 1}\n"
