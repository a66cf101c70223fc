"""Starts a supervisor for each worker: one process that forks them.

Standard library only, run by path (`python -I -S launcher.py STATE_DIR FILES`). It is started with the engine and ends
with the scheduler. A fork takes a millisecond where starting a Python takes ten.

What must hold: the lock is held by the launcher and by each supervisor until that has its claim. Who gets this lock
knows that nothing is on its way any more.
"""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from typing import NoReturn


def launch(state_dir: str, files: int, supervise: Callable[[socket.socket, int], None]) -> None:
    """Fork a supervisor for each line (a socket) that comes over standard input, until the scheduler closes that.

    Workers may have `files` open files.
    """
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    lock = os.open(os.path.join(state_dir, "launcher.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends when the scheduler does
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # supervisors are reaped by the kernel
    requests = socket.socket(fileno=0)
    requests.send(b"1")
    while True:
        _, lines, _, _ = socket.recv_fds(requests, 1, 1)
        if not lines:
            return
        try:
            child = os.fork()
        except OSError:  # no process to be had: the engine sees its line close
            child = -1
        if child == 0:
            _become_supervisor(lines[0], lock, supervise)
        os.close(lines[0])


def _become_supervisor(line: int, lock: int, supervise: Callable[[socket.socket, int], None]) -> NoReturn:
    """The child's part of a fork: whatever happens, it does not go on as a launcher."""
    try:
        os.setsid()
        os.dup2(1, 0)  # the scheduler's line to the launcher is not to be held open
        supervise(socket.socket(fileno=line), lock)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    sys.path.append(os.path.abspath(os.path.join(__file__, "../../..")))
    from scheduler.worker.supervisor import supervise

    launch(sys.argv[1], int(sys.argv[2]), supervise)
