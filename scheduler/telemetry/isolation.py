"""What keeps a worker or notebook server to its part of a GPU on this machine, and has the driver do so.

The strongest that works is chosen once, at the start: the driver's own limit of memory by control group (r615 and
later, as root), else MPS' limit where its control daemon runs, else the watcher. What must hold:
- What is in force is what the log, the API and the screens name. Where a limit cannot be set, the watcher is in force
  from then on.
- Limits outlive the scheduler: they belong to the control group or to the process.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scheduler.errors import RunaiError, Unavailable
from scheduler.model import Isolation, MiB
from scheduler.telemetry.cgroups import ControlGroups, root
from scheduler.telemetry.machine_gpus import MachineGpus

CGROUP: Final = "RUNAI_CGROUP"
"""The variable that names the control group that a process joins before it becomes the worker or the server."""

MPS_FOLDER = "/tmp/nvidia-mps"
"""Where MPS' control daemon listens, unless CUDA_MPS_PIPE_DIRECTORY says otherwise."""

_PROBE = "probe"

log = logging.getLogger(__name__)


IN_WORDS: Mapping[Isolation, str] = {
    Isolation.MEMORY_LIMIT: "the driver limits the GPU memory of each",
    Isolation.MPS: "MPS limits the GPU memory of each process",
    Isolation.WATCHER: "one that uses more GPU memory than its part is warned and then ended",
    Isolation.TIME_SLICING: "nothing limits the GPU memory of each",
}


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a GPU: `memory` of the GPU `device`. `name` is that of the worker or server which has it."""

    name: str
    device: str
    memory: MiB


class GpuIsolation:
    """`current` is what is in force, `UNKNOWN` before `open` and for declared GPUs. `wanted` is what an administrator
    has chosen; `None`: the strongest. The names of control groups are different for each `owner`, a state folder."""

    def __init__(self, wanted: Isolation | None, owner: Path) -> None:
        self.current = Isolation.UNKNOWN
        self._wanted = wanted
        self._prefix = f"runai-{hashlib.sha256(os.fsencode(owner)).hexdigest()[:8]}-"
        self._gpus: MachineGpus | None = None
        self._groups: ControlGroups | None = None
        self._changed: Callable[[], None] = lambda: None
        self._made: set[str] = set()
        self._lock = threading.Lock()

    def open(self, gpus: MachineGpus, changed: Callable[[], None]) -> None:
        """Choose what is in force. `changed` is called, in any thread, when that changes later."""
        self._gpus, self._changed = gpus, changed
        if gpus.declared:
            return
        probes: Mapping[Isolation, Callable[[], None]] = {
            Isolation.MEMORY_LIMIT: self._probe_limits,
            Isolation.MPS: lambda: check_mps(mps_folder()),
        }
        self.current = Isolation.WATCHER if self._wanted is None or self._wanted in probes else self._wanted
        for isolation, probe in probes.items():
            if self._wanted not in (None, isolation):
                continue
            try:
                probe()
            except (RunaiError, OSError) as error:
                level = logging.INFO if self._wanted is None else logging.WARNING
                log.log(level, "gpu_isolation %s is not available: %s", isolation, _sentence(error))
            else:
                self.current = isolation
                break
        if any(not gpu.mig for gpu in gpus.machine.gpus):
            log.info("Workloads that share a GPU: %s (%s).", IN_WORDS[self.current], self.current)

    def enforce(self, part: Part) -> Mapping[str, str]:
        """Limit the memory of a worker or server that is about to start; returns its variables. Idempotent."""
        try:
            match self.current:
                case Isolation.MEMORY_LIMIT:
                    return {CGROUP: str(self._limit(part))}
                case Isolation.MPS:
                    check_mps(folder := mps_folder())
                    limit = f"0={part.memory}M"  # of the first GPU that it sees, which is the only one
                    return {"CUDA_MPS_PIPE_DIRECTORY": str(folder), "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": limit}
        except (RunaiError, OSError) as error:
            self._fall_back(error)
        return {}

    def release(self, name: str) -> None:
        """The worker or server of that name has ended."""
        self._made.discard(name)
        if self._groups is not None:
            for found, group in self._groups.all():
                if found == name:
                    self._remove(group)

    def sweep(self) -> None:
        """Remove the groups of workers and servers that ended while no scheduler ran."""
        for name, group in self._groups.all() if self._groups is not None else ():
            if name not in self._made:
                self._remove(group)

    def _probe_limits(self) -> None:
        """Raises `Unavailable` or `OSError` where the driver sets no limits."""
        if os.geteuid() != 0:
            raise Unavailable("The scheduler does not run as root.")
        assert self._gpus is not None
        groups = ControlGroups(self._prefix, root())
        probe = groups.make(_PROBE)
        try:
            for gpu in self._gpus.machine.gpus:
                if not gpu.mig:
                    self._gpus.limit_memory(gpu.device, probe, None)
        finally:
            probe.rmdir()
        self._groups = groups

    def _limit(self, part: Part) -> Path:
        assert self._gpus is not None
        assert self._groups is not None
        self._made.add(part.name)
        group = self._groups.make(part.name)
        self._gpus.limit_memory(part.device, group, part.memory)
        return group

    def _remove(self, group: Path) -> None:
        """Remove a group, unless processes are left in it. The driver releases what it reserved when the limit is
        lifted, not when the group is gone."""
        assert self._gpus is not None
        with suppress(OSError):
            if "populated 1" in (group / "cgroup.events").read_text():
                return
            for gpu in self._gpus.machine.gpus:
                with suppress(Unavailable):
                    self._gpus.limit_memory(gpu.device, group, None)
            group.rmdir()

    def _fall_back(self, error: Exception) -> None:
        with self._lock:
            before, self.current = self.current, Isolation.WATCHER
        if before is not Isolation.WATCHER:
            log.warning(
                "%s could not limit GPU memory: %s Now, %s.",
                "MPS" if before is Isolation.MPS else "The driver",
                _sentence(error),
                IN_WORDS[Isolation.WATCHER],
            )
            self._changed()


def _sentence(error: Exception) -> str:
    return error.sentence if isinstance(error, RunaiError) else f"{error}."


# -- MPS ------------------------------------------------------------------------------------------------


def mps_folder() -> Path:
    return Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY") or MPS_FOLDER)


def check_mps(folder: Path) -> None:
    """Raises `Unavailable` where MPS' control daemon does not run."""
    try:
        pid = int((folder / "nvidia-cuda-mps-control.pid").read_text())
        name = Path(f"/proc/{pid}/comm").read_text()
    except (OSError, ValueError):
        name = ""
    if not name.startswith("nvidia-cuda-mps"):  # the number may belong to another process now
        raise Unavailable(f"MPS' control daemon does not run at {folder}.")
