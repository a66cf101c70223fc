"""The page on which a user starts a server, in a real browser: profiles, and who holds the quota."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.hub.running import PASSWORD, Hub, eventually
from tests.hub.test_profiles import PROFILES

from .audit import audit
from .test_administration import shots

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.needs("node")]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("hub"), more=PROFILES)
    hub.start()
    yield hub
    hub.clean()


@pytest.fixture
def page(hub: Hub, browser: Browser) -> Iterator[Page]:
    """The page of a start, for ada."""
    yield (page := opened(hub, browser, "ada", "/hub/spawn"))
    page.context.close()


def opened(hub: Hub, browser: Browser, user: str, path: str) -> Page:
    """A page of the hub, for this user."""
    context = browser.new_context(viewport={"width": 1360, "height": 900})
    context.set_default_timeout(60_000)
    page = context.new_page()
    page.goto(f"{hub.url}/hub/login?next={quote(path, safe='')}")
    page.fill("#username_input", user)
    page.fill("#password_input", PASSWORD)
    page.click("#login_submit")
    return page


def test_over_quota_a_user_stops_another_server_and_starts_with_a_profile(hub: Hub, page: Page) -> None:
    one = page.get_by_role("radio", name="One GPU")
    expect(one).to_be_enabled()
    expect(page.get_by_role("radio", name="Small")).to_be_checked()
    expect(page.get_by_text("Your servers hold")).to_have_count(0)
    shots(page, "spawn-profiles")

    hub.api.post("/users/ada/servers/thesis", json={"profile": "One GPU"}).raise_for_status()
    eventually("the other server runs", lambda: hub.api.get("/users/ada").json()["servers"]["thesis"]["ready"])
    page.reload()
    expect(one).to_be_disabled()
    expect(page.get_by_role("group", name="Your servers hold 1 of your fixed quota of 1")).to_contain_text("thesis")
    shots(page, "spawn-over-quota")
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        for width in (640, 1360):
            page.set_viewport_size({"width": width, "height": 900})
            audit(page, f"page of a start, {theme}, {width} px", "fieldset")
    page.emulate_media(color_scheme="light")

    page.get_by_role("button", name="Stop server thesis").click()
    expect(one).to_be_enabled()
    expect(page.get_by_text("Your servers hold")).to_have_count(0)
    one.check()
    page.get_by_role("button", name="Start").click()
    page.wait_for_url("**/user/ada/lab**")
    session = hub.session("ada")
    assert session is not None
    assert (session.server, session.gpus) == ("", 1)
    hub.stop_server("ada")


def test_a_server_that_cannot_be_stopped_is_said_so(hub: Hub, page: Page) -> None:
    hub.api.post("/users/ada/servers/thesis", json={"profile": "One GPU"}).raise_for_status()
    eventually("the other server runs", lambda: hub.api.get("/users/ada").json()["servers"]["thesis"]["ready"])
    page.reload()
    page.route("**/hub/api/users/**", lambda route: route.fulfill(status=503, json={"message": "The hub is busy."}))
    stop = page.get_by_role("button", name="Stop server thesis")
    stop.click()
    expect(page.get_by_role("alert").filter(has_text="Not stopped: The hub is busy.")).to_be_visible()
    expect(stop).to_be_enabled()
    hub.api.delete("/users/ada/servers/thesis").raise_for_status()
    eventually("it has stopped", lambda: hub.session("ada") is None)


def test_a_server_waits_in_line_and_starts_when_its_turn_has_come(hub: Hub, page: Page, browser: Browser) -> None:
    for user in ("bea", "cleo", "dan"):
        hub.add(user)
    for user in ("bea", "cleo"):
        hub.spawn(user, profile="One GPU")
    page.reload()
    one = page.get_by_role("radio", name="One GPU")
    expect(page.locator("label", has=one)).to_contain_text("waits in line: none of 2 build GPUs free now")
    expect(page.get_by_role("radio", name="Small")).to_be_checked()
    shots(page, "spawn-none-free")
    one.check()
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#progress-message")).to_contain_text("Next in line for 1 GPU.")
    shots(page, "spawn-in-line")

    hub.api.post("/users/dan/server", json={"profile": "One GPU"}).raise_for_status()
    boss = opened(hub, browser, "boss", "/services/runai/#people")
    line = boss.get_by_role("region", name="In line")
    expect(line.get_by_role("rowheader")).to_have_text(["ada", "dan"])
    shots(boss, "people-in-line")
    line.get_by_role("button", name="Remove the server of dan from the line").click()
    boss.get_by_role("button", name="Remove", exact=True).click()
    expect(line.get_by_role("rowheader")).to_have_text(["ada"])
    boss.context.close()

    hub.stop_server("bea")
    page.wait_for_url("**/user/ada/lab**")
    for user in ("ada", "cleo"):
        hub.stop_server(user)
