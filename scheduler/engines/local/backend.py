"""The backend of one machine: its processes, folders and GPUs, and the lock on its state folder."""

from __future__ import annotations

from scheduler.engines.backend import Backend, Setup
from scheduler.engines.leadership import FolderLeadership
from scheduler.engines.local.engine import LocalEngine
from scheduler.telemetry import LocalInventory


def local(setup: Setup) -> Backend:
    """This machine."""
    engine = LocalEngine(setup.folder.path, as_owner=setup.jobs_as == "owner")
    return Backend(
        engine=engine,
        files=engine.files,
        inventory=LocalInventory(setup.declared_gpus, setup.folder.path / "telemetry"),
        leadership=FolderLeadership(setup.folder, setup.patience),
    )
