"""The life of an agent: fetch the worker's files, wait for its gang, run it, and report its end."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import tarfile
import threading
import time
import uuid
from collections.abc import Sequence
from typing import Any, NoReturn

from scheduler.worker.agent.folders import WorkerFolders
from scheduler.worker.agent.requests import LONG_WAIT, WAIT, AttemptOver, Refused, Scheduler, retry_delays
from scheduler.worker.agent.upload import Upload
from scheduler.worker.processes import (
    COULD_NOT_START,
    adopt_orphans,
    exit_status,
    how_it_ended,
    kill,
    reap_orphans,
    signal_group,
    signal_pipe,
)

LOOK = 0.1
"""Seconds between two looks at the log."""

NAMES = 300.0
"""Seconds in which the names of a gang must become resolvable. A cluster's DNS may be half a minute late."""


class Stopped(Exception):
    """The worker was stopped before it started."""


class Worker:
    """The running worker and all processes that it has started. A file at `save_request` asks it to save its state."""

    def __init__(self, pid: int, grace: float, save_request: str) -> None:
        self._pid = pid
        self._grace = grace
        self._save_request = save_request
        self._asked: float | None = None
        self._deadline: float | None = None
        self._readable, self._writable = signal_pipe()

    def stop(self, grace: float) -> None:
        """Send SIGTERM now and SIGKILL in `grace` seconds, or at the end of an earlier grace period."""
        end = time.monotonic() + grace
        self._deadline = end if self._deadline is None else min(self._deadline, end)
        signal_group(self._pid, signal.SIGTERM)
        signal_group(self._pid, signal.SIGCONT)
        with contextlib.suppress(OSError):
            os.write(self._writable, b"\0")

    def ask_to_save(self, request: float) -> None:
        """Ask the worker to save its state, once for each request."""
        if request != self._asked:
            with contextlib.suppress(OSError):  # the disk is full: it is asked once more when it is stopped
                with open(f"{self._save_request}.tmp", "w") as file:
                    file.write(str(request))
                os.replace(file.name, self._save_request)
            self._asked = request

    def wait(self) -> tuple[int, str, float, bool]:
        """Wait until all processes of the worker are gone.

        Returns the exit status, a reason (often empty), the time of the end, and whether a stop was requested.
        """
        killed, how = False, None
        while True:
            status = exit_status(self._pid) if how is None else None
            others = reap_orphans(self._pid)  # read after the end, at which its children come to this process
            if status is not None:
                how = (status, how_it_ended(status, self._deadline, killed), time.time(), self._deadline is not None)
            if how is not None and not others:
                os.waitpid(self._pid, 0)
                return how
            now, deadline = time.monotonic(), self._deadline
            if (how is not None and deadline is None) or (deadline is not None and now >= deadline):
                killed = True
                kill(self._pid, others)
            pause = 0.05 if killed or how is not None else 60.0 if deadline is None else deadline - now
            select.select([self._readable], [], [], max(0.0, pause))
            with contextlib.suppress(BlockingIOError):
                if signal.SIGTERM in os.read(self._readable, 4096):
                    self.stop(self._grace)


def run(scheduler: Scheduler, home: str, keeps: Sequence[str] = ()) -> int:
    """Run the worker that the token is for, in `home`, where the areas in `keeps` are on a volume; returns the exit
    status."""
    agent = uuid.uuid4().hex
    spec = json.loads(scheduler.ask_until_answered("GET", "spec"))
    try:
        scheduler.report(agent=agent, state="pulling")
    except Refused as refusal:
        print(f"runai: {refusal}", file=sys.stderr)
        return 1
    place = WorkerFolders(home, spec, keeps)
    try:
        place.fill(scheduler)
    except (Refused, tarfile.TarError, EOFError) as error:
        scheduler.report(agent=agent, state="exited", at=time.time(), exit_code=COULD_NOT_START, reason=str(error))
        return COULD_NOT_START
    except OSError as error:
        reason = f"its files could not be written ({error.strerror})."
        scheduler.report(agent=agent, state="lost", at=time.time(), reason=reason)
        return 1
    upload = Upload(scheduler, place, spec)
    adopt_orphans()
    try:
        await_gang(scheduler, spec.get("names", ()))
    except Stopped:
        reason = "it was stopped before it started."
        scheduler.report(agent=agent, state="exited", at=time.time(), reason=reason, stopped=True)
        return 0
    except OSError as error:
        scheduler.report(agent=agent, state="lost", at=time.time(), reason=str(error))
        return 1
    started = time.time()
    try:
        process = place.start()
    except Refused as refusal:
        _finish(upload)
        failed = {"exit_code": COULD_NOT_START, "reason": str(refusal)}
        scheduler.report(agent=agent, state="exited", at=time.time(), **failed)
        return COULD_NOT_START
    worker, over = Worker(process.pid, float(spec["grace"]), place.save_request), threading.Event()
    threading.Thread(target=obey, args=(scheduler, worker, agent, started), daemon=True).start()
    uploading = threading.Thread(target=_keep_up, args=(upload, over), daemon=True)
    uploading.start()
    status, reason, ended, stopped = worker.wait()
    end = {"state": "exited", "started": started, "at": ended, "exit_code": status, "reason": reason}
    scheduler.write_end(agent=agent, stopped=stopped, **end)
    process.returncode = status
    over.set()
    uploading.join()
    _finish(upload)
    scheduler.report(agent=agent, stopped=stopped, **end)
    return status if status >= 0 else 128 - status


def await_gang(scheduler: Scheduler, names: Sequence[str]) -> None:
    """Wait until the worker may begin. Raises `Stopped`, and `OSError` if a name of its gang cannot be resolved."""

    def stop(*_: Any) -> NoReturn:
        raise Stopped

    before = signal.signal(signal.SIGTERM, stop)
    try:
        orders: dict[str, Any] = {"number": 0, "stop": None, "begin": False}
        while not orders["begin"] and orders["stop"] is None:
            query = {"after": orders["number"], "wait": WAIT, "ready": 1}
            orders = json.loads(scheduler.ask_until_answered("GET", "orders", **query))
        end, unknown = time.monotonic() + NAMES, list(names)
        for pause in retry_delays():
            if orders["stop"] is not None:
                raise Stopped
            unknown = [name for name in unknown if not _is_known(name)]
            if not unknown:
                return
            if time.monotonic() > end:
                raise OSError(f"the name {unknown[0]} of its gang is unknown; does the cluster have DNS?")
            time.sleep(pause)
            orders = json.loads(scheduler.ask_until_answered("GET", "orders"))
    finally:
        signal.signal(signal.SIGTERM, before)


def _is_known(name: str) -> bool:
    try:
        return bool(socket.getaddrinfo(name, None))
    except OSError:
        return False


def obey(scheduler: Scheduler, worker: Worker, agent: str, started: float) -> None:
    """Report that the worker runs, and have it save its state and stop when the scheduler orders it."""
    seen, wait, proven = 0, LONG_WAIT, False
    try:
        scheduler.report(agent=agent, state="running", started=started)
        while True:
            asked = time.monotonic()
            try:
                answer = scheduler.ask("GET", "orders", after=seen, wait=wait, ready=1)
                proven = proven or time.monotonic() > asked + WAIT
            except OSError:
                if not proven and time.monotonic() > asked + WAIT:
                    wait = max(WAIT, wait // 2)  # a proxy may have ended the request
                answer = scheduler.ask_until_answered("GET", "orders", after=seen, wait=WAIT, ready=1)
            orders = json.loads(answer)
            if orders["number"] != seen and orders["stop"] is not None:
                worker.stop(orders["stop"])
            elif orders.get("save") is not None:
                worker.ask_to_save(orders["save"])
            seen = orders["number"]
    except AttemptOver:
        worker.stop(0)
    except Refused as refusal:
        print(f"runai: {refusal}", file=sys.stderr)


def _keep_up(upload: Upload, over: threading.Event) -> None:
    """Upload while the worker runs; `_finish` uploads the rest."""
    pause = retry_delays()
    with contextlib.suppress(AttemptOver, Refused):
        while not over.is_set():
            try:
                upload.go()
                pause = retry_delays()
                over.wait(LOOK)
            except OSError:
                over.wait(next(pause))


def _finish(upload: Upload) -> None:
    for pause in retry_delays():
        try:
            return upload.go(last=True)
        except Refused as refusal:
            return print(f"runai: {refusal}", file=sys.stderr)
        except OSError:
            time.sleep(pause)
    return None


def main() -> None:
    """Run the worker that the environment names, in the current folder."""
    address, token = os.environ.pop("RUNAI_AGENT_URL"), os.environ.pop("RUNAI_AGENT_TOKEN")
    try:
        keeps = os.environ.pop("RUNAI_AGENT_KEEPS", "").split()
        sys.exit(run(Scheduler(address, token, os.environ.pop("RUNAI_AGENT_END", "")), os.getcwd(), keeps))
    except AttemptOver:
        sys.exit("runai: The attempt is over.")
