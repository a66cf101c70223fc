"""What a worker finds in its environment: the contract of a worker, over a small part of the scheduler's own.

Only what is named here is handed on from the scheduler, so that none of its tokens ever is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from scheduler import worker
from scheduler.engines.accounts import Account
from scheduler.engines.base import Launch
from scheduler.engines.folders import JobFolder
from scheduler.engines.rendezvous import Meeting, variables
from scheduler.model import Framework, Node, WorkerPlacement

_KEPT = frozenset(
    {
        *("LANG", "LANGUAGE", "TZ"),
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV"),
        *("CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_ROOT"),
        *("CUDA_HOME", "CUDA_PATH", "NVIDIA_DRIVER_CAPABILITIES"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
    }
)
_PERSONAL = frozenset(
    {
        *("HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TEMP", "TMP"),
        *("XDG_CACHE_HOME", "HF_HOME", "TORCH_HOME"),
    }
)
"""Handed on, too, where the job runs as the scheduler's own user."""

_GLOO = str(Path(worker.__file__).with_name("gloo"))


def environment(
    launch: Launch,
    rank: int,
    folder: JobFolder,
    meeting: Meeting,
    inherited: Mapping[str, str],
    owner: Account | None = None,
) -> dict[str, str]:
    """The whole environment of one worker, which runs as `owner` or else as the scheduler's own user.

    What the contract names, the user's own variables cannot change; what their framework is told, they can.
    """
    kept = _KEPT if owner else _KEPT | _PERSONAL
    placement = launch.workers[rank]
    gpus = ",".join(devices(placement, launch.nodes[placement.node]))
    free = {
        **{name: value for name, value in inherited.items() if name in kept or name.startswith("LC_")},
        **(owner.environment if owner else {}),
        "PATH": _path(inherited.get("PATH", os.defpath)),
        "PYTHONUNBUFFERED": "1",
        **variables(meeting, rank),
        **launch.program.env,
        **launch.env,
    }
    if meeting.framework is Framework.TORCH:
        free["PYTHONPATH"] = os.pathsep.join(filter(None, (_GLOO, free.get("PYTHONPATH"))))
    return {
        **free,
        "CUDA_VISIBLE_DEVICES": gpus,
        "RUNAI_GPUS": gpus,
        **identifying(launch.job, launch.attempt, rank, folder),
        "RUNAI_WORLD_SIZE": str(len(launch.workers)),
        "RUNAI_CHECKPOINT_DIR": str(folder.checkpoint),
        **_group(launch, rank),
    }


def _group(launch: Launch, rank: int) -> dict[str, str]:
    """Which of its gang's groups a worker is of, and its rank in that."""
    for group in launch.groups:
        if rank < group.workers:
            return {
                "RUNAI_GROUP": group.name,
                "RUNAI_GROUP_RANK": str(rank),
                "RUNAI_GROUP_SIZE": str(group.workers),
            }
        rank -= group.workers
    return {}


def identifying(job: str, attempt: int, rank: int, folder: JobFolder) -> dict[str, str]:
    """Those variables that no other worker has, of whatever scheduler: its processes are known by them."""
    return {
        "RUNAI_JOB_ID": job,
        "RUNAI_ATTEMPT": str(attempt),
        "RUNAI_RANK": str(rank),
        "RUNAI_OUTPUT_DIR": str(folder.output),
    }


def devices(placement: WorkerPlacement, node: Node) -> list[str]:
    """A worker's GPUs, as the driver calls them, or by number."""
    return [node.devices[gpu] if gpu < len(node.devices) else str(gpu) for gpu in placement.gpus]


def _path(path: str) -> str:
    """The scheduler's own environment first, so that `python` is the one that the pool was installed into."""
    ours = os.path.dirname(sys.executable)
    return path if ours in path.split(os.pathsep) else f"{ours}{os.pathsep}{path}"
