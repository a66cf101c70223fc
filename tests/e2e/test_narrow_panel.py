"""The layout of the panel in a narrow side bar."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

pytestmark = pytest.mark.needs("chromium")

STYLE = Path(__file__).parents[2] / "labextension/style/base.css"


def test_retry_stays_in_view_beside_a_long_address(browser: Browser) -> None:
    said = "https://hub.example.org:8443/services/runai/user/somebody-with-a-long-name/api does not answer."
    page = browser.new_page()
    try:
        page.set_content(
            f"<style>{STYLE.read_text()}</style><div style='width: 240px'><div class='runai-Note'>"
            f"<span>{said}</span><button class='runai-Link'>Retry</button></div></div>"
        )
        note, button = page.locator(".runai-Note").bounding_box(), page.locator("button").bounding_box()
        assert note is not None
        assert button is not None
        assert button["x"] + button["width"] <= note["x"] + note["width"]
    finally:
        page.close()
