"""Schedules in the panel: by mouse and keyboard, in the dark theme and in a narrow window."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from scheduler.schema import JobSubmit, ScheduleSubmit

from .conftest import Hub
from .test_first_light import client_of, in_the_lab, shot
from .test_submit_dialog import THEMES, field, page, train

__all__ = ["in_the_lab", "page"]

pytestmark = pytest.mark.needs("chromium")


def test_a_script_is_scheduled_in_the_form(hub: Hub, page: Page) -> None:
    dialog = train(page, "train.py")
    field(dialog, "Schedule").select_option("Every week")
    field(dialog, "Day of the week").select_option("Friday")
    field(dialog, "Time of day").fill("18:30")
    expect(dialog.get_by_role("status")).to_contain_text("Every Friday at")
    shot(page, "submit-dialog-schedule")
    page.set_viewport_size({"width": 480, "height": 700})
    shot(page, "submit-dialog-schedule-narrow")
    page.set_viewport_size({"width": 1360, "height": 900})
    dialog.get_by_role("button", name="Send").click()
    expect(dialog).to_have_count(0)
    expect(page.locator(".Toastify__toast", has_text="train.py runs next at")).to_have_count(1)
    page.get_by_role("tab", name="GPU pool").click()
    expect(page.locator(".runai-Schedule", has_text="train.py")).to_contain_text("Every Friday at")
    with client_of(hub, "kim") as client:
        (schedule,) = client.schedules()
        assert schedule.cron == "30 18 * * 5"
        client.schedule_remove(schedule.id)


def test_a_schedule_is_run_paused_and_removed_in_the_panel(hub: Hub, in_the_lab: Callable[..., Page]) -> None:
    page = in_the_lab("mia")
    page.get_by_role("tab", name="GPU pool").click()
    fold = page.get_by_role("button", name="Schedules")
    expect(fold).to_have_attribute("aria-expanded", "false")
    with client_of(hub, "mia") as client:
        for name, cron in (("nightly", "0 2 * * *"), ("weekly-report", "30 6 * * mon")):
            client.schedule_add(ScheduleSubmit(cron=cron, job=JobSubmit(name=name, command=["true"])))
    row = page.locator(".runai-Schedule", has_text="nightly")
    expect(row).to_contain_text("Every day at 02:00")
    page.get_by_role("button", name="Run nightly now").click()
    expect(row).to_contain_text("Last run: succeeded")
    shot(page, "panel-schedules")
    pause = page.get_by_role("button", name="Pause the schedule nightly")
    pause.focus()
    page.keyboard.press("Enter")
    expect(row).to_contain_text("paused")
    expect(page.get_by_role("button", name="Resume the schedule nightly")).to_be_focused()
    with page.expect_response(lambda reply: "/api/workspaces/" in reply.url and reply.request.method == "PUT"):
        row.get_by_role("button", name="Last run").click()  # a reload restores the panel once the layout is saved
    expect(page.locator(".runai-JobPage", has=page.locator("h2", has_text="nightly"))).to_be_visible()

    themes: Path = hub.folder / "users" / "mia" / THEMES
    themes.parent.mkdir(parents=True, exist_ok=True)
    themes.write_text(json.dumps({"theme": "JupyterLab Dark"}))
    page.reload()
    page.set_viewport_size({"width": 640, "height": 900})
    expect(row).to_contain_text("paused")
    shot(page, "panel-schedules-dark-narrow")
    page.get_by_role("button", name="Remove the schedule nightly").click()
    page.get_by_role("button", name="Remove the schedule", exact=True).click()
    expect(row).to_have_count(0)
    expect(page.locator(".runai-Schedule")).to_have_count(1)
