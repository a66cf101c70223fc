"""A worker's agent: runs a worker where nothing of the scheduler is, and brings back what it prints, reports and
writes.

One file of the standard library, for Python 3.8 and later on Linux: `python agent.py`, in an empty folder, with the
address of the scheduler in `RUNAI_AGENT_URL` and a token that is good for this worker of this attempt alone in
`RUNAI_AGENT_TOKEN`. `RUNAI_AGENT_END` may name a file that the worker's end is written to as well.

What must hold:
- The worker is started once at the most: the scheduler accepts one agent (`state`: pulling) before anything is started.
- Everything that is uploaded may be sent twice. It stays on this disk until the scheduler has it, and the scheduler
  says how much it has: one that is away, or was restarted, delays it and loses nothing.
- The end is told after everything else has been uploaded and every process of the worker is gone, and until it is
  heard.
- A token that is no longer valid ends the worker: the scheduler counts the attempt as over.
- The grace period is counted here, and goes on while the scheduler is away.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import http.client
import json
import os
import random
import select
import signal
import subprocess
import sys
import tarfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

LINUX = sys.platform == "linux"
COULD_NOT_START = 127
PIECE = 512 * 1024
"""Bytes that are sent at once."""

SHORTEST, LONGEST = 0.1, 10.0
"""Seconds between two tries while the scheduler does not answer."""

LOOK, SCAN = 0.1, 1.0
"""How often, in seconds, the log is looked at, and the folders."""

DEEPEST = 64
"""Files in folders that lie deeper are not sent."""

LONGEST_REASON = 500
"""Characters."""

WAIT = 20
"""Seconds that the scheduler takes to answer that there is no new order."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_prctl = ctypes.CDLL(None).prctl if LINUX else None


class AttemptOver(Exception):
    """The token is not valid (any more): for the scheduler the attempt is over."""


class Refused(Exception):
    """The scheduler refuses this, whenever it is asked."""


class Scheduler:
    """The scheduler, as this worker may ask it."""

    def __init__(self, url: str, token: str, end: str = "") -> None:
        self._url = url.rstrip("/") + "/api/v1/agent/"
        self._token = token
        self._end = end

    def ask(self, method: str, path: str, body: bytes | None = None, **query: Any) -> bytes:
        """The answer. Raises `OSError` where there was none that counts: try again later."""
        address = self._url + urllib.parse.quote(path)
        if query:
            address += "?" + urllib.parse.urlencode(query)
        headers = {"Authorization": "Bearer " + self._token, "Content-Type": "application/octet-stream"}
        request = urllib.request.Request(address, data=body, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT + 10) as answer:
                return _whole(answer)
        except urllib.error.HTTPError as error:
            with error:
                if error.headers.get_content_type() != "application/problem+json" or error.code in (429, 503):
                    raise OSError(f"HTTP status {error.code}") from None  # a proxy's, or for a while
                if error.code == 401:
                    raise AttemptOver from None
                raise Refused(json.loads(_whole(error.fp))["detail"]) from None
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error

    def ask_until_answered(self, method: str, path: str, body: bytes | None = None, **query: Any) -> bytes:
        """Ask until there is an answer."""
        for pause in retry_delays():
            try:
                return self.ask(method, path, body, **query)
            except OSError as error:
                print(f"runai: the scheduler does not answer ({error})", file=sys.stderr, flush=True)
                time.sleep(pause)
        raise AssertionError

    def read(self, path: str) -> Iterator[bytes]:
        """A file of the scheduler's, in pieces."""
        offset = 0
        while True:
            piece = self.ask_until_answered("GET", path, offset=offset)
            if not piece:
                return
            yield piece
            offset += len(piece)

    def tell(self, **state: Any) -> None:
        """How the worker stands."""
        state["reason"] = state.get("reason", "")[:LONGEST_REASON]
        if state["state"] in ("exited", "lost"):
            self.leave(**state)
        self.ask_until_answered("POST", "state", json.dumps(state).encode())

    def leave(self, **end: Any) -> None:
        """Write the worker's end where others find it, should the scheduler not hear of it in time."""
        if self._end:
            with contextlib.suppress(OSError), open(self._end, "w") as file:
                file.write(json.dumps(end))


def _whole(answer: Any) -> bytes:
    """All of an answer. Raises `OSError` where the connection broke within it, even within its headers: what says how
    long it is may be missing then."""
    if answer.length is None and not answer.chunked:
        raise OSError("the answer broke off")
    try:
        content: bytes = answer.read()
    except http.client.HTTPException:
        raise OSError("the answer broke off") from None
    return content


def retry_delays() -> Iterator[float]:
    """Increasing delays with jitter."""
    longest = SHORTEST
    while True:
        yield longest * (0.5 + random.random() / 2)
        longest = min(2 * longest, LONGEST)


# -- what the worker gets -----------------------------------------------------------------------------------


class WorkerFolders:
    """The folders of the worker, below the one that the agent was started in, or where the scheduler says."""

    def __init__(self, home: str, spec: dict[str, Any]) -> None:
        self.work = os.path.join(home, "work")
        self.tools = os.path.join(home, "tools")
        self.log = os.path.join(home, "log")
        self.areas = {area: os.path.join(home, area) for area in ("output", "checkpoint")}
        for folder in (self.work, self.tools, *self.areas.values()):
            os.makedirs(folder, exist_ok=True)
        self._spec = spec

    def fill(self, scheduler: Scheduler) -> None:
        """Fetch the job's files, what earlier attempts have saved, and what stands beside the command."""
        if self._spec["bundle"]:
            packed = os.path.join(self.tools, "bundle")
            self._fetch(scheduler, self._spec["bundle"], packed)
            with tarfile.open(packed, "r:gz") as archive:
                members = [_inside(member) for member in archive.getmembers()]
                safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
                archive.extractall(self.work, members, **safe)  # type: ignore[arg-type]
            os.unlink(packed)
        for file in self._spec["files"]:
            path = os.path.join(self.work, file["path"])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, "wb").close()
            for blob in file["blobs"]:
                self._fetch(scheduler, blob, path)
            os.chmod(path, 0o755 if file["executable"] else 0o644)
        for name in self._spec["tools"]:
            path = os.path.join(self.tools, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as out:
                out.writelines(scheduler.read("tools/" + name))
        for file in json.loads(scheduler.ask_until_answered("GET", "files/checkpoint"))["files"]:
            path = os.path.join(self.areas["checkpoint"], file["path"])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as out:
                out.writelines(scheduler.read("files/checkpoint/" + file["path"]))
            os.utime(path, (file["modified"], file["modified"]))

    def _fetch(self, scheduler: Scheduler, digest: str, path: str) -> None:
        """Add a blob to a file."""
        found = hashlib.sha256()
        with open(path, "ab") as out:
            for piece in scheduler.read("blobs/" + digest):
                found.update(piece)
                out.write(piece)
        if found.hexdigest() != digest:
            raise Refused("A file of the job was damaged in transit.")

    def start(self) -> subprocess.Popen[bytes]:
        """Start the worker. Raises what `subprocess` does."""
        spec, agent = self._spec, os.getpid()
        env = {**os.environ, **spec["env"]}
        if spec["python_path"]:
            before = os.path.join(self.tools, spec["python_path"])
            env["PYTHONPATH"] = os.pathsep.join(filter(None, (before, env.get("PYTHONPATH"))))
        env.update(spec["own"])
        for area, folder in self.areas.items():
            env[f"RUNAI_{area.upper()}_DIR"] = folder
        command = list(spec["command"])
        if spec["wrapper"]:
            file = os.path.join(self.tools, spec["wrapper"]["file"])
            command[:0] = [sys.executable, "-I", "-S", file, *spec["wrapper"]["arguments"]]

        def in_the_worker() -> None:
            os.setpgid(0, 0)
            if _prctl is not None:
                _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != agent:
                os._exit(COULD_NOT_START)

        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            return subprocess.Popen(
                command,
                cwd=self.work,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=in_the_worker,
            )
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            sentence = why_not(error, spec["command"][0], self.work)
            os.write(log, (sentence + "\n").encode())
            raise Refused(sentence) from None
        finally:
            os.close(log)


def _inside(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """For a Python whose tarfile does not look itself."""
    names = [member.name] + ([member.linkname] if member.issym() or member.islnk() else [])
    if any(os.path.isabs(name) or ".." in name.split("/") for name in names[:1]) or os.path.isabs(names[-1]):
        raise Refused(f"The bundle holds {member.name!r}, which is outside the job's folder.")
    return member


# -- what the worker leaves ---------------------------------------------------------------------------------


class Upload:
    """Sends what the worker writes: what only grows in pieces from where the scheduler is, other files when they
    change."""

    def __init__(self, scheduler: Scheduler, place: WorkerFolders, spec: dict[str, Any]) -> None:
        self._scheduler = scheduler
        self._areas = place.areas
        self._limit = int(spec["log_limit"])
        self._log = place.log
        self._streams = {"log": place.log}
        for name, path in spec["streams"].items():
            self._streams[name] = os.path.join(place.areas["output"], path)
        self._sent = dict.fromkeys(self._streams, 0)
        self._shown = 0
        self._known = {(area, path): about for area in self._areas for path, about in self._files(area)}
        self._seen = dict(self._known)
        self._begun = (("", "", ""), 0)  # a version of a file, and how much of it has arrived
        self._scanned = 0.0

    def go(self, *, last: bool = False) -> None:
        """Send what is new. Raises `OSError` where that must be tried again."""
        self._grow()
        if last or time.monotonic() > self._scanned + SCAN:
            self._scan(last)
            self._grow()
            self._scanned = time.monotonic()

    def _grow(self) -> None:
        for name, path in self._streams.items():
            while True:
                piece = _part(path, self._sent[name])
                if name == "log":
                    piece = self._bounded(piece)
                if not piece:
                    break
                answer = self._scheduler.ask("PUT", "streams/" + name, piece, offset=self._sent[name])
                self._sent[name] = json.loads(answer)["size"]

    def _bounded(self, piece: bytes) -> bytes:
        """What may be sent of a piece of the log, which is shown here, too. What is over the limit is thrown away."""
        sent, notice = self._sent["log"], b""
        if sent + len(piece) > self._limit:
            text = "\n[The log has reached its limit of %d bytes; further output is discarded.]\n"
            notice = (text % self._limit).encode()[max(0, sent - self._limit) :]
            piece = piece[: max(0, self._limit - sent)]
            with contextlib.suppress(OSError):
                os.truncate(self._log, self._limit)
        piece += notice
        with contextlib.suppress(OSError):
            os.write(1, piece[max(0, self._shown - sent) :])
        self._shown = max(self._shown, sent + len(piece))
        return piece

    def _files(self, area: str) -> list[tuple[str, tuple[int, int]]]:
        """The files of an area, each with its size and when it was changed (ns)."""
        found = []
        streams = set(self._streams.values())
        for where, folders, names in os.walk(self._areas[area]):
            inside = os.path.relpath(where, self._areas[area])
            if inside.count(os.sep) >= DEEPEST:
                folders.clear()
            for name in names:
                path = os.path.join(where, name)
                with contextlib.suppress(OSError, UnicodeEncodeError):  # a name that no address can say
                    about = os.lstat(path)
                    if path not in streams and about.st_mode & 0o170000 == 0o100000:
                        below = os.path.normpath(os.path.join(inside, name))
                        below.encode()
                        found.append((below, (about.st_size, about.st_mtime_ns)))
        return found

    def _scan(self, last: bool) -> None:
        """Send the files that have changed, and stand still (or nothing changes them any more); and which ones are
        gone."""
        now = {(area, path): about for area in self._areas for path, about in self._files(area)}
        for key, about in now.items():
            if about != self._known.get(key) and (last or about == self._seen.get(key)):
                try:
                    self._send(*key, *about)
                except Refused as refusal:
                    self._complain(f"{key[0]}/{key[1]} was not uploaded: {refusal}")
                self._known[key] = about
        for key in self._known.keys() - now.keys():
            with contextlib.suppress(Refused):
                self._scheduler.ask("DELETE", f"files/{key[0]}/{key[1]}")
            del self._known[key]
        self._seen = now

    def _send(self, area: str, path: str, size: int, modified: int) -> None:
        full, file = os.path.join(self._areas[area], path), (area, path, f"{size}-{modified}")
        sent = self._begun[1] if self._begun[0] == file else 0
        about = {"size": size, "modified": modified / 1e9, "version": file[2]}
        while True:
            piece = _part(full, sent, size)
            if sent + len(piece) < min(size, sent + PIECE):
                return  # it has been changed meanwhile: the next time
            answer = self._scheduler.ask("PUT", f"files/{area}/{path}", piece, offset=sent, **about)
            sent = json.loads(answer)["size"]
            self._begun = (file, sent if sent < size else 0)
            self._grow()
            if sent >= size:
                return

    def _complain(self, sentence: str) -> None:
        with contextlib.suppress(OSError), open(self._log, "ab") as log:
            log.write(f"\n[{sentence}]\n".encode())


def _part(path: str, offset: int, end: int | None = None) -> bytes:
    """A piece of a file from `offset` on, and before `end`; empty where there is none."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(offset)
        return file.read(PIECE if end is None else max(0, min(PIECE, end - offset)))
    return b""


# -- the worker's life --------------------------------------------------------------------------------------


class Worker:
    """The running worker: is told to stop, ends, and is killed with all that came of it."""

    def __init__(self, pid: int, grace: float) -> None:
        self._pid = pid
        self._grace = grace
        self._deadline: float | None = None
        self._readable, self._writable = os.pipe()
        os.set_blocking(self._readable, False)
        os.set_blocking(self._writable, False)
        signal.set_wakeup_fd(self._writable, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)

    def stop(self, grace: float) -> None:
        """SIGTERM now, SIGKILL in `grace` seconds; an earlier end holds."""
        end = time.monotonic() + grace
        self._deadline = end if self._deadline is None else min(self._deadline, end)
        _signal_group(self._pid, signal.SIGTERM)
        _signal_group(self._pid, signal.SIGCONT)
        with contextlib.suppress(OSError):
            os.write(self._writable, b"\0")

    def wait(self) -> tuple[int, str, float, bool]:
        """Until all of it is gone: its exit status, what that does not say, when it ended, and whether it was told
        to."""
        killed, how = False, None
        while True:
            others = _reap_orphans(self._pid)
            status = _ended(self._pid) if how is None else None
            if status is not None:
                how = (status, how_it_ended(status, self._deadline, killed), time.time(), self._deadline is not None)
            if how is not None and not others:
                os.waitpid(self._pid, 0)
                return how
            now, deadline = time.monotonic(), self._deadline
            if (how is not None and deadline is None) or (deadline is not None and now >= deadline):
                killed = True
                _kill(self._pid, others)
            pause = 0.05 if killed or how is not None else 60.0 if deadline is None else deadline - now
            select.select([self._readable], [], [], max(0.0, pause))
            with contextlib.suppress(BlockingIOError):
                if signal.SIGTERM in os.read(self._readable, 4096):
                    self.stop(self._grace)


def run(scheduler: Scheduler, home: str) -> int:
    """Run the worker of a token; the exit status."""
    agent = uuid.uuid4().hex
    spec = json.loads(scheduler.ask_until_answered("GET", "spec"))
    try:
        scheduler.tell(agent=agent, state="pulling")
    except Refused as refusal:
        print(f"runai: {refusal}", file=sys.stderr)
        return 1
    place = WorkerFolders(home, spec)
    try:
        place.fill(scheduler)
    except (Refused, tarfile.TarError, EOFError) as error:
        scheduler.tell(agent=agent, state="exited", at=time.time(), exit_code=COULD_NOT_START, reason=str(error))
        return COULD_NOT_START
    except OSError as error:
        reason = f"its files could not be written ({error.strerror})."
        scheduler.tell(agent=agent, state="lost", at=time.time(), reason=reason)
        return 1
    upload = Upload(scheduler, place, spec)
    if _prctl is not None:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    orders = json.loads(scheduler.ask_until_answered("GET", "orders", after=0, wait=0))
    started = time.time()
    if orders["stop"] is not None:
        reason = "it was stopped before it started."
        scheduler.tell(agent=agent, state="exited", at=started, reason=reason, stopped=True)
        return 0
    try:
        process = place.start()
    except Refused as refusal:
        _finish(upload)
        failed = {"exit_code": COULD_NOT_START, "reason": str(refusal)}
        scheduler.tell(agent=agent, state="exited", at=time.time(), **failed)
        return COULD_NOT_START
    worker, over = Worker(process.pid, float(spec["grace"])), threading.Event()
    threading.Thread(target=_obey, args=(scheduler, worker, agent, started), daemon=True).start()
    uploading = threading.Thread(target=_keep_up, args=(upload, over), daemon=True)
    uploading.start()
    status, reason, ended, stopped = worker.wait()
    end = {"state": "exited", "started": started, "at": ended, "exit_code": status, "reason": reason}
    scheduler.leave(agent=agent, stopped=stopped, **end)
    process.returncode = status
    over.set()
    uploading.join()
    _finish(upload)
    scheduler.tell(agent=agent, stopped=stopped, **end)
    return status if status >= 0 else 128 - status


def _obey(scheduler: Scheduler, worker: Worker, agent: str, started: float) -> None:
    """Tell that the worker runs, and stop it when the scheduler says so."""
    seen = 0
    try:
        scheduler.tell(agent=agent, state="running", started=started)
        while True:
            orders = json.loads(scheduler.ask_until_answered("GET", "orders", after=seen, wait=WAIT))
            if orders["number"] != seen and orders["stop"] is not None:
                worker.stop(orders["stop"])
            seen = orders["number"]
    except AttemptOver:
        worker.stop(0)
    except Refused as refusal:
        print(f"runai: {refusal}", file=sys.stderr)


def _keep_up(upload: Upload, over: threading.Event) -> None:
    """Upload while the worker runs; what is left of it when that ends is `_finish`'s."""
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


# -- as the supervisor does it (a test holds the two the same) ------------------------------------------------


def why_not(error: Exception, name: str, cwd: str) -> str:
    """One sentence that says why a command could not be started."""
    if isinstance(error, OSError) and error.filename == cwd and error.filename != name:
        return f"The working directory of the job cannot be entered ({error.strerror})."
    found = os.path.join(cwd, name) if "/" in name else None
    if isinstance(error, FileNotFoundError):
        if found is not None and os.path.exists(found):
            return f"The first line of `{name}` names an interpreter that does not exist."
        where = "" if found is not None else " in the folders of PATH"
        return f"Command not found: `{name}`{where}."
    if isinstance(error, PermissionError):
        if found is not None and os.path.isdir(found):
            return f"`{name}` is a folder, not a command."
        return f"`{name}` is not executable; run chmod +x on it, or put its interpreter in front of it."
    if isinstance(error, OSError) and error.strerror:
        return f"`{name}` could not be started ({error.strerror})."
    return f"`{name}` could not be started ({error})."


def _ended(worker: int) -> int | None:
    """The worker's exit status once it has one; negative for a signal."""
    result = os.waitid(os.P_PID, worker, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if result is None:
        return None
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status


def _reap_orphans(worker: int) -> list[int]:
    """Take in those of the worker's descendants that have come to this process and ended; returns the others."""
    living = []
    for pid in _children():
        with contextlib.suppress(ChildProcessError):
            if pid != worker and os.waitpid(pid, os.WNOHANG)[0] == 0:
                living.append(pid)
    return living


def _children() -> list[int]:
    """This process's children. Orphans of the worker are among them, on Linux."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:  # a kernel that does not list them: look at all processes
        numbers = (int(name) for name in (os.listdir("/proc") if LINUX else ()) if name.isdigit())
        return [pid for pid in numbers if _parent(pid) == os.getpid()]


def _parent(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b") ")[2].split()[1])
    except OSError:
        return None


def _kill(worker: int, others: list[int]) -> None:
    """Kill the worker's group and the orphans; their children come to this process in turn, until none is left."""
    _signal_group(worker, signal.SIGKILL)
    for pid in others:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _signal_group(worker: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # EPERM: all of them zombies, on macOS
        os.killpg(worker, number)


def how_it_ended(status: int, deadline: float | None, killed: bool) -> str:
    """What the exit status does not say by itself; often nothing."""
    if killed:
        return "it was killed at the end of its grace period."
    if deadline is not None:
        return "it was stopped."
    if status == -signal.SIGKILL:
        return "it was killed by SIGKILL; perhaps the machine ran out of memory."
    return ""


if __name__ == "__main__":
    address, secret = os.environ.pop("RUNAI_AGENT_URL"), os.environ.pop("RUNAI_AGENT_TOKEN")
    try:
        sys.exit(run(Scheduler(address, secret, os.environ.pop("RUNAI_AGENT_END", "")), os.getcwd()))
    except AttemptOver:
        sys.exit("runai: The attempt is over.")
