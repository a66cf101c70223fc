"""JupyterLab notifies users of jobs that are paused, and of ends that they may have missed; settings turn that off."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from scheduler.client import Client
from scheduler.schema import JobSubmit, JobView, ProjectEntry

from .conftest import Hub, eventually
from .test_first_light import client_of, in_the_lab, shot

__all__ = ["in_the_lab"]

pytestmark = pytest.mark.needs("chromium")

SETTINGS = ".jupyter/lab/user-settings/jupyter-runai/notifications.jupyterlab-settings"


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
