"""Records when a GPU fails and when it works again, in the event log and in the audit.

What must hold: each is recorded once, also across restarts. What counts as known about a GPU is what the audit says.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

from scheduler.controller import notices
from scheduler.controller.statewriter import StateWriter, Written
from scheduler.model import GpuKey, Node, NodeName
from scheduler.store import AuditFilter, AuditRecord, ChangeSet

LOOKED_AT = 1_000
"""How many of the latest entries about GPUs are read at the start."""

Failures = Mapping[GpuKey, str]
ReadAudit = Callable[..., Awaitable[Iterable[AuditRecord]]]


class GpuRecord:
    """`open` first; then `note` the nodes as often as they change."""

    def __init__(self, writer: StateWriter, audit: ReadAudit, clock: Callable[[], float]) -> None:
        self._writer = writer
        self._audit = audit
        self._clock = clock
        self._recorded: Failures = {}
        self._noted: Failures = {}

    async def open(self) -> None:
        """Read which GPUs failed when the scheduler ended."""
        latest: dict[str, str | None] = {}
        for entry in await self._audit(AuditFilter(kind=notices.GPU), limit=LOOKED_AT):
            latest.setdefault(entry.name, (entry.after or {}).get("failure"))
        self._recorded = self._noted = {_key(name): reason for name, reason in latest.items() if reason is not None}

    def note(self, nodes: Iterable[Node]) -> None:
        """Record the GPUs that have failed, and those of these nodes that work again."""
        sizes, before = {node.name: node.gpus for node in nodes}, self._noted
        failures = {GpuKey((node.name, gpu)): reason for node in nodes for gpu, reason in node.failing}
        failed = {key: reason for key, reason in failures.items() if key not in before}
        well = {key: before[key] for key in before.keys() - failures.keys() if key[1] < sizes.get(key[0], 0)}
        if not failed and not well:
            return
        self._noted = {key: reason for key, reason in before.items() if key not in well} | failed
        now = self._clock()
        told = [notices.gpu_failed(key, reason, now) for key, reason in failed.items()]
        told += [notices.gpu_recovered(key, reason, now) for key, reason in sorted(well.items())]
        events, audit = zip(*told, strict=True)
        written = self._writer.commit(ChangeSet(events=events, audit=audit))
        written.add_done_callback(partial(self._written, self._noted))

    def _written(self, noted: Failures, written: Written) -> None:
        """If the change is refused, it is noted again when everything starts over from the durable state."""
        if written.cancelled() or written.exception() is not None:
            self._noted = self._recorded
        else:
            self._recorded = noted


def _key(name: str) -> GpuKey:
    node, _, gpu = name.rpartition("/")
    return GpuKey((NodeName(node), int(gpu)))
