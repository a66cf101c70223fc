"""The card from ipywidgets, as received by a front end: messages of a real kernel about jobs of a real pool."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jupyter_ext.card import MIME
from jupyter_ext.follow import Follower
from jupyter_ext.frontend import RENDERER, VIEW
from scheduler.model import JobState
from scheduler.schema import JobView
from tests.jupyter_ext.pool import Kernel, RunningPool, running_pool


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPool]:
    with running_pool(tmp_path_factory.mktemp("pool") / "state", gpus=2) as pool:
        yield pool


class FrontEnd:
    """The models of the widgets, as in a front end."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.models: dict[str, dict[str, Any]] = {}

    def until(self, seen: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not seen():
            assert time.monotonic() < deadline, self.text
            message = self._kernel.heard(deadline - time.monotonic())
            content = message["content"]
            match message["msg_type"]:
                case "comm_open":
                    self.models[content["comm_id"]] = content["data"].get("state", {})
                case "comm_msg" if content["data"].get("method") == "update":
                    # A widget of an earlier test may still send its last message.
                    self.models.get(content["comm_id"], {}).update(content["data"]["state"])
                case "comm_close":
                    self.models.pop(content["comm_id"], None)

    def of(self, model: str) -> Iterator[tuple[str, dict[str, Any]]]:
        return ((comm, state) for comm, state in self.models.items() if state.get("_model_name") == model)

    @property
    def text(self) -> str:
        return "\n".join(state["value"] for _, state in self.of("HTMLModel"))

    @property
    def buttons(self) -> dict[str, str]:
        """The visible buttons by label."""
        return {
            state["description"]: comm
            for comm, state in self.of("ButtonModel")
            if self.models[state["layout"].removeprefix("IPY_MODEL_")].get("display") != "none"
        }

    def press(self, button: str) -> None:
        self._kernel.say(self.buttons[button], {"method": "custom", "content": {"event": "click"}})


CELL = """%%runai_train --detach --name {name}
import os, time
from pathlib import Path
from jupyter_ext import job
print("<b>not bold</b>")
for step in range(1, 4):
    job.report(step=step, total=10, loss=1 / step)
while not (Path(os.environ["RUNAI_OUTPUT_DIR"]) / "end").exists(): time.sleep(0.05)
print("the last line")
"""


@pytest.fixture
def front_end(kernel: Kernel) -> Iterator[FrontEnd]:
    yield FrontEnd(kernel)
    kernel.run("card.close()")


THREADS = "[t.name for t in __import__('threading').enumerate() if _job.id in t.name]"


def shown(kernel: Kernel, front_end: FrontEnd, name: str) -> str:
    """Send a job, which shows its card; the job's id."""
    kernel.send(CELL.format(name=name))
    front_end.until(lambda: "3 / 10" in front_end.text and "<svg" in front_end.text)
    job = kernel.value("_job.id").strip("'")
    kernel.value("globals().update(card=_job.widget())")  # this consumes none of the front end's messages
    return job


def gone(kernel: Kernel) -> None:
    """Wait until no thread watches the job."""
    kernel.run(f"import time\nwhile {THREADS}: time.sleep(0.02)")


def test_it_is_updated_until_the_job_has_ended(kernel: Kernel, pool: RunningPool, front_end: FrontEnd) -> None:
    job = shown(kernel, front_end, "alone")
    assert "running" in front_end.text
    assert "loss <b>0.3333</b>" in front_end.text
    front_end.until(lambda: "not bold" in front_end.text)
    assert "<b>not bold</b>" not in front_end.text
    assert front_end.buttons.keys() == {"Pause", "Cancel", "Refresh"}
    (pool.state_dir / "jobs" / job / "output" / "end").touch()
    front_end.until(lambda: "succeeded" in front_end.text and "the last line" in front_end.text)
    front_end.until(lambda: not front_end.buttons)
    gone(kernel)


def test_its_buttons_act(kernel: Kernel, pool: RunningPool, front_end: FrontEnd) -> None:
    job = shown(kernel, front_end, "pressed")
    front_end.press("Pause")
    front_end.until(lambda: "Resume" in front_end.buttons)
    assert "paused" in front_end.text
    front_end.press("Resume")
    front_end.until(lambda: "Pause" in front_end.buttons)
    front_end.press("Cancel")
    front_end.until(lambda: "cancelled" in front_end.text)
    assert pool.client.wait(job, timeout=60).state is JobState.CANCELLED
    gone(kernel)


def test_it_loads_the_results_of_a_job_that_a_new_kernel_does_not_have(kernel: Kernel, front_end: FrontEnd) -> None:
    kernel.run("%%runai_train --name made --out y\ny = 7")
    kernel.run("del y\nfrom jupyter_ext import Job")
    kernel.send("card = Job('made').widget()")
    front_end.until(lambda: "Load results (y)" in front_end.buttons)
    front_end.press("Load results (y)")
    front_end.until(lambda: not front_end.buttons)
    assert kernel.value("y") == "7"


def test_closing_it_detaches_and_the_job_keeps_running(kernel: Kernel, pool: RunningPool, front_end: FrontEnd) -> None:
    job = shown(kernel, front_end, "closed")
    kernel.run("card.close()")
    gone(kernel)
    assert pool.client.job(job).state is JobState.RUNNING
    pool.client.cancel(job)


def test_it_shows_the_output_of_any_rank(kernel: Kernel, pool: RunningPool, front_end: FrontEnd) -> None:
    kernel.send(
        "%%runai_train --detach --workers 2 --gpus 0.5 --name ranks\n"
        "import os, time\nprint('said by', os.environ['RUNAI_RANK'], flush=True)\ntime.sleep(600)"
    )
    front_end.until(lambda: "said by 0" in front_end.text)
    job = kernel.value("_job.id").strip("'")
    kernel.value("globals().update(card=_job.widget())")
    ((choice, state),) = front_end.of("DropdownModel")
    assert state["_options_labels"] == ["Rank 0", "Rank 1"]
    kernel.say(choice, {"method": "update", "state": {"index": 1}, "buffer_paths": []})
    front_end.until(lambda: "said by 1" in front_end.text)
    assert "said by 0" not in front_end.text
    kernel.say(choice, {"method": "update", "state": {"index": 0}, "buffer_paths": []})
    front_end.until(lambda: "said by 0" in front_end.text)
    pool.client.cancel(job)
    gone(kernel)


def test_events_are_batched_and_the_end_comes_last(kernel: Kernel, pool: RunningPool) -> None:
    kernel.run("%%runai_train --detach\nprint('first')\nprint('second')")
    view = pool.client.job(kernel.value("_job.id").strip("'"))
    with Follower(lambda: pool.address, view) as follower:
        batches = list(follower.gathered(0.2))
    assert all(batches)
    last = batches[-1][-1]
    assert isinstance(last, JobView)
    assert last.state is JobState.SUCCEEDED
    texts = [one["text"] for batch in batches for one in batch if isinstance(one, dict)]
    assert "first\nsecond\n" in "".join(texts)


def updated(kernel: Kernel, name: str) -> dict[str, Any]:
    """The next update of a display, in any cell, whose text names the job."""
    while True:
        message = kernel.heard()
        if message["msg_type"] == "update_display_data" and name in message["content"]["data"]["text/plain"]:
            return dict(message["content"]["data"])


def test_each_front_end_of_a_kernel_gets_what_it_can_show(kernel: Kernel, pool: RunningPool) -> None:
    kernel.run("%runai_train --detach -- sleep 60")
    job = kernel.value("_job.id").strip("'")
    (shown,) = kernel.run("_job").displays
    assert list(shown) == [MIME, "text/html", "text/plain", VIEW]
    assert kernel.value(f"_job.widget().model_id == {shown[VIEW]['model_id']!r}") == "True"

    marked = kernel.run("_job", {RENDERER: True}).result
    assert marked is not None
    assert list(marked) == [MIME, "text/html", "text/plain"]

    (again,) = kernel.run("_job", {"cellId": "vscode-notebook-cell:/home/ada/a.ipynb#W0"}).displays
    assert again[VIEW] == shown[VIEW]  # another view of the same

    pool.client.cancel(job)
    pool.client.wait(job, timeout=60)
    over = kernel.run("_job").result
    assert over is not None
    assert VIEW not in over
    gone(kernel)


def test_when_a_job_has_ended_its_widget_becomes_text_that_a_saved_notebook_keeps(
    kernel: Kernel, pool: RunningPool, front_end: FrontEnd
) -> None:
    job = shown(kernel, front_end, "kept-as-text")
    (pool.state_dir / "jobs" / job / "output" / "end").touch()
    front_end.until(lambda: "the last line" in front_end.text)
    while VIEW in (last := updated(kernel, "kept-as-text")):
        pass
    assert "succeeded" in last["text/plain"]
    assert "loss <b>0.3333</b>" in last["text/html"]
    assert "the last line" in last["text/html"]
    assert "<b>not bold</b>" not in last["text/html"]


def test_without_ipywidgets_the_text_is_updated_in_place(kernel: Kernel, pool: RunningPool) -> None:
    kernel.run("import jupyter_ext.frontend as f\nf.find_spec = lambda name: None")
    (first,) = kernel.run("%runai_train --detach --name texts -- sleep 60").displays
    assert VIEW not in first
    pool.client.cancel(kernel.value("_job.id").strip("'"))
    while "cancelled" not in (last := updated(kernel, "texts"))["text/plain"]:
        assert VIEW not in last
    assert "cancelled" in last["text/html"]
    kernel.run("import importlib\n_ = importlib.reload(f)")


def test_where_nobody_looks_the_output_is_static(kernel: Kernel, pool: RunningPool) -> None:
    shown = kernel.run("%runai_train --detach --name unattended -- sleep 60", allow_stdin=False)
    assert shown.result is not None
    assert list(shown.result) == [MIME, "text/html", "text/plain"]
    assert kernel.value("[w for w in (_job._widget, _job._in_place) if w is not None]") == "[]"
    pool.client.cancel(kernel.value("_job.id").strip("'"))


def test_a_table_of_jobs_is_updated_until_all_have_ended(kernel: Kernel, pool: RunningPool) -> None:
    kernel.run("%runai_train --detach --name tabled -- sleep 60", {RENDERER: True})
    (table,) = kernel.run("from jupyter_ext import Jobs\nJobs([_job])").displays
    assert "tabled" in table["text/html"]
    assert "cancelled" not in table["text/html"]
    pool.client.cancel(kernel.value("_job.id").strip("'"))
    while "cancelled" not in updated(kernel, "tabled")["text/html"]:
        pass
    kernel.run(
        "import threading, time\nwhile any(t.name == 'display of jobs' for t in threading.enumerate()):"
        " time.sleep(0.02)"
    )
    assert "cancelled" in (kernel.run("Jobs([_job])").result or {})["text/html"]


def test_after_detaching_the_buttons_still_work(kernel: Kernel, pool: RunningPool) -> None:
    message = kernel.send("%%runai_train --name kept\nimport time\nprint('begun')\ntime.sleep(60)")
    shown = kernel.collect(message, until="begun\n")
    kernel.interrupt()
    shown = kernel.collect(message, into=shown)
    assert VIEW not in shown.displays[0]  # while the cell waits, its buttons would have no effect
    assert VIEW in shown.updates[-1]
    pool.client.cancel(kernel.value("_job.id").strip("'"))
    gone(kernel)


def test_while_a_cell_waits_its_line_has_the_figures(kernel: Kernel) -> None:
    shown = kernel.run(
        "%%runai_train --name figures\nfrom jupyter_ext import job\n"
        "for step in range(1, 5): job.report(step=step, total=8, loss=1 / step)"
    )
    # Cells of the tests before may still be updated.
    card = [update["text/html"] for update in shown.updates if "figures" in update["text/plain"]][-1]
    assert '<progress value="4" max="8"' in card
    assert "4 / 8" in card
    assert "loss <b>0.25</b>" in card
    assert "left" not in card  # it has ended
