"""JupyterLab notifies users of jobs that are paused, and of ends that they may have missed; settings turn that off."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from scheduler.client import Client
from scheduler.schema import JobSubmit, JobView, ProjectEntry

from .conftest import Hub, eventually
from .test_first_light import client_of, in_the_lab, shot
from .test_submit_dialog import THEMES

__all__ = ["in_the_lab"]

pytestmark = pytest.mark.needs("chromium")

SETTINGS = ".jupyter/lab/user-settings/jupyter-runai/notifications.jupyterlab-settings"


def test_where_notices_go_is_chosen_in_a_dialog(hub: Hub, in_the_lab: Callable[..., Page]) -> None:
    page = in_the_lab("gus")
    dialog = _open_the_dialog(page)
    expect(dialog.get_by_label("Send notices by")).to_be_focused()
    page.keyboard.type("Slack")
    url = dialog.get_by_label("URL of the webhook")
    url.fill("hooks.invalid")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("This is no URL of a webhook; it begins with https://.")
    expect(url).to_be_focused()
    url.fill("https://127.0.0.1/T0/secret")
    dialog.get_by_label("runs again").uncheck()
    dialog.get_by_role("button", name="Save and send a test").click()
    expect(dialog.get_by_role("status")).to_contain_text(re.compile(r"\w\."))
    expect(dialog.get_by_role("status")).to_have_attribute("data-kind", "refused")
    shot(page, "notices")
    dialog.get_by_role("button", name="Save", exact=True).click()
    expect(dialog).to_have_count(0)
    themes: Path = hub.folder / "users" / "gus" / THEMES
    themes.parent.mkdir(parents=True, exist_ok=True)
    themes.write_text(json.dumps({"theme": "JupyterLab Dark"}))
    page.set_viewport_size({"width": 640, "height": 900})
    page.reload()
    dialog = _open_the_dialog(page)
    expect(dialog.get_by_label("Send notices by")).to_have_value("slack")
    expect(url).to_have_attribute("placeholder", "https://127.0.0.1/…")
    expect(url).to_have_value("")
    expect(dialog.get_by_label("runs again")).not_to_be_checked()
    shot(page, "notices-dark-narrow")


def _open_the_dialog(page: Page) -> Locator:
    page.get_by_role("menuitem", name="Settings", exact=True).click()
    page.get_by_role("menuitem", name="GPU Pool Notices…").click()
    return page.locator(".jp-Dialog", has_text="Notices of your jobs")


def _is_running(client: Client, job: JobView) -> bool:
    return client.job(job.id).state == "running"


def sent(client: Client, name: str, command: str, **more: object) -> JobView:
    return client.submit(JobSubmit.model_validate({"name": name, "command": ["sh", "-c", command], **more}))


def test_a_notice_for_each_end_that_matters(
    hub: Hub, in_the_lab: Callable[..., Page], administrator: Client, tmp_path: Path
) -> None:
    page = in_the_lab("fay")
    toasts = page.locator(".Toastify__toast")
    with client_of(hub, "fay") as client:
        free = int(client.pool().train.free)
        long = sent(client, "long", "sleep 31", gpus=0)
        sent(client, "broken", "sleep 1; exit 3", gpus=0)
        mine = sent(client, "mine", "sleep 600", gpus=0)
        theirs = sent(client, "theirs", "sleep 600", gpus=0)
        surplus = sent(client, "surplus", "sleep 600", gpus=free, grace=1)
        for job in (mine, theirs, surplus):
            assert eventually(partial(_is_running, client, job))
        page.get_by_role("tab", name="GPU pool").click()
        expect(page.locator(".runai-Panel")).to_contain_text("surplus")
        client.cancel(mine.id)
        administrator.cancel(theirs.id)
        expect(toasts.filter(has_text="theirs was cancelled by ")).to_have_count(1)
        expect(toasts.filter(has_text="broken failed: It ended with exit code 3.")).to_have_count(1)

        # A reclaim for another project's guarantee is not an end: the job continues afterwards.
        administrator.project_put(ProjectEntry(name="due", guaranteed=free, members=["fay"]))
        due = sent(client, "due", "sleep 600", gpus=free, project="due")
        paused = toasts.filter(has_text="surplus was paused: Project due reclaims GPUs for due. It resumes ")
        expect(paused).to_have_count(1)
        shot(page, "pause-notice")
        client.cancel(due.id)
        expect(toasts.filter(has_text="surplus is running again.")).to_have_count(1)
        expect(paused).to_have_count(0)
        client.cancel(surplus.id)

        client.wait(long.id, timeout=60)
        expect(toasts.filter(has_text="long succeeded after ")).to_have_count(1)
        expect(page.locator(".runai-Job", has_text="surplus")).to_contain_text("cancelled")
        for ended in ("surplus was cancelled", "due ", "mine "):
            expect(toasts.filter(has_text=ended)).to_have_count(0)

        settings = hub.folder / "users" / "fay" / SETTINGS
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text('{"jobsThatEnd": false}')
        page.reload()
        page.wait_for_selector(".jp-Notebook .jp-CodeCell")
        page.get_by_role("tab", name="GPU pool").click()
        quiet = sent(client, "quiet", "sleep 1; exit 3", gpus=0)
        client.wait(quiet.id, timeout=60)
        expect(page.locator(".runai-Job", has_text="quiet")).to_contain_text("failed")
        expect(toasts.filter(has_text="quiet")).to_have_count(0)
    administrator.project_delete("due")
    administrator.close()
