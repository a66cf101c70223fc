"""JupyterLab in a real Chromium with the panel, before a pool with 5,000 jobs: what users wait for, and what it costs.

All GPUs but one are held and 4,999 jobs wait for two each. JupyterLab starts in turn with and without the extensions,
on two servers. Frames are compared with those of JupyterLab's own file browser, which lists as many files in the same
page: what the machine itself drops is in both. An hour of 20 events a second is played faster than that: submissions,
cancellations and changes of priority, of jobs that the panel knows and of new ones.
"""

from __future__ import annotations

import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import nbformat
import psutil
from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[2]))

from hub_spawner.ports import any_free
from scheduler.client import Client
from scheduler.discovery.statefolder import StateFolder
from scheduler.model import JobState
from scheduler.schema import JobSubmit, ProjectEntry
from scheduler.store import ChangeSet
from tests.benchmarks.events import write
from tests.benchmarks.pages import crowd, frames, tell, tell_frames
from tests.e2e.conftest import CHROMIUM, QUIET
from tests.jupyter_ext.pool import RunningPool

GPUS = 16
WAITING = 4_999
STARTS = 10
OPENINGS = 7
ROWS = 650
SENDS = 5
HOUR = 72_000
"""Events of an hour with 20 a second."""
PLAYED = 14_400
RATE = 80

OPENED = """
() => new Promise(done => {
  document.addEventListener('pointerdown', () => {
    const began = performance.now();
    const look = () => document.querySelectorAll('.runai-Panel .runai-Job').length >= 50
      ? requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)))
      : requestAnimationFrame(look);
    look();
  }, { once: true, capture: true });
  globalThis.ready = true;
})
"""


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="runai-browser-") as name,
        crowded(Path(name)) as pool,
        lab(Path(name) / "with", pool.environment) as (url, server),
        lab(Path(name) / "without", None) as (bare_url, bare_server),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        starts(browser, url, bare_url)
        tell("JupyterLab's server: memory for the extension", resident(server) - resident(bare_server), "MB")
        sends(browser, url, pool)
        opens(browser, url)
        hour(browser, url, pool)
        tell(
            "JupyterLab's server: memory for the extension, afterwards", resident(server) - resident(bare_server), "MB"
        )
        browser.close()


@contextmanager
def crowded(place: Path) -> Iterator[RunningPool]:
    """A pool with one free GPU and 4,999 jobs that wait for two; it is guaranteed to another project of the user."""
    pool = RunningPool(place / "state", GPUS)
    pool.start()
    client = pool.client
    gpus = int(client.pool().train.gpus)
    client.project_put(ProjectEntry(name="mine", guaranteed=1, members=[client.me().name]))
    holder = client.submit(JobSubmit(command=["sleep", "100000"], gpus=gpus - 1, project="default", priority=100))
    while client.job(holder.id).state is not JobState.RUNNING:
        time.sleep(0.05)
    pool.kill()
    write(StateFolder(pool.state_dir), ChangeSet(submitted=tuple(crowd(WAITING, holder.user, holder.project))))
    pool.start()
    try:
        yield pool
    finally:
        pool.client.cancel(holder.id)
        pool.client.wait(holder.id, timeout=60)
        pool.kill()


@contextmanager
def lab(place: Path, environment: dict[str, str] | None) -> Iterator[tuple[str, psutil.Process]]:
    """A JupyterLab with an open notebook: its address and process. Without the extensions, if it has no pool."""
    (place / "work").mkdir(parents=True)
    cells = [nbformat.v4.new_code_cell("import time\ntime.sleep(1)")]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), place / "work" / "a.ipynb")
    for n in range(ROWS):
        (place / "work" / f"b-{n:03}.py").touch()
    options = [f"--ServerApp.root_dir={place}/work"]
    if environment is None:
        extensions = place / "labextensions"
        extensions.mkdir()
        for each in (Path(sys.prefix) / "share" / "jupyter" / "labextensions").iterdir():
            if each.name != "jupyter-runai":
                (extensions / each.name).symlink_to(each)
        options = [
            *options,
            "--ServerApp.jpserver_extensions={'jupyter_ext': False}",
            f"--LabApp.labextensions_path={extensions}",
        ]
    port, token = any_free(), secrets.token_hex()
    log = (place / "log").open("wb")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"),
            *options,
        ],
        env={**os.environ, "HOME": str(place), "JUPYTER_TOKEN": token, **(environment or {})},
        stdout=log,
        stderr=log,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        until(lambda: process.poll() is not None or answers(f"{url}/api?token={token}"))
        if process.poll() is not None:
            raise SystemExit((place / "log").read_text())
        yield f"{url}/lab/tree/a.ipynb?reset&token={token}", psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()
        log.close()


def answers(url: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(url).is_success
    return False


def until(look: Callable[[], object]) -> None:
    while not look():
        time.sleep(0.02)


def resident(process: psutil.Process) -> float:
    """The memory that the process alone has, in MB."""
    return float(process.memory_full_info().uss) / 1e6


# -- what is measured -----------------------------------------------------------------------------------------


@contextmanager
def visit(browser: Browser, url: str) -> Iterator[tuple[Page, float]]:
    """A new visitor's page, and the seconds until JupyterLab has restored its tabs."""
    context = browser.new_context(viewport={"width": 1360, "height": 900})
    context.set_default_timeout(60_000)
    page = context.new_page()
    began = time.perf_counter()
    page.goto(url, wait_until="commit")
    page.wait_for_selector(".jp-Notebook .jp-CodeCell")
    page.wait_for_selector("#jupyterlab-splash", state="detached")
    took = time.perf_counter() - began
    yield page, took
    context.close()


def starts(browser: Browser, url: str, bare_url: str) -> None:
    took: dict[str, list[float]] = {url: [], bare_url: []}
    for turn in range(STARTS + 1):
        for address in (url, bare_url) if turn % 2 else (bare_url, url):
            with visit(browser, address) as (_, seconds):
                took[address] += [seconds] if turn else []
    with_it, without = (statistics.median(took[address]) for address in (url, bare_url))
    tell("JupyterLab's start", with_it, "s")
    tell("JupyterLab's start, against one without the extensions", with_it / without, "")


def sends(browser: Browser, url: str, pool: RunningPool) -> None:
    """By mouse: the button of the cell, and Send."""
    took = []
    with visit(browser, url) as (page, _):
        page.wait_for_selector("#jp-main-statusbar >> text=Idle")
        for _ in range(SENDS):
            cell = page.locator(".jp-CodeCell").first
            cell.locator(".cm-content").click()
            began = time.perf_counter()
            cell.get_by_role("button", name="Run this cell on the GPU pool").click()
            page.locator(".runai-SubmitDialog").get_by_role("button", name="Send").click()
            cell.locator(".runai-Card[data-state=running]").wait_for()
            took.append(time.perf_counter() - began)
            cell.locator(".runai-Card[data-state=succeeded]").wait_for()
    tell("a plain notebook → a running job, in two clicks", statistics.median(took), "s")


def opens(browser: Browser, url: str) -> None:
    took, scrolled, listed = [], [], []
    for _ in range(OPENINGS):
        with visit(browser, url) as (page, _):
            page.wait_for_selector("#jp-main-statusbar >> text=waiting")
            opened = page.evaluate_handle(f"() => ({{ opened: ({OPENED})() }})")
            page.get_by_role("tab", name="GPU pool").click()
            took.append(opened.evaluate("({ opened }) => opened"))
            for _ in range(3):
                page.get_by_role("button", name="more jobs").first.click()
            scrolled += frames(page.locator(".runai-Panel .runai-Job").first)
            page.get_by_role("tab", name="File Browser").click()
            listed += frames(page.locator(".jp-DirListing-item").first)
    tell("5,000 jobs: the panel opens", statistics.median(took), "ms")
    tell_frames("5,000 jobs", f"{ROWS} rows scroll", scrolled)
    tell_frames("JupyterLab's file browser", f"{ROWS} files scroll", listed)


def hour(browser: Browser, url: str, pool: RunningPool) -> None:
    with visit(browser, url) as (page, _):
        page.get_by_role("tab", name="GPU pool").click()
        page.wait_for_selector(".runai-Panel .runai-Job")
        devtools = page.context.new_cdp_session(page)
        change(pool.client, PLAYED // 10)
        page.wait_for_timeout(2000)
        before = heap(devtools)
        change(pool.client, PLAYED)
        page.wait_for_timeout(2000)
        tell("the page's memory for an hour of 20 events/s", (heap(devtools) - before) * HOUR / PLAYED, "MB")


def change(client: Client, events: int) -> None:
    """A third of the events each: submissions, their cancellations, and changes of waiting jobs."""
    began = time.perf_counter()
    for n in range(events // 3):
        job = client.submit(JobSubmit(name=f"more-{n}", command=["true"], gpus=2, project="default"))
        client.set_priority(f"j-{n * 7 % WAITING:012}", 40 + n % 20)
        client.cancel(job.id)
        time.sleep(max(0.0, began + n * 3 / RATE - time.perf_counter()))


def heap(devtools: CDPSession) -> float:
    devtools.send("HeapProfiler.collectGarbage")
    devtools.send("Performance.enable")
    metrics: dict[str, Any] = {m["name"]: m["value"] for m in devtools.send("Performance.getMetrics")["metrics"]}
    return float(metrics["JSHeapUsedSize"]) / 1e6


if __name__ == "__main__":
    main()
