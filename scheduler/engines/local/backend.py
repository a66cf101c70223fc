"""The backend of one machine: its processes, folders and GPUs, and the lock on its state folder."""

from __future__ import annotations

from scheduler.engines.backend import Backend, Setup
from scheduler.engines.leadership import FolderLeadership
from scheduler.engines.local.engine import LocalEngine
from scheduler.model import Isolation
from scheduler.telemetry import GpuIsolation, LocalInventory


def local(setup: Setup) -> Backend:
    """This machine."""
    wanted = None if setup.gpu_isolation == "auto" else Isolation(setup.gpu_isolation)
    isolation = GpuIsolation(wanted, setup.folder.path)
    engine = LocalEngine(setup.folder.path, as_owner=setup.jobs_as == "owner", isolation=isolation)
    return Backend(
        engine=engine,
        files=engine.files,
        inventory=LocalInventory(setup.declared_gpus, setup.folder.path / "telemetry", isolation),
        leadership=FolderLeadership(setup.folder, setup.patience),
    )
