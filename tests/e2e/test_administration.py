"""An administrator steers the pool from the page, in a real browser against a real hub."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from .conftest import SCREENSHOTS, Hub, LogIn

pytestmark = pytest.mark.needs("chromium")


def shots(page: Page, name: str) -> None:
    """The view as it is, in the dark, and on a narrow screen, on which nothing is cut."""
    SCREENSHOTS.mkdir(exist_ok=True)
    wide = page.viewport_size
    assert wide is not None
    page.screenshot(path=SCREENSHOTS / f"{name}.png")
    page.emulate_media(color_scheme="dark")
    page.screenshot(path=SCREENSHOTS / f"{name}-dark.png")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 640, "height": 900})
    page.screenshot(path=SCREENSHOTS / f"{name}-narrow.png")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page is cut"
    for box in page.locator(".runai-TableBox").all():
        assert box.evaluate("box => box.scrollWidth <= box.clientWidth"), "a table is cut"
    page.set_viewport_size(wide)


@pytest.fixture
def admin(hub: Hub, log_in: LogIn) -> Page:
    page = log_in("admin")
    page.goto(f"{hub.url}services/runai/")
    return page


def test_every_view_has_an_address_and_is_reached_by_the_keyboard(admin: Page) -> None:
    views = admin.get_by_role("navigation", name="Views").get_by_role("link")
    expect(views.first).to_have_attribute("aria-current", "page")
    views.first.focus()
    for name in views.all_inner_texts()[1:]:
        admin.keyboard.press("Tab")
        admin.keyboard.press("Enter")
        expect(admin.get_by_role("link", name=name)).to_have_attribute("aria-current", "page")
        expect(admin).to_have_url(re.compile(f"#{name.lower()}$"))
        expect(admin.get_by_role("region", name=name)).to_be_visible()
        shots(admin, f"admin-{name.lower()}")
    admin.reload()
    expect(admin.get_by_role("region", name=name)).to_be_visible()
    admin.go_back()
    expect(views.last).not_to_have_attribute("aria-current", "page")
