"""The first steps in a real browser against a real hub: the sample notebook, the panel and the administrator's page."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from collections.abc import Callable
from typing import Any

import psutil
import pytest
from playwright.sync_api import Page, expect

from scheduler.client import Client
from scheduler.schema import JobSubmit

from .conftest import SCREENSHOTS, Hub, LogIn, eventually

pytestmark = pytest.mark.needs("chromium")


def open_notebook(page: Page, hub: Hub, user: str, name: str) -> None:
    """Open a notebook and wait until its kernel is connected; before that, JupyterLab silently drops executions."""
    page.goto(f"{hub.url}user/{user}/lab/tree/{name.replace(' ', '%20')}?reset")
    page.wait_for_selector(".jp-Notebook .jp-CodeCell")
    expect(page.locator("#jp-main-statusbar")).to_contain_text("Python 3 (ipykernel) | Idle")


def run_all_cells(page: Page) -> None:
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()


def api(page: Page, path: str, method: str = "GET", body: Any = None) -> Any:
    """Send a request to the scheduler through the user's own server, as the panel does."""
    return page.evaluate(
        """async ([path, method, body]) => {
            const base = JSON.parse(document.getElementById('jupyter-config-data').textContent).baseUrl;
            const xsrf = (document.cookie.match(/_xsrf=([^;]+)/g) || []).pop()?.split('=')[1] ?? '';
            const answer = await fetch(base + 'runai/api/v1/' + path, {
                method, headers: {'X-XSRFToken': xsrf, 'Content-Type': 'application/json'},
                body: body === null ? undefined : JSON.stringify(body),
            });
            const text = await answer.text();
            return text ? JSON.parse(text) : null;
        }""",
        [path, method, body],
    )


def client_of(hub: Hub, user: str) -> Client:
    """A client with the address and the token from the environment of the user's own server."""
    home = str(hub.folder / "users" / user)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            environment = process.environ()
            if environment.get("HOME") == home and "RUNAI_URL" in environment:
                return Client(environment["RUNAI_URL"], environment["JUPYTERHUB_API_TOKEN"])
    raise AssertionError(f"{user} has no server")


def shot(page: Page, name: str) -> None:
    SCREENSHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


def cell_output(page: Page, source: str) -> Any:
    """The output area of the cell that contains `source`."""
    return page.locator(".jp-CodeCell", has_text=source).locator(".jp-OutputArea").first


@pytest.fixture
def in_the_lab(hub: Hub, log_in: LogIn) -> Callable[..., Page]:
    def enter(user: str, notebook: str = "First steps.ipynb") -> Page:
        page = log_in(user)
        page.goto(f"{hub.url}hub/spawn")
        if user == "admin":  # is asked; the usual choice is no GPU
            page.get_by_role("button", name="Start").click()
        page.wait_for_url(re.compile(rf"/user/{user}/"), timeout=90_000)
        open_notebook(page, hub, user, notebook)
        return page

    return enter


def test_the_sample_notebook_trains_on_the_pool(hub: Hub, in_the_lab: Callable[..., Page], log_in: LogIn) -> None:
    assert "24 declared GPUs" in hub.greeting
    page = in_the_lab("ada")
    run_all_cells(page)

    expect(cell_output(page, "My build GPUs")).to_contain_text(re.compile(r"My build GPUs: \S*\d"))
    expect(cell_output(page, "%%runai_train --gpus 1")).to_contain_text("epoch 20", timeout=90_000)
    expect(cell_output(page, "digits read right")).to_contain_text(re.compile(r"9\d\.\d% of 450 digits"))
    expect(cell_output(page, "%runai_train train.py")).to_contain_text("epoch 3 of 3", timeout=90_000)

    # the last line appears shortly before the job ends
    assert eventually(lambda: {job["state"] for job in api(page, "jobs")["jobs"]} == {"succeeded"})
    jobs = api(page, "jobs")["jobs"]
    assert len(jobs) == 2
    assert {job["kind"] for job in jobs} == {"cell", "script"}

    page.get_by_role("tab", name="GPU pool").click()
    panel = page.locator(".runai-Panel")
    expect(panel).to_contain_text("Declared GPUs")
    expect(panel).to_contain_text(jobs[0]["name"])
    output = cell_output(page, "%%runai_train --gpus 1")
    expect(output.locator(".runai-Card")).to_contain_text("20 / 20")
    output.evaluate("area => area.scrollIntoView({ block: 'end' })")
    shot(page, "notebook")

    admin = log_in("admin")
    admin.goto(f"{hub.url}hub/home")
    admin.get_by_role("link", name="GPU pool").click()
    admin.wait_for_url(re.compile("/services/runai/"))
    expect(admin.locator("body")).to_contain_text("ada")
    expect(admin.locator("body")).to_contain_text("declared")


def test_a_full_pool_is_shown_live(hub: Hub, in_the_lab: Callable[..., Page], log_in: LogIn) -> None:
    page = in_the_lab("ada")
    page.locator(".jp-CodeCell", has_text="%%runai_train").scroll_into_view_if_needed()
    page.get_by_role("tab", name="GPU pool").click()
    admin = log_in("admin")
    admin.goto(f"{hub.url}services/runai/")
    panel, queue = page.locator(".runai-Panel"), admin.locator("body")

    with client_of(hub, "ada") as client:
        free = int(client.pool().train.free)
        sizes = [4, 2, 1, *[1] * (free - 7), 8]
        names = [
            "bert-finetune",
            "resnet",
            "ablation",
            *[f"sweep-{n:02}" for n in range(free - 7)],
            "pretrain-large",
        ]
        jobs = [
            client.submit(JobSubmit(name=name, command=["/bin/sleep", "600"], gpus=size))
            for name, size in zip(names, sizes, strict=True)
        ]
        try:
            expect(panel).to_contain_text("pretrain-large")
            expect(queue).to_contain_text("pretrain-large")
            assert eventually(lambda: client.job(jobs[0].id).state == "running")
            assert client.job(jobs[-1].id).state == "queued"
            assert "8 GPUs" in client.job(jobs[-1].id).reason
            shot(page, "panel")
            shot(admin, "pool")
            admin.emulate_media(color_scheme="dark")
            shot(admin, "pool-dark")
            admin.set_viewport_size({"width": 640, "height": 900})
            box = admin.locator(".runai-TableBox")
            assert box.evaluate("box => box.scrollWidth <= box.clientWidth"), "the table of projects is cut"
        finally:
            for job in jobs:
                client.cancel(job.id)
        assert eventually(lambda: client.pool().train.free == free)


def test_jobs_outlive_a_killed_scheduler(hub: Hub, in_the_lab: Callable[..., Page]) -> None:
    page = in_the_lab("bob")
    free = int(api(page, "pool")["train"]["gpus"])
    marks = hub.folder / "marks"
    marks.mkdir()

    def command(name: str) -> list[str]:
        return ["/bin/sh", "-c", f"echo ran >> {marks}/{name}; while [ ! -e {marks}/go ]; do sleep 0.1; done"]

    names = [f"j{i}" for i in range(free + 2)]
    with client_of(hub, "bob") as client:
        for name in names:
            client.submit(JobSubmit(name=name, command=command(name), gpus=1))

    def states() -> dict[str, str]:
        answer = api(page, "jobs?mine=true")
        return {job["name"]: job["state"] for job in answer.get("jobs", [])}

    def running_and_queued() -> bool:
        seen = sorted(states().values())
        return seen == ["queued"] * 2 + ["running"] * free

    assert eventually(running_and_queued), states()
    killed = hub.scheduler_pid
    os.kill(killed, signal.SIGKILL)
    assert eventually(lambda: hub.scheduler_pid != killed, 60)
    assert eventually(running_and_queued, 60), states()
    (marks / "go").touch()
    assert eventually(lambda: set(states().values()) == {"succeeded"}, 60), states()
    assert {path.name: path.read_text() for path in marks.iterdir() if path.name != "go"} == dict.fromkeys(
        names, "ran\n"
    )


def test_another_users_log_is_not_read(hub: Hub, in_the_lab: Callable[..., Page]) -> None:
    in_the_lab("carol")
    with client_of(hub, "carol") as client:
        mine = client.submit(JobSubmit(name="secret", command=["/bin/echo", "mine"], gpus=0))
    other = in_the_lab("dave")
    log = other.evaluate("async (id) => (await fetch(`/user/dave/runai/api/v1/jobs/${id}/logs`)).status", mine.id)
    assert log == 403  # members of the project may see the job, but not its log
    assert json.dumps(api(other, "sessions")).count("carol") == 0
