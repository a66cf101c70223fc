"""The running service with many jobs waiting: how long a plan takes after one more has come."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import httpx

from scheduler.discovery.embedded import ensure
from scheduler.discovery.statefolder import StateFolder

WAITING = 20_000
PLANS = 20
ARRAY = [{"index": index} for index in range(1000)]


def main() -> None:
    os.environ["RUNAI_DECLARED_GPUS"] = "8"
    with tempfile.TemporaryDirectory() as folder:
        endpoint = ensure(Path(folder))
        headers = {"Authorization": f"token {StateFolder(Path(folder)).token()}"}
        with httpx.Client(base_url=f"{endpoint.url}api/v1/", headers=headers, timeout=60) as http:
            all_gpus = http.get("pool").json()["train"]["gpus"]
            holder = submit(http, command=["sleep", "3600"], gpus=all_gpus)
            try:
                crowd(http, WAITING, all_gpus)
                tell(f"a plan with {WAITING:,} jobs waiting", plan_seconds(http, all_gpus), "s")
            finally:
                http.post(f"jobs/{holder}/cancel")
                while http.get(f"jobs/{holder}").json()["ended"] is None:
                    time.sleep(0.1)
                os.kill(endpoint.pid, signal.SIGTERM)


def submit(http: httpx.Client, **job: object) -> str:
    """The id of a new job."""
    return str(http.post("jobs", json=job).raise_for_status().json()["id"])


def crowd(http: httpx.Client, jobs: int, gpus: float) -> None:
    """Have so many jobs wait."""
    for _ in range(jobs // len(ARRAY)):
        array = {"job": {"command": ["true"], "gpus": gpus}, "members": ARRAY}
        http.post("arrays", json=array).raise_for_status()


def plan_seconds(http: httpx.Client, gpus: float) -> float:
    """What a plan takes on average, each after one more job was submitted."""
    before = settled(http)
    for _ in range(PLANS):
        submit(http, command=["true"], gpus=gpus)
        settled(http)
    after = settled(http)
    total, count = (
        after[f"runai_plan_seconds_{part}"] - before[f"runai_plan_seconds_{part}"] for part in ("sum", "count")
    )
    return total / count


def settled(http: httpx.Client) -> Mapping[str, float]:
    """The figures of the scheduler once it has seen everything and plans no more."""
    figures = read(http)
    while True:
        time.sleep(1)
        before, figures = figures, read(http)
        if before["runai_plan_seconds_count"] == figures["runai_plan_seconds_count"]:
            return figures


def read(http: httpx.Client) -> Mapping[str, float]:
    text = http.get(http.base_url.join("/metrics")).raise_for_status().text
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def tell(figure: str, value: float, unit: str) -> None:
    print(json.dumps({"figure": figure, "value": round(value, 4), "unit": unit}), flush=True)


if __name__ == "__main__":
    main()
