"""Whose a process of this machine is (Linux): the job or notebook server that its environment names, or its pod."""

from __future__ import annotations

import re
from pathlib import Path

from scheduler.model import JobId, MiB
from scheduler.telemetry.sample import GpuProcess

_POD = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?![0-9a-f])")
"""A pod's UID in the path of a cgroup; systemd has underscores in it."""

_NAMES = (b"RUNAI_JOB_ID", b"JUPYTERHUB_USER", b"JUPYTERHUB_SERVER_NAME")


def process(pid: int, memory: MiB | None) -> GpuProcess:
    """A process that uses a GPU. The environments of other users' processes can be read only as root."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return GpuProcess(pid, memory)
    pairs = (entry.partition(b"=") for entry in environment.split(b"\0"))
    found = {name: value.decode("utf-8", "replace") for name, _, value in pairs if name in _NAMES}
    job = found.get(b"RUNAI_JOB_ID")
    if job is not None:
        return GpuProcess(pid, memory, job_id=JobId(job))
    return GpuProcess(pid, memory, user=found.get(b"JUPYTERHUB_USER"), server=found.get(b"JUPYTERHUB_SERVER_NAME"))


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
