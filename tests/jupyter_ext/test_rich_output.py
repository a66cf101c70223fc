"""A cell's displays in a job appear in the notebook, in order, as if it had run there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jupyter_ext.card import MIME
from jupyter_ext.displays import MOST, Displays, display_data
from tests.jupyter_ext.pool import Kernel, Shown


def displayed(shown: Shown) -> list[dict[str, Any]]:
    """The displays beside the card."""
    return [data for data in shown.displays if MIME not in data]


SHOWN = {
    "a plot": ("import matplotlib.pyplot as plt\nplt.plot([1, 2])", "image/png", "<Figure size"),
    "a plot that is asked for": (
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()",
        "image/png",
        "<Figure size",
    ),
    "a table": ("import pandas as pd\npd.DataFrame({'loss': [0.5]})", "text/html", "0   0.5"),
    "html": (
        "from IPython.display import HTML\nHTML('<b>bold</b>')",
        "text/html",
        "<IPython.core.display.HTML",
    ),
    "latex": (
        "from IPython.display import Math, display\ndisplay(Math('x^2'))",
        "text/latex",
        "<IPython.core",
    ),
    "an image": (
        "from IPython.display import Image, display\nimport base64\n"
        "display(Image(base64.b64decode('R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=='), format='gif'))",
        "image/gif",
        "<IPython.core",
    ),
    "an object of one's own": (
        "class Own:\n    def _repr_svg_(self): return '<svg></svg>'\n    def __repr__(self): return 'own'\nOwn()",
        "image/svg+xml",
        "own",
    ),
    "data with NaN": (
        "from IPython.display import display\ndisplay({'application/json': {'y': float('nan')}}, raw=True)",
        "application/json",
        "<application/json>",
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_job_displays_the_same_as_the_cell(name: str, kernel: Kernel) -> None:
    code, mime, plain = SHOWN[name]
    shown = kernel.run(f"%%runai_train\nprint('before')\n{code}")
    assert shown.error is None, shown.error
    assert "before" in shown.stdout
    assert plain not in shown.stdout
    displays = displayed(shown)
    assert len(displays) == 1
    assert displays[0][mime]
    assert plain in kernel.value("_job.logs()")  # in a terminal it is this text


def test_displays_are_in_order_with_the_text(kernel: Kernel) -> None:
    shown = kernel.run(
        "%%runai_train\nimport os\nfrom IPython.display import HTML, display\n"
        "for n in range(3):\n    print('text', n)\n    display(HTML(f'<b>{n}</b>'))\n    os.system('echo from below')"
    )
    order = [data.get("text/html") if kind == "display" else data for kind, data in shown.order if data is not None]
    text = "".join(part for part in order if isinstance(part, str) and "runai" not in part)
    begin = text.index("text 0")
    assert text[begin:] == "".join(f"text {n}\n<b>{n}</b>from below\n" for n in range(3))


def test_a_display_changes_in_place(kernel: Kernel) -> None:
    shown = kernel.run(
        "%%runai_train\nfrom IPython.display import display, HTML\n"
        "h = display(HTML('<i>1</i>'), display_id='same')\nh.update(HTML('<i>2</i>'))"
    )
    assert [data["text/html"] for data in displayed(shown)] == ["<i>1</i>"]
    assert [data["text/html"] for data in shown.updates if MIME not in data] == ["<i>2</i>"]


def test_clearing_the_output_leaves_the_card(kernel: Kernel) -> None:
    shown = kernel.run(
        "%%runai_train\nfrom IPython.display import clear_output\nprint('old')\nclear_output(wait=True)\nprint('new')"
    )
    kinds = [kind for kind, _ in shown.order]
    assert kinds.count("clear") == 1
    after = shown.order[kinds.index("clear") + 1 :]
    assert MIME in after[0][1]
    assert "".join(text for kind, text in after if kind == "text").startswith("new")


def test_a_terminals_progress_bar_is_text(kernel: Kernel) -> None:
    shown = kernel.run("%%runai_train\nfrom tqdm import tqdm\nfor _ in tqdm(range(3)): pass")
    assert "3/3" in shown.stdout
    assert displayed(shown) == []


def test_a_widget_shows_its_text(kernel: Kernel) -> None:
    shown = kernel.run("%%runai_train\nimport ipywidgets\nipywidgets.IntSlider(value=7)")
    assert shown.error is None
    assert "IntSlider(value=7" in shown.stdout


def test_what_is_captured_in_the_cell_is_not_shown(kernel: Kernel) -> None:
    shown = kernel.run(
        "%%runai_train --out n\nfrom IPython.display import HTML, display\nfrom IPython.utils.capture import "
        "capture_output\n"
        "with capture_output() as kept:\n    display(HTML('<b>x</b>'))\nn = len(kept.outputs)"
    )
    assert displayed(shown) == []
    assert kernel.value("n") == "1"


# -- the file of a worker -----------------------------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
from jupyter_ext.displays import Displays, display_data
displays = Displays(Path(sys.argv[1]), limit=5000)
for n in range(10):
    displays.show(display_data({"text/html": "x" * 1000, "text/plain": "p"}, {}), "p\\n")
"""


def test_the_file_never_grows_beyond_its_limit_and_the_text_stays(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WRITER, str(tmp_path)], capture_output=True, text=True, check=True)
    lines = (tmp_path / ".runai-cell" / "displays.1.jsonl").read_bytes().splitlines()
    assert len(lines) == 4
    assert json.loads(lines[0])["at"] is None  # a pipe is no file
    assert done.stdout == "p\n" * 10
    assert done.stderr.count("is too large to keep; its text follows") == 6


def test_one_display_is_bounded_too(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    output = display_data({"text/html": "x" * (MOST + 1)}, {})
    assert output is not None
    Displays(tmp_path).show(output, "p\n")
    assert (tmp_path / ".runai-cell" / "displays.1.jsonl").read_bytes() == b""
    assert "10.0 MiB is too large to keep" in capfd.readouterr().err
