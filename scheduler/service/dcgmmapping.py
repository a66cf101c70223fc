"""Writes which jobs and sessions hold each GPU into files from which NVIDIA's DCGM exporter labels its metrics.

The exporter (`DCGM_HPC_JOB_MAPPING_DIR`) reads a file per GPU, named by the number of the GPU, with an id on each line.
An idle GPU has no file: the exporter would leave its metrics out.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from scheduler.controller import Controller
from scheduler.errors import Invalid
from scheduler.model import Node, Workload
from scheduler.telemetry import Inventory

log = logging.getLogger(__name__)


def holders(nodes: Iterable[Node], workloads: Iterable[Workload], numbers: Mapping[str, int]) -> dict[int, list[str]]:
    """The ids of the workloads that hold each GPU, by the driver's number of the GPU (`numbers`, by device)."""
    devices = {node.name: node.devices for node in nodes}
    found: dict[int, list[str]] = defaultdict(list)
    for workload in workloads:
        for worker in workload.placement:
            of_node = devices.get(worker.node, ())
            for gpu in worker.gpus:
                number = numbers.get(of_node[gpu]) if gpu < len(of_node) else None
                if number is not None and workload.id not in found[number]:  # which may hold several of its instances
                    found[number].append(workload.id)
    return found


class DcgmMapping:
    """Runs beside the service. Raises `Invalid` where the folder cannot be made."""

    def __init__(self, controller: Controller, inventory: Inventory, folder: Path) -> None:
        self._controller = controller
        self._numbers = inventory.gpu_numbers()
        self._folder = folder
        self._written: dict[int, list[str] | None] = {}
        try:
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        except OSError as error:
            raise Invalid(f"dcgm_mapping_dir: {error.strerror}: {folder}.", field="dcgm_mapping_dir") from error
        if not self._numbers:
            log.warning("dcgm_mapping_dir has no effect: NVML has found no GPUs.")

    async def forever(self) -> None:
        events = self._controller.events()
        self._write()
        async for event in events:
            if event.kind.startswith(("job.", "session.")):
                self._write()

    def _write(self) -> None:
        book = self._controller.book
        found = holders(book.nodes, book.standing, self._numbers)
        try:
            for number in self._numbers.values():
                ids = found.get(number, [])
                if self._written.get(number) != ids:
                    self._written[number] = None
                    self._write_one(self._folder / str(number), ids)
                    self._written[number] = ids
        except OSError as error:
            log.warning("The files for the DCGM exporter cannot be written: %s", error)

    def _write_one(self, file: Path, ids: list[str]) -> None:
        if ids:
            file.write_text("".join(f"{id}\n" for id in ids))
        else:
            with suppress(FileNotFoundError):
                file.unlink()
