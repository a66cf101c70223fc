"""Which inventory this machine has: the GPUs that NVML finds, or declared ones."""

from __future__ import annotations

import logging

from scheduler.errors import Unavailable
from scheduler.telemetry.inventory import DECLARED, DeclaredInventory, Inventory
from scheduler.telemetry.nvml import NvmlInventory, find

_log = logging.getLogger(__name__)


def open_inventory(declared_gpus: int | None = None) -> Inventory:
    """The GPUs that NVML finds; where there are none, `declared_gpus` (8 unless said otherwise).

    Raises `Unavailable` where there is a driver that does not work, or GPUs that cannot be used, and nobody has said how
    many GPUs to declare instead: it would be wrong to pretend.
    """
    try:
        found = find()
    except Unavailable as error:
        if declared_gpus is None:
            raise
        return _with_notes(DeclaredInventory(declared_gpus, (error.sentence,)))
    if found is None:
        return DeclaredInventory(DECLARED if declared_gpus is None else declared_gpus)
    return _with_notes(NvmlInventory(found))


def _with_notes(inventory: Inventory) -> Inventory:
    for note in inventory.notes:
        _log.warning(note)
    return inventory
