"""The processes that use GPUs (Linux): whose each is, by its environment or its pod, and their end.

What must hold: a process is never taken for another one that had its number before.
"""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from scheduler.model import JobId, MiB
from scheduler.telemetry.sample import GpuProcess

_POD = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?![0-9a-f])")
"""A pod's UID in the path of a cgroup; systemd has underscores in it."""

_NAMES = (b"RUNAI_JOB_ID", b"JUPYTERHUB_USER", b"JUPYTERHUB_SERVER_NAME")


def process(pid: int, memory: MiB | None) -> GpuProcess:
    """A process that uses a GPU. The environments of other users' processes can be read only as root."""
    started = _started(pid)
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        uid = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return GpuProcess(pid, memory)
    if started is None or _started(pid) != started:
        return GpuProcess(pid, memory)
    pairs = (entry.partition(b"=") for entry in environment.split(b"\0"))
    found = {name: value.decode("utf-8", "replace") for name, _, value in pairs if name in _NAMES}
    job = found.get(b"RUNAI_JOB_ID")
    if job is not None:
        return GpuProcess(pid, memory, job_id=JobId(job), started=started, uid=uid)
    user, server = found.get(b"JUPYTERHUB_USER"), found.get(b"JUPYTERHUB_SERVER_NAME")
    return GpuProcess(pid, memory, user=user, server=server, started=started, uid=uid)


def process_of_pod(pid: int, memory: MiB | None) -> GpuProcess:
    """A process that uses a GPU, with its pod. Needs the machine's process ids, and no rights: the control groups of
    others' processes can be read by everybody."""
    try:
        return GpuProcess(pid, memory, pod=pod_of(Path(f"/proc/{pid}/cgroup").read_text()))
    except OSError:
        return GpuProcess(pid, memory)


def pod_of(cgroups: str) -> str | None:
    """The UID of the pod in whose control group a process is; `cgroups` are the lines of its `cgroup` in /proc."""
    found = _POD.search(cgroups)
    return None if found is None else found[1].replace("_", "-")


def runs(process: GpuProcess) -> bool:
    """Whether this process, and not another one with its number, is running."""
    return process.started is not None and _started(process.pid) == process.started


def end(process: GpuProcess, *, force: bool) -> bool:
    """Send a process SIGTERM, or SIGKILL with `force`; false where it is gone, or belongs to another user."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        if not runs(process):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL if force else signal.SIGTERM)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _started(pid: int) -> int | None:
    """When a process was started, in the kernel's ticks since the boot; `None` where there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return int(stat.rpartition(b")")[2].split()[19])
