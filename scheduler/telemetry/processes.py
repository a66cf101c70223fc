"""Which job or notebook server a process of this machine says that it belongs to, by its environment (Linux)."""

from __future__ import annotations

from pathlib import Path

from scheduler.model import JobId, MiB
from scheduler.telemetry.sample import GpuProcess

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
