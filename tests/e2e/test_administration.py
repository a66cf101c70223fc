"""The administrator's page in a real browser against a real hub."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from scheduler.client import Client

from .audit import audit
from .conftest import SCREENSHOTS, Hub, LogIn, eventually

pytestmark = pytest.mark.needs("chromium")


def shots(page: Page, name: str) -> None:
    """Screenshots in the light and dark themes and on a narrow screen, where nothing may be cut off."""
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
def admin(hub: Hub, log_in: LogIn, administrator: Client) -> Iterator[Page]:
    """The page. What a test sets in the pool does not outlast it."""
    before = administrator.pool_file()
    page = log_in("admin")
    page.goto(f"{hub.url}services/runai/")
    yield page
    administrator.apply(before)


def test_every_view_has_an_address_and_is_reached_by_the_keyboard(admin: Page) -> None:
    views = admin.get_by_role("navigation", name="Views").get_by_role("link")
    names = ["Pool", "Projects", "People", "Jobs", "Nodes", "Policies", "Usage", "Audit"]
    expect(views).to_have_text(names)
    expect(views.first).to_have_attribute("aria-current", "page")
    views.first.focus()
    for name in names[1:]:
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


def api(page: Page, path: str, method: str = "GET", body: Any = None) -> Any:
    """Send a request to the scheduler as the page does."""
    return page.evaluate(
        """async ([path, method, body]) => {
            const xsrf = document.cookie.match(/(?:^|; )_xsrf=([^;]*)/)[1];
            const answer = await fetch('/services/runai/api/v1/' + path, {
                method, headers: {'X-XSRFToken': xsrf, 'Content-Type': 'application/json'},
                body: body === null ? undefined : JSON.stringify(body),
            });
            const text = await answer.text();
            return text ? JSON.parse(text) : null;
        }""",
        [path, method, body],
    )


def test_what_the_scheduler_decides_is_told_as_it_happens(admin: Page) -> None:
    def submit(name: str, project: str, gpus: int) -> str:
        body = {"name": name, "command": ["/bin/sleep", "600"], "project": project, "gpus": gpus, "grace": 1}
        return str(api(admin, "jobs", "POST", body)["id"])

    decisions = admin.get_by_role("region", name="Decisions")
    entries = decisions.get_by_role("listitem")
    api(admin, "projects/speech", "PUT", {"name": "speech", "guaranteed": 18, "members": ["*"]})
    surplus = [submit(f"surplus-{n}", "default", 6) for n in range(3)]
    started = entries.filter(has_text="started on")
    expect(started).to_contain_text("and surplus-0 started on")
    expect(started).to_contain_text("(18 GPUs), over quota.")
    asr = submit("asr", "speech", 12)
    paused = entries.filter(has_text="were paused: Project speech reclaims GPUs for asr.")
    expect(paused).to_contain_text(re.compile("default/surplus-. and surplus-."))
    expect(entries.filter(has_text="speech/asr started on")).to_contain_text(
        "12 GPUs), within the project’s guarantee."
    )
    expect(entries.filter(has_text="wait:")).to_contain_text("default/surplus-")
    shots(admin, "admin-decisions")
    admin.reload()  # nothing of it is lost
    expect(paused).to_have_count(1)
    decisions.get_by_role("link", name="speech/asr").click()
    jobs = admin.get_by_role("region", name="Jobs")
    expect(jobs.locator("tbody .runai-Name")).to_have_text(["asr"])
    expect(jobs.get_by_role("button", name="running asr")).to_have_attribute("aria-expanded", "true")
    shots(admin, "admin-one-job")
    admin.go_back()
    expect(decisions).to_be_visible()
    for id in (*surplus, asr):
        api(admin, f"jobs/{id}/cancel", "POST")
    assert eventually(lambda: api(admin, f"jobs/{asr}")["state"] == "cancelled")
    api(admin, "projects/speech", "DELETE")


def test_a_project_is_added_changed_and_retired_on_the_page(admin: Page) -> None:
    admin.get_by_role("link", name="Projects").click()
    admin.get_by_role("button", name="New project").click()
    expect(admin.get_by_label("Name", exact=True)).to_be_focused()
    admin.keyboard.type("speech")
    admin.get_by_label("Guarantee (GPUs)").fill("40")
    expect(admin.get_by_role("dialog")).to_contain_text("40 of 18 GPUs guaranteed: too many")
    shots(admin, "admin-new-project")
    admin.keyboard.press("Enter")
    expect(admin.get_by_role("dialog")).to_contain_text("speech is added.")
    expect(admin.get_by_role("dialog")).to_contain_text("the guarantees cannot all be met at the same time")
    admin.get_by_role("button", name="Back").click()
    admin.get_by_label("Guarantee (GPUs)").fill("4")
    admin.get_by_role("button", name="Add a time window").click()
    admin.get_by_label("GPUs then").fill("6")
    shots(admin, "admin-time-window")
    admin.get_by_role("button", name="Review the change").click()
    admin.get_by_role("button", name="Apply").click()
    row = admin.get_by_role("row", name="speech")
    expect(row).to_contain_text("Fridays 08:00–12:00: 6")

    edit = admin.get_by_role("button", name="Edit speech")
    edit.click()
    admin.get_by_label("Limit (GPUs)").fill("6")
    admin.get_by_role("button", name="Review the change").click()
    expect(admin.get_by_role("dialog")).to_contain_text("speech: limit none → 6")
    shots(admin, "admin-review-project")
    api(admin, "projects/speech", "PUT", {"name": "speech", "guaranteed": 5})
    admin.get_by_role("button", name="Apply").click()
    expect(admin.get_by_role("alert")).to_contain_text("has been changed meanwhile")
    expect(admin.get_by_label("Limit (GPUs)")).to_have_value("6")
    expect(admin.get_by_label("Guarantee (GPUs)")).to_have_value("5")
    admin.get_by_role("button", name="Review the change").click()
    admin.get_by_role("button", name="Apply").click()
    expect(edit).to_be_focused()
    found = api(admin, "projects/speech")
    assert (found["guaranteed"], found["limit"]) == (5, 6)

    edit.click()
    admin.get_by_role("button", name="Retire…").click()
    admin.get_by_role("button", name="Retire", exact=True).click()
    expect(row).to_have_count(0)

    admin.get_by_role("link", name="Audit").click()
    entries = admin.get_by_role("region", name="Audit").locator("tbody tr")
    expect(entries.nth(0)).to_contain_text("project speech is removed.")
    expect(entries.nth(1)).to_contain_text("project speech: limit none → 6")
    expect(entries.nth(2)).to_contain_text("project speech: guaranteed 4 → 5")
    expect(entries.nth(3)).to_contain_text("project speech is added.")
    expect(entries.nth(0)).to_contain_text("admin")
    shots(admin, "admin-audit")


def test_a_node_is_drained_with_a_reason_and_returned(admin: Page) -> None:
    admin.get_by_role("link", name="Nodes").click()
    row = admin.get_by_role("row", name=re.compile("-train"))
    row.get_by_role("button", name="Drain").click()
    expect(admin.get_by_label("Reason")).to_be_focused()
    admin.keyboard.type("new power supply")
    admin.keyboard.press("Enter")
    expect(row).to_contain_text("drained: new power supply")
    shots(admin, "admin-drained")
    job = api(admin, "jobs", "POST", {"name": "next", "command": ["true"], "project": "default"})
    row.get_by_role("button", name="Return").click()
    expect(row).to_contain_text("takes work")
    assert eventually(lambda: api(admin, f"jobs/{job['id']}")["state"] == "succeeded")


def test_a_node_is_moved_to_another_node_pool_after_a_preview(admin: Page) -> None:
    admin.get_by_role("link", name="Nodes").click()
    row = admin.get_by_role("row", name=re.compile("-build "))
    job = api(admin, "jobs", "POST", {"name": "large", "command": ["/bin/sleep", "600"], "gpus": 18, "grace": 1})
    assert eventually(lambda: api(admin, f"jobs/{job['id']}")["state"] == "running")
    more = api(admin, "jobs", "POST", {"name": "more", "command": ["/bin/sleep", "600"], "gpus": 2, "grace": 1})
    assert eventually(lambda: api(admin, f"jobs/{more['id']}")["reason"].startswith("Needs"))
    row.get_by_role("button", name="Move").click()
    dialog = admin.get_by_role("dialog")
    expect(dialog.get_by_label("Node pool")).to_be_focused()
    expect(dialog.get_by_label("Node pool")).to_have_value("train")
    shots(admin, "admin-move-node")
    admin.keyboard.press("Enter")
    dialog.get_by_role("button", name="Review the change").click()
    expect(dialog).to_contain_text("-build moves to the node pool train.")
    expect(dialog).to_contain_text("1 job of default (2 GPUs) would start: more (admin)")
    shots(admin, "admin-move-node-review")
    dialog.get_by_role("button", name="Apply").click()
    expect(dialog).to_have_count(0)
    expect(row.get_by_role("cell").first).to_have_text("train")
    shots(admin, "admin-moved-node")
    assert eventually(lambda: api(admin, f"jobs/{more['id']}")["state"] == "running")

    row.get_by_role("button", name="Move").click()
    dialog.get_by_role("button", name="Review the change").click()
    expect(dialog).to_contain_text(re.compile("1 job holds GPUs of .*-build and keeps them until it ends"))
    dialog.get_by_role("button", name="Apply").click()
    expect(row.get_by_role("cell").first).to_have_text("build")
    for id in (job["id"], more["id"]):
        api(admin, f"jobs/{id}/cancel", "POST")
    newest = api(admin, "audit?kind=pool&limit=2")["entries"]
    assert [(entry["user"], *entry["before"].values(), *entry["after"].values()) for entry in newest] == [
        ("admin", "train", None),
        ("admin", None, "train"),
    ]


def test_a_person_gets_a_build_quota_and_their_server_is_stopped(admin: Page, hub: Hub, log_in: LogIn) -> None:
    una = log_in("una")
    una.goto(f"{hub.url}hub/spawn")
    una.wait_for_url(re.compile("/user/una/"))
    admin.get_by_role("link", name="People").click()
    session = admin.get_by_role("region", name="Sessions").get_by_role("row", name="una")
    expect(session).to_be_visible()
    longest = {"session_max_duration": 60, "session_idle_grace": 3600}
    api(admin, "pool/apply", "POST", {**api(admin, "pool/file"), "settings": longest})
    expect(session).to_contain_text("stops at")
    shots(admin, "admin-longest-session")
    expect(una.get_by_text("because it reaches its time limit").first).to_be_visible()
    una.screenshot(path=SCREENSHOTS / "longest-session.png")
    una.close()
    row = admin.get_by_role("region", name="People").get_by_role("row", name="una")
    row.get_by_role("button", name="Build quota").click()
    admin.get_by_label("GPUs", exact=True).fill("500")
    admin.keyboard.press("Enter")
    expect(admin.get_by_role("alert")).to_contain_text("Build quotas would add up to 500 GPUs")
    admin.get_by_label("GPUs", exact=True).fill("2")
    shots(admin, "admin-build-quota")
    admin.keyboard.press("Enter")
    expect(admin.get_by_role("dialog")).to_have_count(0)
    expect(row).to_contain_text("own")
    shots(admin, "admin-people-sessions")
    session.get_by_role("button", name="Stop the server of una").click()
    admin.get_by_role("button", name="Stop the server", exact=True).click()
    expect(session).to_have_count(0)
    row.get_by_role("button", name="Build quota").click()
    admin.get_by_role("button", name="Remove").click()
    expect(row).to_contain_text("default")
    newest = api(admin, "audit?limit=3")["entries"]
    assert [(entry["action"], entry["kind"]) for entry in newest] == [
        ("remove", "user"),
        ("remove", "session"),
        ("add", "user"),
    ]


def test_policies_are_read_and_changed_in_one_place(admin: Page) -> None:
    admin.get_by_role("link", name="Policies").click()
    pool = admin.get_by_role("region", name="Policies")
    idle = pool.get_by_role("row", name="Idle notebook servers")
    expect(idle).to_contain_text("not stopped")
    dialog = admin.get_by_role("dialog")
    pool.get_by_role("button", name="Edit Idle notebook servers").click()
    warn = dialog.get_by_label("Warn after")
    expect(warn).to_be_focused()
    warn.fill("two hours")
    admin.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_have_text("Warn after: write a duration, such as 90 s, 30 min, 2 h or 1 d.")
    warn.fill("2 h")
    dialog.get_by_role("button", name="Review the change").click()
    expect(dialog).to_contain_text("Idle notebook servers: Warn after never → 2\u00a0h")
    dialog.get_by_role("button", name="Apply").click()
    expect(dialog).to_have_count(0)
    expect(idle).to_contain_text("warned after 2\u00a0h without use, stopped 10\u00a0min later")

    for rule, label, text, words in (
        ("Reclaiming GPUs", "A job waits before it reclaims", "30 s", "by jobs that have waited for 30\u00a0s"),
        ("Recent use", "Weight of recent use", "0.5", "(weight 0.5); counts half as much after 7\u00a0d"),
        ("Reservations", "Waiting jobs for which GPUs are reserved", "3", "GPUs are reserved for 3 waiting jobs"),
        ("Elastic jobs", "Run before getting more workers", "10 min", "once they have run for 10\u00a0min"),
    ):
        pool.get_by_role("button", name=f"Edit {rule}").click()
        dialog.get_by_label(label).fill(text)
        dialog.get_by_role("button", name="Review the change").click()
        expect(dialog).to_contain_text(f"{rule}: {label}")
        dialog.get_by_role("button", name="Apply").click()
        expect(pool.get_by_role("row", name=rule)).to_contain_text(words)
    pool.get_by_role("button", name="Edit Order of jobs").click()
    dialog.get_by_label("Order in a project").select_option(label="least served first")
    dialog.get_by_label("Service levels end at").fill("4, 32")
    shots(admin, "admin-edit-order")
    dialog.get_by_role("button", name="Review the change").click()
    dialog.get_by_role("button", name="Apply").click()
    order = pool.get_by_role("row", name="Order of jobs")
    expect(order).to_contain_text("least served first, in levels that end at 4, 32 GPU-hours")
    settings = api(admin, "pool/file")["settings"]
    assert settings["preemption_delay"] == 30
    assert settings["service_levels"] == [4, 32]

    jobs = admin.get_by_role("region", name="Rules for jobs")
    jobs.get_by_role("button", name="Edit the rules of All projects").click()
    dialog.get_by_label("GPUs per worker: at most").fill("8")
    dialog.get_by_label("Run time: default").fill("4 h")
    dialog.get_by_role("button", name="Review the change").click()
    expect(dialog).to_contain_text("All projects: GPUs per worker: at most no rule → 8")
    api(admin, "pool/apply", "POST", {**api(admin, "pool/file"), "keep_days": 60})
    dialog.get_by_role("button", name="Apply").click()
    expect(dialog.get_by_role("alert")).to_contain_text("The pool has been changed meanwhile")
    dialog.get_by_role("button", name="Close").click()
    jobs.get_by_role("button", name="Edit the rules of All projects").click()
    dialog.get_by_label("GPUs per worker: at most").fill("8")
    dialog.get_by_label("Run time: default").fill("4 h")
    dialog.get_by_role("button", name="Review the change").click()
    dialog.get_by_role("button", name="Apply").click()
    own = jobs.get_by_role("row").filter(has=admin.get_by_role("rowheader", name="default", exact=True))
    expect(own).to_contain_text("GPUs per worker: at most 8 from all projects")
    jobs.get_by_role("button", name="Edit the rules of default").click()
    dialog.get_by_label("GPUs per worker: at most").fill("2")
    shots(admin, "admin-edit-policy")
    dialog.get_by_role("button", name="Review the change").click()
    shots(admin, "admin-review-policy")
    dialog.get_by_role("button", name="Apply").click()
    expect(own).to_contain_text(re.compile("GPUs per worker: at most 2 *Run time: default 4\u00a0h from all projects"))
    shots(admin, "admin-policies-set")
    refused = api(admin, "jobs", "POST", {"name": "wide", "command": ["true"], "gpus": 4, "project": "default"})
    assert "GPUs may be 2 at most in project 'default'" in refused["detail"]

    entries = api(admin, "audit?limit=9")["entries"]
    assert [(entry["kind"], sorted(entry["after"])) for entry in entries] == [
        ("project", ["policy.maxima.gpus"]),
        ("pool", ["policy.defaults.max_runtime", "policy.maxima.gpus"]),
        ("pool", ["keep_days"]),
        ("settings", ["order", "service_levels"]),
        ("settings", ["resize_interval"]),
        ("settings", ["reservations"]),
        ("settings", ["time_aware"]),
        ("settings", ["preemption_delay"]),
        ("settings", ["session_idle_timeout"]),
    ]


def test_what_was_used_is_shown_and_downloaded(admin: Page) -> None:
    job = api(admin, "jobs", "POST", {"name": "used", "gpus": 2, "command": ["true"], "project": "default"})
    assert eventually(lambda: api(admin, f"jobs/{job['id']}")["state"] == "succeeded")
    admin.get_by_role("link", name="Usage").click()
    admin.get_by_label("Span").select_option("last 24 hours")
    admin.get_by_label("Show").select_option("Starts")
    expect(admin.get_by_role("row", name="default")).to_be_visible()
    expect(admin.get_by_role("img", name=re.compile("^Starts: [1-9]"))).to_be_visible()
    shots(admin, "admin-usage")
    admin.get_by_label("By").select_option("User")
    expect(admin.get_by_role("rowheader", name="admin")).to_be_visible()
    with admin.expect_download() as download:
        admin.get_by_role("button", name="Download CSV").click()
    table = download.value.path().read_text()
    assert table.splitlines()[0].startswith("start,user,gpu_hours,")
    assert ",admin," in table


def test_more_gpus_are_simulated(admin: Page) -> None:
    job = api(admin, "jobs", "POST", {"gpus": 1, "command": ["true"], "project": "default"})
    assert eventually(lambda: api(admin, f"jobs/{job['id']}")["state"] == "succeeded")
    admin.get_by_role("link", name="Usage").click()
    admin.get_by_label("More GPUs").fill("8")
    admin.get_by_role("button", name="Simulate").click()
    simulated = admin.get_by_role("table", name="All projects")
    expect(simulated.get_by_role("row", name="Mean wait")).to_be_visible(timeout=60_000)
    admin.get_by_role("button", name="Simulate").scroll_into_view_if_needed()
    shots(admin, "admin-what-if")
    for theme in ("light", "dark"):
        admin.emulate_media(color_scheme=theme)
        audit(admin, f"what if, {theme}")
    admin.emulate_media(color_scheme="light")


def test_jobs_are_found_and_cancelled_together(admin: Page) -> None:
    command = ["/bin/sleep", "600"]
    ids = [
        api(admin, "jobs", "POST", {"name": f"sweep-{n}", "command": command, "project": "default"})["id"]
        for n in range(3)
    ]
    admin.get_by_role("link", name="Jobs").click()
    admin.get_by_label("User").fill("admin")
    admin.get_by_label("Project").select_option("default")
    expect(admin.get_by_role("region", name="Jobs")).to_contain_text("sweep-2")
    shots(admin, "admin-found")
    admin.get_by_role("button", name="Cancel 3 jobs…").click()
    admin.get_by_role("button", name="Cancel the jobs").click()
    assert eventually(lambda: {api(admin, f"jobs/{id}")["state"] for id in ids} == {"cancelled"})


def test_jobs_are_sorted_by_the_headings_of_their_table_also_by_the_keyboard(admin: Page) -> None:
    ids = [
        api(
            admin,
            "jobs",
            "POST",
            {"name": f"of-{gpus}", "command": ["/bin/sleep", "600"], "project": "default", "gpus": gpus},
        )["id"]
        for gpus in (2, 3, 1)
    ]
    admin.get_by_role("link", name="Jobs").click()
    admin.get_by_label("State").select_option("running")
    names = admin.get_by_role("region", name="Jobs").locator("tbody .runai-Name")
    expect(names).to_have_text(["of-1", "of-3", "of-2"])
    admin.get_by_role("button", name="GPUs", exact=True).focus()
    admin.keyboard.press("Enter")
    expect(names).to_have_text(["of-3", "of-2", "of-1"])
    expect(admin.get_by_role("columnheader", name="GPUs")).to_have_attribute("aria-sort", "descending")
    shots(admin, "admin-jobs-sorted")
    admin.keyboard.press("Enter")
    expect(names).to_have_text(["of-1", "of-2", "of-3"])
    expect(admin.get_by_role("columnheader", name="GPUs")).to_have_attribute("aria-sort", "ascending")
    for id in ids:
        api(admin, f"jobs/{id}/cancel", "POST")


def test_the_priority_of_a_job_and_of_all_found_jobs_is_changed(admin: Page) -> None:
    gpus = api(admin, "pool")["train"]["gpus"]
    whole = {"command": ["/bin/sleep", "600"], "project": "default", "gpus": gpus}
    ids = [api(admin, "jobs", "POST", {**whole, "name": f"rank-{n}"})["id"] for n in range(3)]
    assert eventually(lambda: api(admin, f"jobs/{ids[2]}")["position"] == 2)
    admin.get_by_role("link", name="Jobs").click()
    admin.get_by_label("State").select_option("queued")
    admin.get_by_role("button", name="Priority of rank-2: 50").click()
    admin.get_by_label("Priority", exact=True).fill("70")
    shots(admin, "admin-priority")
    admin.keyboard.press("Enter")
    expect(admin.get_by_role("dialog")).to_have_count(0)
    assert eventually(lambda: [api(admin, f"jobs/{id}")["state"] for id in ids] == ["queued", "queued", "running"])
    expect(admin.get_by_role("button", name="Priority of rank-0: 50")).to_be_visible()
    expect(admin.get_by_role("button", name="Priority of rank-2: 70")).to_have_count(0)
    admin.get_by_role("button", name="Priority of 2 jobs…").click()
    admin.get_by_label("Priority", exact=True).fill("30")
    admin.get_by_role("button", name="Set").click()
    expect(admin.get_by_role("button", name="Priority of rank-0: 30")).to_be_visible()
    shots(admin, "admin-jobs-priorities")
    assert [api(admin, f"jobs/{id}")["priority"] for id in ids] == [30, 30, 70]
    for id in reversed(ids):
        api(admin, f"jobs/{id}/cancel", "POST")
