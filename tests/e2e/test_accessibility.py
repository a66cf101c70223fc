"""WCAG 2.1 AA, as far as axe-core can tell: each view of the administrator's page, and what is ours in JupyterLab.

Both themes are audited, and the narrow layout. axe-core sees names, roles, contrasts and structure; other tests use
everything by keyboard.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from scheduler.schema import ArrayMember, ArraySubmit, JobSubmit

from .audit import Audit
from .conftest import Hub, LogIn
from .test_administration import api
from .test_first_light import cell_output, client_of, in_the_lab, run_all_cells
from .test_job_views import MEMBER, TRAINS
from .test_submit_dialog import THEMES

__all__ = ["in_the_lab"]

pytestmark = pytest.mark.needs("chromium")

ADMINISTRATOR = {name: name for name in ("Projects", "People", "Jobs", "Nodes", "Policies", "Usage", "Audit")} | {
    "Pool": "Queue"
}
"""The views of the administrator's page, and a region of each."""
SLEEPS = {"command": ["/bin/sleep", "600"], "project": "default"}


def test_the_audit_finds_a_field_without_a_label(log_in: LogIn, hub: Hub) -> None:
    page = log_in("admin")
    page.goto(f"{hub.url}services/runai/#jobs")
    page.get_by_label("User").evaluate("input => ['aria-label', 'placeholder'].map(n => input.removeAttribute(n))")
    audit = Audit(page)
    audit.look("Jobs")
    assert [found.split(": ")[1] for found in audit.violations] == ["label"]


def test_the_administrators_page(log_in: LogIn, hub: Hub) -> None:
    page = log_in("admin")
    page.goto(f"{hub.url}services/runai/")
    for gpus in (2, 3, 18):
        api(page, "jobs", "POST", {**SLEEPS, "gpus": gpus})
    audit = Audit(page)
    for view, region in ADMINISTRATOR.items():
        page.get_by_role("link", name=view, exact=True).click()
        expect(page.get_by_role("region", name=region)).to_be_visible()
        audit.look(view)
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size({"width": 640, "height": 900})
        audit.look(f"{view}, dark and narrow")
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 1360, "height": 900})
    for view, button in (("Projects", "New project"), ("Jobs", "Priority of"), ("Jobs", "Cancel 3 jobs…")):
        page.get_by_role("link", name=view, exact=True).click()
        if view == "Jobs":
            page.get_by_label("User").fill("admin")
            page.get_by_label("Project").select_option("default")
        page.get_by_role("button", name=button).first.click()
        expect(page.get_by_role("dialog")).to_be_visible()
        audit.look(button)
        page.emulate_media(color_scheme="dark")
        audit.look(f"{button}, dark")
        page.emulate_media(color_scheme="light")
        if button != "Cancel 3 jobs…":
            page.keyboard.press("Escape")
            expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Cancel the jobs").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    audit.finish()


def test_what_is_ours_in_jupyterlab(hub: Hub, in_the_lab: Callable[..., Page]) -> None:
    page = in_the_lab("eve")
    run_all_cells(page)
    expect(cell_output(page, "%runai_train train.py")).to_contain_text("epoch 3 of 3", timeout=90_000)
    with client_of(hub, "eve") as client:
        sweep = JobSubmit(name="sweep", command=["sh", "-c", MEMBER], gpus=1)
        client.submit_array(ArraySubmit(job=sweep, members=[ArrayMember(index=n) for n in range(4)]))
        client.submit(JobSubmit(name="digits", command=["sh", "-c", TRAINS], workers=2, retries=1))
        client.submit(JobSubmit(name="waits", command=["true"], gpus=18))
    page.get_by_role("tab", name="GPU pool").click()
    audit = Audit(page)
    _audit_the_lab(page, audit, "light")
    themes: Path = hub.folder / "users" / "eve" / THEMES
    themes.parent.mkdir(parents=True, exist_ok=True)
    themes.write_text(json.dumps({"theme": "JupyterLab Dark"}))
    page.set_viewport_size({"width": 640, "height": 900})
    page.reload()
    expect(page.locator("body")).to_have_attribute("data-jp-theme-light", "false")
    expect(page.locator("#jupyterlab-splash")).to_have_count(0)  # all tabs are restored, and the one of before selected
    _audit_the_lab(page, audit, "dark and narrow")
    audit.finish()


def _audit_the_lab(page: Page, audit: Audit, how: str) -> None:
    page.locator("#jp-main-dock-panel").get_by_role("tab", name="First steps.ipynb").click()
    expect(page.locator(".runai-Card").first).to_be_visible()
    audit.look(f"card, {how}", ".runai-Card")
    digits = page.locator(".runai-Job", has_text="digits")
    expect(digits).to_contain_text("2 / 4")
    audit.look(f"panel, {how}", ".runai-SidePanel")
    page.get_by_role("button", name="New job").click()
    dialog = page.locator(".runai-SubmitDialog")
    dialog.get_by_text("More options").click()
    expect(dialog.get_by_label("Sweep")).to_be_visible()
    audit.look(f"dialog, {how}", ".runai-SubmitDialog")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.locator("#jp-main-dock-panel").get_by_role("tab", name="First steps.ipynb").click()
    page.locator(".jp-CodeCell").first.click(button="right", position={"x": 100, "y": 10})
    page.get_by_role("menuitem", name="Train This Cell…").click()
    expect(dialog.locator(".runai-Along")).to_be_visible()
    audit.look(f"form of a cell, {how}", ".runai-SubmitDialog")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.get_by_role("menuitem", name="Settings", exact=True).click()
    page.get_by_role("menuitem", name="GPU Pool Notices…").click()
    dialog.get_by_label("Send notices by").select_option("webhook")
    audit.look(f"notices, {how}", ".runai-SubmitDialog")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    waits = page.locator(".runai-Job", has_text="waits")
    waits.hover()
    waits.get_by_role("button", name="Open waits").click()
    why = page.locator(".runai-JobPage", has=page.locator("h2", has_text="waits"))
    why.get_by_role("tab", name="Why?").click()
    expect(why.get_by_role("button", name="Clone")).to_be_visible()
    audit.look(f"what would help a job, {how}", ".runai-JobPage")
    digits.hover()
    digits.get_by_role("button", name="Open digits").click()
    view = page.locator(".runai-JobPage", has=page.locator("h2", has_text="digits"))
    for tab in ("Overview", "Metrics", "Log", "Files", "Why?"):
        view.get_by_role("tab", name=tab).click()
        expect(view.get_by_role("tab", name=tab)).to_have_attribute("aria-selected", "true")
        expect(view.get_by_role("tabpanel")).to_be_visible()
        audit.look(f"{tab} of a job, {how}", ".runai-JobPage")
