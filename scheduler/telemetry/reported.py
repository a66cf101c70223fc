"""The GPUs of nodes whose agents report them (`nodeagent`): their samples, their history, and which of them fail.

What must hold:
- A sample counts once, however often it is sent, also after a restart of the scheduler.
- A GPU that fails is known after a restart, before its node's agent has reported again.
- A GPU whose agent has fallen silent is not measured; that it fails stays known.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from scheduler.telemetry.history import HistoryFiles
from scheduler.telemetry.inventory import History
from scheduler.telemetry.observer import Observer
from scheduler.telemetry.sample import GpuSample

SHORTEST, LONGEST, PER_SECOND = 5.0, 60.0, 10.0
"""Seconds between two requests of an agent, and how many requests of all agents there are in a second: with more than
fifty nodes each sends less often. A request of eight GPUs takes about 3 ms of processor time."""

STALE = 3 * LONGEST
"""After how many seconds a sample no longer says how busy a GPU is."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reading:
    """A sample of each GPU of a node by its device, in the driver's order, taken `age` seconds ago (`None`: the GPU did
    not respond). The readings of one run of an agent are numbered."""

    number: int
    age: float
    samples: Mapping[str, GpuSample | None]


@dataclass(slots=True)
class ReportedNode:
    """`devices` in the driver's order; `failures` by device. `number` is that of the latest reading of a `run`, and
    `heard` when its agent reported since the start of the scheduler (0: it has not)."""

    devices: tuple[str, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)
    observer: Observer | None = None
    run: str = ""
    number: int = 0
    heard: float = 0.0

    @property
    def latest(self) -> Mapping[str, GpuSample]:
        """The samples of devices; none if the agent has been silent for too long."""
        silent = self.observer is None or time.monotonic() - self.heard > STALE
        return {} if silent or self.observer is None else self.observer.latest


UNKNOWN = ReportedNode()
"""A node whose agent has never reported."""


class ReportedGpus:
    """`file` keeps which GPUs the nodes have and which of them fail; the history is kept in `folder`. `changed` is
    called in the event loop with the name of a node where that has changed."""

    def __init__(self, folder: Path, file: Path, clock: Callable[[], float] = time.time) -> None:
        self._file = file
        self._history = HistoryFiles(folder)
        self._clock = clock
        self._nodes: dict[str, ReportedNode] = {}
        self._thread: ThreadPoolExecutor | None = None  # the history belongs to one
        self._written = True
        self.changed: Callable[[str], None] = lambda node: None

    async def open(self) -> None:
        self._thread = ThreadPoolExecutor(1, "gpu-history")
        await self._in_thread(self._load)

    async def close(self) -> None:
        if self._thread is not None:
            await asyncio.to_thread(self._thread.shutdown)
            self._thread = None

    def node(self, name: str) -> ReportedNode:
        return self._nodes.get(name) or UNKNOWN

    def history(self, device: str, since: float, until: float, points: int) -> History | None:
        """The use of a GPU; `None` if no agent has ever reported it. Reads files."""
        if not any(device in node.devices for node in self._nodes.values()):
            return None
        return self._history.read(device, since, until, self._clock(), points)

    async def take(self, name: str, run: str, readings: Sequence[Reading]) -> None:
        """Take the readings of a node, oldest first."""
        node = self._nodes.setdefault(name, ReportedNode())
        before = node.devices, node.failures
        await self._in_thread(lambda: self._take_together(node, run, readings))
        node.heard = time.monotonic()
        if (node.devices, node.failures) != before:
            await self._in_thread(self._save)
            self.changed(name)

    @property
    def every(self) -> float:
        """Seconds until an agent sends its next request."""
        reporting = sum(node.heard > 0 for node in self._nodes.values())
        return min(LONGEST, max(SHORTEST, reporting / PER_SECOND))

    def forget(self, name: str) -> None:
        """A node has left the cluster."""
        self._nodes.pop(name, None)

    async def _in_thread(self, work: Callable[[], None]) -> None:
        assert self._thread is not None, "Not open."
        await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # -- in the thread --------------------------------------------------------------------------------------

    def _take_together(self, node: ReportedNode, run: str, readings: Sequence[Reading]) -> None:
        try:
            with self._history.together():
                self._take(node, run, readings)
        except OSError as error:
            if self._written:
                _log.warning("The history of the GPUs cannot be written: %s", error)
            self._written = False
        else:
            self._written = True

    def _take(self, node: ReportedNode, run: str, readings: Sequence[Reading]) -> None:
        for reading in readings:
            at = self._clock() - reading.age
            if node.observer is None or node.devices != tuple(reading.samples):
                node.devices = tuple(reading.samples)
                node.observer = Observer(self._history, lambda: None, node.devices, self._clock())
            if run != node.run:
                node.run, node.number = run, 0
            if reading.number > node.number and at >= node.observer.recorded:
                node.observer.take(reading.samples, at)
                node.failures = node.observer.failures
            node.number = max(node.number, reading.number)

    def _load(self) -> None:
        self._history.discard_old(self._clock())
        try:
            known = json.loads(self._file.read_bytes())
            self._nodes = {
                name: ReportedNode(tuple(node["devices"]), dict(node["failures"])) for name, node in known.items()
            }
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            _log.warning("The GPUs of nodes that were known before cannot be read: %s", error)

    def _save(self) -> None:
        nodes = list(self._nodes.items())
        known = {name: {"devices": node.devices, "failures": dict(node.failures)} for name, node in nodes}
        beside = self._file.with_suffix(".new")
        try:
            beside.write_text(json.dumps(known))
            os.replace(beside, self._file)
        except OSError as error:
            _log.warning("The GPUs of nodes cannot be written: %s", error)
