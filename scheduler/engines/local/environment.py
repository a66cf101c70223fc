"""The environment variables of a worker on this machine: the worker's contract, over a small part of the scheduler's
own environment.

Only the variables named here are inherited from the scheduler, so that none of its tokens ever is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from scheduler import worker
from scheduler.engines import contract
from scheduler.engines.contract import WorkerSpec
from scheduler.engines.local.accounts import Account
from scheduler.engines.local.folders import JobFolder
from scheduler.model import JobId

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
"""Also inherited if the job runs as the scheduler's own user."""

_FILES = Path(worker.__file__).parent
"""The files that run beside a job's command."""


def environment(
    spec: WorkerSpec,
    folder: JobFolder,
    attempt: int,
    inherited: Mapping[str, str],
    owner: Account | None = None,
    isolating: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The complete environment of a worker of an attempt, which runs as `owner` or else as the scheduler's user. The
    variables `isolating` keep it to its part of a GPU."""
    kept = _KEPT if owner else _KEPT | _PERSONAL
    free = {
        **{name: value for name, value in inherited.items() if name in kept or name.startswith("LC_")},
        **(owner.environment if owner else {}),
        "PATH": _path(inherited.get("PATH", os.defpath)),
        **spec.env,
    }
    if spec.python_path is not None:
        before = str(_FILES / spec.python_path)
        free["PYTHONPATH"] = os.pathsep.join(filter(None, (before, free.get("PYTHONPATH"))))
    return {
        **free,
        **spec.own,
        **(isolating or {}),
        "RUNAI_CHECKPOINT_DIR": str(folder.checkpoint),
        "RUNAI_OUTPUT_DIR": str(folder.output),
        "RUNAI_SAVE_REQUEST": str(folder.save_request(attempt)),
    }


def identifying(job: JobId, attempt: int, rank: int, folder: JobFolder) -> dict[str, str]:
    """The variables that identify a worker's processes: unique across all schedulers."""
    return {**contract.identifying(job, attempt, rank), "RUNAI_OUTPUT_DIR": str(folder.output)}


def command(spec: WorkerSpec) -> tuple[str, ...]:
    """The command of a worker on this machine: the job's own, or wrapped with its companion files."""
    if spec.wrapper is None:
        return spec.command
    file = str(_FILES / spec.wrapper.file)
    return (sys.executable, "-I", "-S", file, *spec.wrapper.arguments, *spec.command)


def _path(path: str) -> str:
    """PATH with the scheduler's environment first, so that `python` is the one that the pool was installed into."""
    ours = os.path.dirname(sys.executable)
    return path if ours in path.split(os.pathsep) else f"{ours}{os.pathsep}{path}"
