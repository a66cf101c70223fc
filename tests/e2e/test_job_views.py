"""Rows of jobs that were submitted together, and the view of a single job: by mouse, by keyboard, in the dark theme
and in a narrow window."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from scheduler.client import Client
from scheduler.model import JobState
from scheduler.schema import ArrayMember, ArraySubmit, JobSubmit, ProjectEntry

from .audit import audit
from .conftest import Hub, eventually
from .test_first_light import client_of, in_the_lab, shot
from .test_submit_dialog import THEMES, field

__all__ = ["in_the_lab"]

pytestmark = pytest.mark.needs("chromium")

MEMBER = """
echo '{"time": 1, "rank": 0, "step": 4, "total": 8, "loss": 0.25}' >> $RUNAI_OUTPUT_DIR/metrics.jsonl
[ $RUNAI_ARRAY_INDEX -lt 2 ] || exec sleep 600
"""

TRAINS = """
printf 'rank %s \\033[1;32mattempt %s\\033[0m\\n' $RUNAI_RANK $RUNAI_ATTEMPT
[ $RUNAI_ATTEMPT = 2 ] || exit 3
echo '{"time": 1, "rank": 0, "attempt": 2, "step": 1, "total": 4, "loss": 0.5}' >> $RUNAI_OUTPUT_DIR/metrics.jsonl
echo '{"time": 2, "rank": 0, "attempt": 2, "step": 2, "total": 4, "loss": 0.25}' >> $RUNAI_OUTPUT_DIR/metrics.jsonl
[ $RUNAI_RANK = 1 ] || echo well done > $RUNAI_OUTPUT_DIR/notes.txt
exec sleep 600
"""


def test_an_array_is_one_row_that_unfolds_and_is_cancelled_whole(hub: Hub, in_the_lab: Callable[..., Page]) -> None:
    page = in_the_lab("lee")
    page.get_by_role("tab", name="GPU pool").click()
    with client_of(hub, "lee") as client:
        sweep = JobSubmit(name="sweep", command=["sh", "-c", MEMBER], gpus=1)
        client.submit_array(ArraySubmit(job=sweep, members=[ArrayMember(index=n) for n in range(12)]))
    group = page.locator(".runai-Group", has_text="sweep")
    expect(group).to_contain_text("2 of 12 done · 10 running · best loss 0.25")
    group.locator(".runai-Job-head").focus()
    page.keyboard.press("ArrowRight")
    rows = group.locator(".runai-Group-jobs > li")
    names = [f"sweep-{n}" for n in (*range(2, 12), 0, 1)]
    expect(rows.locator(".runai-Name")).to_have_text(names)
    expect(rows.first).to_contain_text("4 / 8")
    shot(page, "panel-array")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Cancel all of sweep")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Cancel the jobs").click()
    expect(group).to_contain_text("12 of 12 done · 10 cancelled")


def test_the_filter_finds_jobs_that_are_not_loaded(hub: Hub, in_the_lab: Callable[..., Page]) -> None:
    page = in_the_lab("fay")
    with client_of(hub, "fay") as client:
        first = client.submit(JobSubmit(name="first", command=["sleep", "600"], gpus=0))
        try:
            needle = client.submit(JobSubmit(name="needle", command=["true"], gpus=0, after=[first.id]))
            eventually(lambda: client.job(first.id).state is JobState.RUNNING)
            for number in range(410):
                client.submit(JobSubmit(name=f"hay-{number}", command=["true"], gpus=0, after=[needle.id]))
            page.reload()
            page.get_by_role("tab", name="GPU pool").click()
            expect(page.locator(".runai-Job", has_text="hay-409")).to_be_visible()
            expect(page.locator(f".runai-Job[data-job='{first.id}']")).to_be_visible()
            row = page.locator(f".runai-Job[data-job='{needle.id}']")
            expect(row).to_have_count(0)
            page.get_by_role("button", name="Filter").click()
            # Not by the keyboard: a notebook that has just been restored may take the focus.
            page.locator(".runai-Filter").get_by_role("searchbox").fill("needl")
            expect(row).to_be_visible()
            expect(page.locator(".runai-Job")).to_have_count(1)
            shot(page, "panel-filter")
        finally:
            client.cancel(first.id)


def test_a_row_has_a_menu_by_mouse_and_by_keyboard(hub: Hub, in_the_lab: Callable[..., Page]) -> None:
    page = in_the_lab("moe")
    page.get_by_role("tab", name="GPU pool").click()
    with client_of(hub, "moe") as client:
        job = client.submit(JobSubmit(name="sleeper", command=["sleep", "600"], gpus=1))
        row = page.locator(f".runai-Job[data-job='{job.id}']")
        expect(row).to_have_attribute("data-state", "running")
        labels = page.locator(".lm-Menu-item:not(.lm-mod-hidden) .lm-Menu-itemLabel")

        row.click(button="right", position={"x": 40, "y": 12})
        words = ["Open", "Open the log", "Pause", "Change the priority…", "Clone…", "Copy id", "Cancel"]
        for word in words:
            expect(labels.get_by_text(word, exact=True)).to_be_visible()
        for word in ("Go to the cell", "Resume", "Delete"):
            expect(labels.get_by_text(word, exact=True)).to_have_count(0)
        shot(page, "panel-row-menu")
        labels.get_by_text("Change the priority…").click()
        page.get_by_role("dialog").get_by_role("textbox").fill("70")
        page.get_by_role("button", name="Set").click()
        expect(page.get_by_role("dialog")).to_have_count(0)
        eventually(lambda: client.job(job.id).priority == 70)

        row.locator(".runai-Job-head").focus()
        page.keyboard.press("Shift+F10")
        expect(labels.get_by_text("Pause", exact=True)).to_be_visible()
        page.keyboard.type("Pa")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Pause the job").click()  # it has saved nothing
        expect(row).to_have_attribute("data-state", "paused")
        row.click(button="right", position={"x": 40, "y": 12})
        expect(labels.get_by_text("Resume", exact=True)).to_be_visible()
        expect(labels.get_by_text("Pause", exact=True)).to_have_count(0)
        labels.get_by_text("Open", exact=True).click()
        expect(page.locator(".runai-JobPage")).to_have_attribute("data-job", job.id)
        client.cancel(job.id)


def test_a_job_is_sent_again_with_other_options(hub: Hub, in_the_lab: Callable[..., Page]) -> None:
    page = in_the_lab("ivy")
    page.get_by_role("tab", name="GPU pool").click()
    with client_of(hub, "ivy") as client:
        first = client.submit(JobSubmit(name="first", command=["echo", "one"], gpus=0, max_runtime=3600))
        row = page.locator(".runai-Job", has_text="first")
        row.hover()
        row.get_by_role("button", name="Open first").click()
        page.locator(".runai-JobPage").get_by_role("button", name="Clone…").click()
        dialog = page.locator(".runai-SubmitDialog")
        expect(dialog).to_contain_text("Runs with the files that were sent with first.")
        expect(field(dialog, "Maximum run time")).to_have_value("3600s")
        shot(page, "submit-dialog-clone")
        field(dialog, "Run").fill("echo two")
        field(dialog, "Name").fill("second")
        expect(dialog.get_by_role("status")).to_contain_text("Starts now")
        dialog.get_by_role("button", name="Send").click()
        expect(dialog).to_have_count(0)
        expect(page.locator(".runai-Job", has_text="second")).to_contain_text("succeeded")
        (second,) = [job for job in client.jobs(mine=True).jobs if job.name == "second"]
        assert client.log(second.id) == b"two\n"
        assert client.submission(second.id).max_runtime == client.submission(first.id).max_runtime


def test_what_would_help_a_job_is_done_from_its_view(
    hub: Hub, in_the_lab: Callable[..., Page], administrator: Client
) -> None:
    page = in_the_lab("pat")
    page.get_by_role("tab", name="GPU pool").click()

    def why(name: str) -> Locator:
        row = page.locator(".runai-Job", has=page.get_by_text(name, exact=True))
        row.hover()
        row.get_by_role("button", name=f"Open {name}").click()
        view = page.locator(".runai-JobPage", has=page.locator("h2", has_text=name))
        view.get_by_role("tab", name="Why?").click()
        return view

    administrator.project_put(ProjectEntry(name="due", guaranteed=2, members=["pat"]))
    with client_of(hub, "pat") as client:
        rest = client.pool().train.gpus - 2

        def submit(name: str, gpus: float, *command: str, **options: Any) -> None:
            client.submit(JobSubmit(name=name, command=[*command], gpus=gpus, **options))

        submit("keeps", 2, "sleep", "600", project="due", preemptible=False)
        submit("holds", rest, "sleep", "600", project="default", priority=70)
        for name in ("keeps", "holds"):
            expect(page.locator(".runai-Job", has_text=name)).to_contain_text("running")
        submit("early", rest, "true", project="default")
        submit("late", rest, "true", project="default")
        submit("small", 2, "true", project="due", preemptible=False)
    late = why("late")
    expect(late).to_contain_text("number 2 of 2 in project")
    late.get_by_role("button", name="Change the priority…").click()
    expect(page.get_by_role("dialog").get_by_role("textbox")).to_be_focused()
    page.keyboard.type("60")
    page.keyboard.press("Enter")
    expect(late).to_contain_text("number 1 of 2 in project")
    expect(late.get_by_role("button", name="Change the priority…")).to_have_count(0)
    small = why("small")
    expect(small.get_by_role("button", name="Cancel keeps…")).to_be_visible()
    shot(page, "job-remedies")
    small.get_by_role("button", name="Clone as preemptible…").click()
    dialog = page.locator(".runai-SubmitDialog")
    dialog.get_by_text("More options").click()
    expect(field(dialog, "Not preemptible")).not_to_be_checked()
    field(dialog, "Name").fill("again")
    dialog.get_by_role("button", name="Send").click()
    expect(page.get_by_role("dialog")).to_contain_text("Its clone has been sent.")
    shot(page, "job-remedies-cloned")
    page.get_by_role("button", name="Cancel the job").click()
    expect(small.locator(".runai-JobPage-said")).to_contain_text("cancelled")

    dark(hub, "pat", page)
    page.get_by_role("button", name="GPUs free").click()
    early = why("early")
    page.set_viewport_size({"width": 640, "height": 900})
    expect(early.get_by_role("button", name="Cancel holds…")).to_be_visible()
    shot(page, "job-remedies-dark-narrow")
    assert early.evaluate("view => view.scrollWidth <= view.clientWidth"), "something is cut off"
    early.get_by_role("button", name="Cancel holds…").click()
    page.get_by_role("button", name="Cancel the job").click()
    expect(early.locator(".runai-JobPage-said")).to_contain_text("succeeded")
    with client_of(hub, "pat") as client:
        for job in client.jobs(mine=True).jobs:
            if not job.state.final:
                client.cancel(job.id)
                client.wait(job.id)
    administrator.project_delete("due")


LEARNS = """
for step in 0 1 2 3 4 5 6 7 8; do
  echo '{"time": '$step', "rank": 0, "step": '$step', "loss": 0.'$((9 - step))$RUNAI_ARRAY_INDEX'}' \\
    >> $RUNAI_OUTPUT_DIR/metrics.jsonl
done
"""


def test_metrics_are_compared_with_those_of_other_jobs_and_enlarged(hub: Hub, in_the_lab: Callable[..., Page]) -> None:
    page = in_the_lab("uma")
    page.get_by_role("tab", name="GPU pool").click()
    with client_of(hub, "uma") as client:
        sweep = JobSubmit(name="curve", command=["sh", "-c", LEARNS], gpus=0)
        jobs = client.submit_array(ArraySubmit(job=sweep, members=[ArrayMember(index=n) for n in range(5)])).jobs
        for job in jobs:
            client.wait(job.id)

    def compared() -> Locator:
        group = page.locator(".runai-Group", has_text="curve")
        group.locator(".runai-Job-head").first.click()
        row = group.locator(".runai-Group-jobs > li", has=page.get_by_text("curve-0", exact=True))
        row.hover()
        row.get_by_role("button", name="Open curve-0").click()
        view = page.locator(".runai-JobPage", has=page.locator("h2", has_text="curve-0"))
        view.get_by_role("tab", name="Metrics").click()
        for job in jobs[1:]:
            view.get_by_label("Compare with", exact=True).select_option(job.id)
        expect(view.locator(".runai-LineChart-legend > li")).to_have_text(
            ["curve-00.1", "curve-10.11", "curve-20.12", "curve-30.13", "curve-40.14"]
        )
        return view

    view = compared()
    shot(page, "job-metrics-compared")
    audit(page, "compared metrics", ".runai-JobPage")
    chart = view.locator(".runai-LineChart > svg")
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 50)
    expect(chart.locator("rect")).to_be_visible()
    page.mouse.up()
    expect(view.locator(".runai-LineChart-steps")).to_have_text("step 2step 4")
    shot(page, "job-metrics-enlarged")
    view.get_by_role("button", name="Show all").click()
    expect(view.locator(".runai-LineChart-steps")).to_have_text("step 0step 8")
    view.get_by_role("button", name="Compare with curve-4 no longer").click()
    expect(view.locator(".runai-LineChart-legend > li")).to_have_count(4)

    dark(hub, "uma", page)
    page.get_by_role("button", name="GPUs free").click()
    view = compared()
    page.set_viewport_size({"width": 640, "height": 900})
    shot(page, "job-metrics-compared-dark-narrow")
    audit(page, "compared metrics, dark and narrow", ".runai-JobPage")
    assert view.evaluate("view => view.scrollWidth <= view.clientWidth"), "something is cut off"


def dark(hub: Hub, user: str, page: Page) -> None:
    """Open the lab again in the dark theme."""
    themes: Path = hub.folder / "users" / user / THEMES
    themes.parent.mkdir(parents=True, exist_ok=True)
    themes.write_text(json.dumps({"theme": "JupyterLab Dark"}))
    page.goto(f"{hub.url}user/{user}/lab")  # the address before would open its notebook once all tabs are restored


def test_a_job_has_a_view_of_its_own_which_comes_back_after_a_reload(hub: Hub, in_the_lab: Callable[..., Page]) -> None:
    page = in_the_lab("lee")
    page.get_by_role("tab", name="GPU pool").click()
    digits = page.locator(".runai-Job", has_text="digits")
    with client_of(hub, "lee") as client:
        client.submit(JobSubmit(name="digits", command=["sh", "-c", TRAINS], workers=2, retries=1))
        expect(digits).to_contain_text("2 / 4")  # until then, its GPUs are free for a moment
        client.submit(JobSubmit(name="waits", command=["true"], gpus=18))
    waits = page.locator(".runai-Job", has_text="waits")
    waits.hover()
    waits.get_by_role("button", name="Open waits").click()
    why = page.locator(".runai-JobPage", has=page.locator("h2", has_text="waits"))
    why.get_by_role("tab", name="Why?").click()
    expect(why).to_contain_text("Who holds the GPUs that it waits for")
    expect(why).to_contain_text("digits of lee (2)")
    shot(page, "job-why")
    why.get_by_role("button", name="Priority 50…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("textbox")).to_be_focused()
    page.keyboard.type("5000")
    page.keyboard.press("Enter")
    expect(page.locator(".Toastify__toast")).to_contain_text("priority")
    why.get_by_role("button", name="Priority 50…").click()
    expect(dialog.get_by_role("textbox")).to_be_focused()
    page.keyboard.type("30")
    shot(page, "job-priority")
    page.keyboard.press("Enter")
    expect(why.get_by_role("button", name="Priority 30…")).to_be_visible()
    digits.hover()
    digits.get_by_role("button", name="Open digits").click()
    view = page.locator(".runai-JobPage", has=page.locator("h2", has_text="digits"))
    expect(view.locator(".runai-Attempts tbody tr")).to_contain_text(["Running.", "ended with exit code 3"])
    expect(view.get_by_label("Command")).to_contain_text("exec sleep 600")
    shot(page, "job-overview")

    view.get_by_role("tab", name="Overview").focus()
    page.keyboard.press("ArrowRight")
    expect(view.locator(".runai-LineChart")).to_contain_text("0.25 at step 2")
    expect(view.get_by_role("region", name="GPU use")).to_contain_text("The GPUs of this pool are declared")
    shot(page, "job-metrics")
    page.keyboard.press("ArrowRight")
    view.get_by_label("Rank").select_option("1")
    expect(view.get_by_role("log")).to_have_text("rank 1 attempt 2\n")
    view.get_by_label("Attempt").select_option("1")
    expect(view.get_by_role("log")).to_have_text("rank 1 attempt 1\n")
    green = view.get_by_role("log").locator("span")
    expect(green).to_have_text("attempt 1")
    expect(green).to_have_css("color", "rgb(0, 116, 39)")
    view.get_by_label("Find in the log").fill("RANK")
    expect(view.locator("mark")).to_have_text("rank")
    view.get_by_label("Timestamps").check()
    expect(view.locator(".runai-Log-time")).to_have_text(re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d $"))
    shot(page, "job-log")
    with page.expect_download() as download:
        view.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "digits-1-1.log"
    assert Path(download.value.path()).read_text() == "rank 1 \033[1;32mattempt 1\033[0m\n"
    view.get_by_role("tab", name="Files").click()
    view.get_by_role("button", name="Preview notes.txt").click()
    expect(view.locator(".runai-Preview")).to_have_text("well done\n")

    dark(hub, "lee", page)
    attempts = view.locator(".runai-Attempts")
    expect(page.get_by_role("tab", name="digits")).to_be_visible()
    expect(page.locator("#jupyterlab-splash")).to_have_count(0)  # all tabs are restored, and the one of before selected
    page.get_by_role("tab", name="digits").click()
    page.set_viewport_size({"width": 640, "height": 900})
    expect(attempts).to_be_visible()
    shot(page, "job-dark-narrow")
    assert view.evaluate("view => view.scrollWidth <= view.clientWidth"), "something is cut off"
    view.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel the job").click()
    expect(view.locator(".runai-JobPage-said")).to_contain_text("cancelled")
