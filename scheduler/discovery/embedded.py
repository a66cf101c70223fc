"""A scheduler for one user without a hub: found where one runs, started where none does.

It is a separate process, bound to 127.0.0.1, open to anybody who can read the token in the state folder. It outlives
the process that started it, as its jobs do, and ends after an hour without work. The lock of the state folder ensures
that there is only one for each folder. None is started in a job: it would allocate GPUs that belong to another
scheduler.

Standard library only; blocking (from an event loop: `await asyncio.to_thread(ensure)`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from scheduler.discovery.statefolder import Endpoint, StateFolder, default_state_dir
from scheduler.errors import Unavailable, shortage

LOG = "scheduler.log"
"""The log file of an embedded scheduler, in the state folder."""

IDLE = 3600
"""Seconds without work after which an embedded scheduler ends; the next request starts it again."""

IN_A_JOB = (
    "This code already runs in a job, and no scheduler is reachable from here. Send jobs from a notebook or a "
    "terminal. "
    "To run code in this job, leave %%runai_train out."
)

_LOCKED = 75  # scheduler.service.app's exit status where another scheduler holds the folder
_started: list[subprocess.Popen[bytes]] = []
_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def find(state_dir: Path | None = None) -> Endpoint | None:
    """The scheduler of a state folder, if one answers."""
    endpoint = StateFolder(state_dir or default_state_dir()).endpoint()
    return endpoint if endpoint is not None and _ready(endpoint.url) else None


def ensure(state_dir: Path | None = None, *, patience: float = 30.0) -> Endpoint:
    """The scheduler of a state folder, started if none answers.

    Raises `Unavailable`, with the end of its log, where it does not start within `patience` seconds; also in a job.
    """
    folder = StateFolder(state_dir or default_state_dir())
    folder.open()
    reap()
    process: subprocess.Popen[bytes] | None = None
    until = time.monotonic() + patience
    while True:
        found = find(folder.path)
        if found is not None:
            return found
        status = process.poll() if process is not None else _LOCKED
        if status not in (None, 0, _LOCKED):
            raise Unavailable(f"The scheduler could not start: {_log_tail(folder.path)}")
        if status is not None and folder.holder() is None:
            if "RUNAI_JOB_ID" in os.environ:
                raise Unavailable(IN_A_JOB)
            try:
                process = _spawn(folder.path)
            except OSError as error:
                raise shortage(error) or Unavailable(f"The scheduler could not start: {error}.") from error
            _started.append(process)
        if time.monotonic() > until:
            raise Unavailable(
                f"The scheduler of {folder.path} did not answer within {patience:g} s; {folder.path / LOG} says why."
            )
        time.sleep(0.02)


def reap() -> None:
    """Reap the schedulers that this process started and that have ended, so that no zombies remain."""
    _started[:] = [process for process in _started if process.poll() is None]


def _spawn(state_dir: Path) -> subprocess.Popen[bytes]:
    """Start the scheduler in its own session, so that signals to its parent do not end it."""
    log = os.open(state_dir / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            [
                sys.executable,
                "-P",  # nothing is imported from the state folder
                "-m",
                "scheduler.service.app",
                f"--state-dir={state_dir}",
                "--ip=127.0.0.1",
                "--port=0",
                "--base-url=/",
                "--auth=token",
                f"--idle-timeout={IDLE}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=state_dir,
            env=_environment(),
            start_new_session=True,
        )
    finally:
        os.close(log)


def _environment() -> dict[str, str]:
    """This process's environment without the tokens and addresses of its notebook server or hub: jobs must not have
    them."""
    private = ("JUPYTERHUB_", "JPY_", "RUNAI_TOKEN", "RUNAI_URL", "CUDA_VISIBLE_DEVICES")
    return {name: value for name, value in os.environ.items() if not name.startswith(private)}


def _ready(url: str) -> bool:
    try:
        with _NO_PROXY.open(f"{url.rstrip('/')}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError):  # URLError and HTTPError are OSErrors
        return False


def _log_tail(state_dir: Path) -> str:
    lines = (state_dir / LOG).read_text("utf-8", errors="replace").strip().splitlines()
    if lines:
        return lines[-1]
    full = shutil.disk_usage(state_dir).free == 0
    return f"{state_dir / LOG} is empty{', and the disk is full' if full else ''}."
