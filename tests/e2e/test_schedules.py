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
from .test_submit_dialog import THEMES

__all__ = ["in_the_lab"]

pytestmark = pytest.mark.needs("chromium")


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
    row.get_by_role("button", name="Last run").click()
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
