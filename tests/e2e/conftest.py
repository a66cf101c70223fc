"""A real hub, started by `jupyter runai up`, and a real Chromium."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from scheduler.client import Client

expect.set_options(timeout=60_000)  # a busy machine is slow, not wrong

T = TypeVar("T")
SCREENSHOTS = Path(__file__).parents[1] / "screenshots"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass
class Hub:
    """`url` ends in a slash; `password` and `admin_password` come from the hub's output."""

    process: subprocess.Popen[str]
    folder: Path
    url: str
    password: str
    admin_password: str
    greeting: str

    @property
    def scheduler_pid(self) -> int:
        return int(json.loads((self.folder / "pool" / "endpoint.json").read_text())["pid"])


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_hub(folder: Path, *args: str) -> Hub:
    """Start a hub in `folder` and wait for its greeting; a failure includes its output."""
    command = [sys.executable, "-m", "scheduler.cli", "up", f"--state-dir={folder}", *args]
    if os.geteuid() == 0:
        command.append("--allow-root")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("RUNAI_", "JUPYTER"))}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    said = ""
    assert process.stdout is not None
    for line in process.stdout:
        said += line
        if "Ctrl-C" in line:
            break
    else:
        pytest.fail(f"the hub did not start:\n{said}")
    url = re.search(r"http://\S+", said)
    user = re.search(r"any name and the password\s+(\S+)", said)
    admin = re.search(r"as the administrator, admin, with\s+(\S+)", said)
    assert url is not None, said
    assert user is not None, said
    assert admin is not None, said
    return Hub(process, folder, url[0].rstrip("/") + "/", user[1], admin[1], said)


def stop_hub(hub: Hub) -> None:
    hub.process.send_signal(signal.SIGINT)
    try:
        hub.process.wait(30)
    except subprocess.TimeoutExpired:
        hub.process.kill()
        hub.process.wait()
    if hub.process.stdout is not None:
        hub.process.stdout.close()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = start_hub(tmp_path_factory.mktemp("hub"), f"--port={_free_port()}", "--gpus=24")
    try:
        yield hub
    finally:
        stop_hub(hub)


@pytest.fixture
def administrator(hub: Hub) -> Iterator[Client]:
    """A client that may do everything."""
    pool = hub.folder / "pool"
    url = json.loads((pool / "endpoint.json").read_text())["url"]
    with Client(url, (pool / "hub-token").read_text()) as client:
        yield client


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        environment: dict[str, str | float | bool] = {**os.environ, **_steady_network(tmp_path_factory.mktemp("lib"))}
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET, env=environment)
        yield browser
        browser.close()


def _steady_network(folder: Path) -> dict[str, str]:
    """The environment of a browser that other tests' pods do not disturb. They need gcc, too."""
    if shutil.which("gcc") is None:
        return {}
    library = folder / "steadynetwork.so"
    source = Path(__file__).with_name("steadynetwork.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"], check=True, timeout=60)
    return {"LD_PRELOAD": str(library)}


LogIn = Callable[..., Page]


@pytest.fixture
def log_in(hub: Hub, browser: Browser) -> Iterator[LogIn]:
    """`log_in("ada")` returns a page in the user's own browser context, logged in to the hub."""
    contexts: list[BrowserContext] = []

    def log_in(user: str, **options: object) -> Page:
        context = browser.new_context(viewport={"width": 1360, "height": 900}, **options)  # type: ignore[arg-type]
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        page.goto(hub.url + "hub/login")
        page.fill("#username_input", user)
        page.fill("#password_input", hub.admin_password if user == "admin" else hub.password)
        page.click("#login_submit")
        page.wait_for_url(lambda url: "/hub/login" not in url)
        return page

    yield log_in
    for context in contexts:
        with contextlib.suppress(Exception):
            context.close()


def eventually(look: Callable[[], T], seconds: float = 30.0) -> T:
    """Call `look` until its result is true or the time is up, and return the last result; for states without events."""
    deadline = time.monotonic() + seconds
    while not (seen := look()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return seen
