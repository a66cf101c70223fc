"""The administrator's page in a real Chromium behind a real hub, with 10,000 jobs and 2,000 GPUs: until it shows the
pool, from a change to the screen, frames while the map and the list scroll, and the size of its script.

One job holds all GPUs for jobs, and 9,999 wait. A change is a new priority of a job that the page shows.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[2]))

from hub_spawner.ports import any_free
from scheduler.client import Client
from scheduler.discovery.statefolder import StateFolder
from scheduler.model import JobState
from scheduler.schema import JobSubmit
from scheduler.store import ChangeSet
from tests.benchmarks.events import write
from tests.benchmarks.pages import crowd, frames, tell, tell_frames
from tests.e2e.conftest import CHROMIUM, QUIET, Hub, start_hub, stop_hub

GPUS = 2_000
WAITING = 9_999
VISITS = 9
CHANGES = 60
CHANGED = "j-000000000017"
STATIC = Path(__file__).parents[2] / "scheduler" / "api" / "static"

PAINTED = """
() => new Promise((done, fail) => {
  const look = () => document.querySelectorAll('.runai-Cell').length >= 2000 && document.querySelector('.runai-Tile')
    ? requestAnimationFrame(() => setTimeout(() => done(performance.now())))
    : requestAnimationFrame(look);
  look();
  setTimeout(() => fail(new Error('The page does not show the pool.')), 30_000);
})
"""
SHOWN = """
label => new Promise((done, fail) => {
  const look = () => document.querySelector(`[aria-label="${label}"]`)
    ? requestAnimationFrame(() => setTimeout(() => done(Date.now())))
    : requestAnimationFrame(look);
  look();
  setTimeout(() => fail(new Error(`The page does not show "${label}".`)), 30_000);
})
"""


def main() -> None:
    script = len(gzip.compress((STATIC / "admin.js").read_bytes(), 9))
    tell("the administrator's page: its script, gzipped", script / 1000, "kB")
    with (
        tempfile.TemporaryDirectory(prefix="runai-page-") as name,
        crowded(Path(name)) as (hub, client),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        page = logged_in(browser, hub)
        paints(page, hub)
        changes(page, client)
        browser.close()


@contextmanager
def crowded(place: Path) -> Iterator[tuple[Hub, Client]]:
    """A hub with a full pool; the jobs are written into the state of its stopped scheduler."""
    hub = start_hub(place / "hub", f"--port={any_free()}", f"--gpus={GPUS}")
    try:
        pool = hub.folder / "pool"
        client = Client(json.loads((pool / "endpoint.json").read_text())["url"], (pool / "hub-token").read_text())
        gpus = int(client.pool().train.gpus)
        held = JobSubmit(command=["sleep", "100000"], workers=2, gpus=gpus // 2, project="default", priority=100)
        holder = client.submit(held)
        until(lambda: client.job(holder.id).state is JobState.RUNNING)
    except BaseException:
        stop_hub(hub)
        raise
    stop_hub(hub)
    write(StateFolder(pool), ChangeSet(submitted=tuple(crowd(WAITING, holder.user, "default"))))
    hub = start_hub(place / "hub", f"--port={any_free()}", f"--gpus={GPUS}")
    try:
        client = Client(json.loads((pool / "endpoint.json").read_text())["url"], (pool / "hub-token").read_text())
        yield hub, client
        client.cancel(holder.id)
        client.wait(holder.id, timeout=60)
    finally:
        stop_hub(hub)


def logged_in(browser: Browser, hub: Hub) -> Page:
    context = browser.new_context(viewport={"width": 1360, "height": 900})
    context.set_default_timeout(60_000)
    page = context.new_page()
    page.goto(f"{hub.url}hub/login?next=/services/runai/")
    page.fill("#username_input", "admin")
    page.fill("#password_input", hub.admin_password)
    page.click("#login_submit")
    page.wait_for_url(re.compile("/services/runai/"))
    return page


def paints(page: Page, hub: Hub) -> None:
    """From the request of the page until its tiles and all 2,000 GPUs are drawn; the first visit fills the cache."""
    took, scrolled = [], []
    for visit in range(VISITS + 1):
        page.goto(f"{hub.url}services/runai/", wait_until="commit")
        painted = float(page.evaluate(PAINTED))
        took += [painted] if visit else []
    for _ in range(3):
        scrolled += frames(page.locator("body"))
    tell("10,000 jobs, 2,000 GPUs: the page shows the pool, median", sorted(took)[len(took) // 2], "ms")
    tell_frames("10,000 jobs, 2,000 GPUs", "the map scrolls", scrolled)


def changes(page: Page, client: Client) -> None:
    """From the request of a change until it is drawn."""
    page.get_by_role("link", name="Jobs").click()
    page.get_by_label("Name or id").fill(CHANGED)  # many names contain train-17
    page.get_by_role("button", name="Find", exact=True).click()
    page.wait_for_selector(f"tr[data-job={CHANGED}]:only-of-type")
    took = []
    for n in range(CHANGES):
        priority = 1 + n % 40  # below that of the job that holds the GPUs
        label = f"Priority of train-17: {priority}"
        shown = page.evaluate_handle(f"label => ({{ at: ({SHOWN})(label) }})", label)
        began = time.time()
        client.set_priority(CHANGED, priority)
        took.append(float(shown.evaluate("({ at }) => at")) - 1000 * began)
    took.sort()
    tell(
        "10,000 jobs, 2,000 GPUs: a change → on the screen, 95th percentile", took[math.ceil(0.95 * CHANGES) - 1], "ms"
    )


def until(look: Callable[[], object]) -> None:
    while not look():
        time.sleep(0.05)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
