"""The time from `make run`, with everything installed, to a ready notebook server."""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import httpx

from hub_spawner.ports import any_free

ROOT = Path(__file__).parents[2]
RUNS = 3
FIGURES = (
    "make run → the hub and the scheduler are there",
    "logging in → the notebook server is ready",
    "make run → a notebook server is ready",
)


def main() -> None:
    runs = []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory(prefix="runai-startup-") as state:
            hub, server = measure(Path(state))
        runs.append((hub, server, hub + server))
    for figure, values in zip(FIGURES, zip(*runs, strict=True), strict=True):
        print(json.dumps({"figure": figure, "value": statistics.median(values), "unit": "s"}), flush=True)


def measure(state: Path) -> tuple[float, float]:
    """Seconds until the hub's greeting, and from a user's login until their server responds."""
    said = state / "said"
    with said.open("w") as out:
        began = time.perf_counter()
        process = subprocess.Popen(
            ["make", "run", f"STATE={state}/state", f"ARGS=--port={any_free()}"],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        while not (greeting := re.search(r"(http://\S+)/\s.*?password +(\S+)", said.read_text(), re.DOTALL)):
            if process.poll() is not None:
                raise SystemExit(said.read_text())
            time.sleep(0.01)
        hub = time.perf_counter() - began
        began = time.perf_counter()
        start_server(*greeting.groups())
        return hub, time.perf_counter() - began
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait()


def start_server(url: str, password: str) -> None:
    """As a browser: log in, follow the redirect to the starting server, and wait."""
    with httpx.Client(base_url=url, follow_redirects=True, timeout=60) as browser:
        (xsrf,) = re.findall(r'name="_xsrf"\s+value="([^"]+)"', browser.get("/hub/login").text)
        form = {"username": "ada", "password": password, "_xsrf": xsrf}
        browser.post("/hub/login?next=%2Fhub%2Fspawn", data=form).raise_for_status()
        while browser.get("/user/ada/lab").url.path != "/user/ada/lab":
            time.sleep(0.05)


if __name__ == "__main__":
    main()
