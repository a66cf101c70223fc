"""Create the state folder of a release and the responses of its API: `python -m tests.app.upgrade.make_state SOURCES
VERSION`.

`SOURCES` is a checkout of the release, whose service runs a pool with an object of each kind and is then ended by
`kill -9`. The results are in this folder: `state-VERSION.tar.gz` and `answers-VERSION.json`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

OWNER = "ana"

SERVE = "import sys; from scheduler.cli import main; sys.exit(main())"

PATIENCE = 60.0

POOL = {
    "node_pools": [
        {"name": "build", "environment": "build", "gpus": 1},
        {"name": "train", "environment": "train", "placement": "spread"},
    ],
    "projects": [
        {"name": "research", "guaranteed": 2, "priority": 1},
        {
            "name": "vision",
            "parent": "research",
            "guaranteed": 2,
            "limit": 3,
            "weight": 2,
            "members": ["*"],
            "groups": ["staff"],
            "policy": {"defaults": {"priority": 40}, "maxima": {"gpus": 3, "retries": 5}},
        },
        {"name": "speech", "quotas": [{"node_pool": "train", "limit": 2}]},
    ],
    "users": [{"name": OWNER, "build_quota": 1}],
    "default_build_quota": 0.5,
    "build_overcommit": True,
    "keep_days": None,
    "policy": {"maxima": {"workers": 8}, "allowed": {"preemptible": [True]}},
    "topology": ["rack"],
    "settings": {"reclaim": "guarantee", "reservations": 2, "preemption_delay": 1, "lending": True},
}

FAILS_ONCE = """\
echo weights > "$RUNAI_OUTPUT_DIR/model.txt"
[ -e "$RUNAI_CHECKPOINT_DIR/seen" ] && echo again && exit
touch "$RUNAI_CHECKPOINT_DIR/seen"
echo at first
exit 3
"""

HOLDS = ["sleep", "600"]


def jobs(ids: dict[str, str]) -> list[tuple[str, str, dict[str, Any]]]:
    """The submissions in order: name, path and body; `ids` are those of earlier jobs."""
    return [
        ("done", "jobs", {"command": ["sh", "-c", FAILS_ONCE], "retries": 1}),
        ("failed", "jobs", {"command": ["sh", "-c", "echo 'ValueError: loss is nan' >&2; exit 1"]}),
        (
            "array",
            "arrays",
            {
                "job": {"command": HOLDS, "gpus": 3, "env": {"SEED": "1"}, "max_runtime": 6000},
                "members": [{"index": n, "parameters": {"lr": 0.1 * n, "flag": True}} for n in range(3)],
                "at_once": 1,
            },
        ),
        (
            "paused",
            "jobs",
            {
                **{"command": HOLDS, "workers": 3, "min_workers": 1, "prefer": "same_node"},
                **{"node_pools": ["train"], "expected_runtime": 60, "min_runtime": 5, "framework": "torch"},
            },
        ),
        ("part", "jobs", {"command": HOLDS, "gpus": 0.5, "cpus": 0.5, "memory_gib": 0.25, "grace": 5}),
        (
            "gang",
            "jobs",
            {
                "command": HOLDS,
                "groups": [
                    {"name": "server", "workers": 1, "gpus": 0},
                    {"name": "worker", "workers": 2, "gpus": 1, "leader": True},
                ],
                "require": "same_node",
            },
        ),
    ]


def until(look: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
    return found


def answers(http: httpx.Client, ids: dict[str, str]) -> dict[str, Any]:
    """The API's responses."""
    found = {path: http.get(path).json() for path in ("jobs?limit=500", "pool/file", "sessions")}
    for name in ("done", "failed"):
        path = f"jobs/{ids[name]}"
        found[f"{path}/logs"] = http.get(f"{path}/logs").text
        found[f"{path}/outputs"] = http.get(f"{path}/outputs").json()
    return found


def fill(http: httpx.Client) -> dict[str, str]:
    """Submit everything, and wait for the intended states."""
    assert http.post("pool/apply", json=POOL).is_success
    ids: dict[str, str] = {}

    def reaches(name: str, state: str) -> None:
        until(lambda: http.get(f"jobs/{ids[name]}").json()["state"] == state)

    for name, path, body in jobs(ids):
        answer = http.post(path, json=body, headers={"Idempotency-Key": f"key-of-{name}"})
        assert answer.is_success, answer.text
        ids[name] = answer.json()["id"]
        if name in ("done", "failed"):
            reaches(name, "succeeded" if name == "done" else "failed")
    members = http.get("jobs", params={"array": ids["array"], "limit": 3}).json()["jobs"]
    ids.update({f"member {member['index']}": member["id"] for member in members})
    reaches("member 0", "running")
    for name, after in (("after all", f"{ids['array']}:any"), ("after success", ids["array"])):
        body = {"command": ["true"], "name": name.replace(" ", "-"), "after": [after]}
        ids[name] = http.post("jobs", json=body).raise_for_status().json()["id"]
    for name, verb in (("paused", "pause"), ("part", "cancel")):
        assert http.post(f"jobs/{ids[name]}/{verb}").is_success
    session = {"user": OWNER, "server": "gpu", "gpus": 1}
    ids["session"] = http.post("sessions", json=session).raise_for_status().json()["id"]
    return ids


def main(sources: Path, version: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder, "state")
        environment = {
            **{"PATH": "/usr/bin:/bin", "HOME": folder, "PYTHONPATH": str(sources)},
            **{"LOGNAME": OWNER, "PYTHONDONTWRITEBYTECODE": "1"},
        }
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE, "serve", f"--state-dir={state}", "--declared-gpus=4"],
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        try:
            endpoint = until(lambda: (state / "endpoint.json").exists() and (state / "endpoint.json").read_text())
            url = json.loads(endpoint)["url"].rstrip("/") + "/api/v1/"
            key = {"Authorization": f"token {(state / 'token').read_text().strip()}"}
            with httpx.Client(base_url=url, headers=key, timeout=30) as http:
                ids = fill(http)
                told = {"machine": socket.gethostname(), "ids": ids, "answers": answers(http, ids)}
            process.kill()
            process.wait()
            here = Path(__file__).parent
            text = json.dumps(told, indent=1, ensure_ascii=False, sort_keys=True)
            (here / f"answers-{version}.json").write_text(f"{text}\n")
            with tarfile.open(here / f"state-{version}.tar.gz", "w:gz") as archive:
                archive.add(state, "state", filter=_kept)
        finally:
            process.kill()
            process.wait()
            for pid in _below(state):
                os.kill(pid, signal.SIGKILL)


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member if member.isfile() or member.isdir() else None


def _below(state: Path) -> list[int]:
    """The processes of its workers."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(state).encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
