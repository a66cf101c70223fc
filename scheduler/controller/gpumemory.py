"""Who uses more of a GPU's memory than their part of it: who is warned, and who is ended.

Pure. What must hold:
- Only workloads with part of a GPU are judged, by all their processes on it together.
- Nobody is ended who was not warned, and who has not used too much in every sample for `WARNED` seconds since then.
- Without a new sample of a GPU, nothing is decided there.
- Warnings are kept in memory: after a restart of the scheduler a workload is warned again and has the whole time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scheduler.controller.gpuowners import owner_of
from scheduler.model import (
    ONE,
    GpuKey,
    Isolation,
    Job,
    MiB,
    Node,
    NodeName,
    Session,
    UserName,
    WorkloadId,
    duration,
    memory_size,
)
from scheduler.telemetry import GpuProcess, GpuSample

if TYPE_CHECKING:
    from scheduler.controller.book import Book

WARNED = 60.0
"""Seconds from the warning until a workload is ended."""

AGAIN = 10.0
"""Seconds until a process that was asked to end is killed."""

WATCHED = frozenset({Isolation.WATCHER, Isolation.MEMORY_LIMIT, Isolation.MPS})
"""Also where others limit the memory: MPS limits each process by itself, and a process can evade it; and not every
spawner has the driver limit its servers."""

Key = tuple[WorkloadId, int, GpuKey]
"""A workload, its attempt (of a session: 0), and the GPU of which it has part."""


@dataclass(frozen=True, slots=True)
class Use:
    """The processes of a workload on a GPU, and how much memory it was given there."""

    key: Key
    given: MiB
    processes: tuple[GpuProcess, ...] = ()

    @property
    def used(self) -> MiB:
        return sum([process.memory or 0 for process in self.processes])

    @property
    def largest(self) -> GpuProcess:
        return max(self.processes, key=lambda process: process.memory or 0)

    def in_words(self, verb: str) -> str:
        return f"{verb} {memory_size(self.used)} of GPU memory; {memory_size(self.given)} were given."


@dataclass(frozen=True, slots=True)
class Excess:
    """A workload that uses too much: what it used when it was warned, and uses now. At `ends` it is ended, or killed if
    it was `asked` to end before."""

    warned: Use
    now: Use
    ends: float
    asked: bool = False

    @property
    def key(self) -> Key:
        return self.now.key

    def warning(self, *, session: bool) -> str:
        after = duration(WARNED)
        if session:
            words = self.warned.in_words("The server's kernels use")
            return f"{words} The largest process will be ended after {after} unless they use less."
        return f"{self.warned.in_words('Uses')} It will be ended after {after} unless it uses less."


@dataclass(frozen=True, slots=True)
class Excesses:
    """Those that use too much, and those of them that are to be ended now."""

    all: Mapping[Key, Excess]
    due: Collection[Excess]


def excesses(before: Mapping[Key, Excess], uses: Iterable[Use], unknown: Collection[GpuKey], now: float) -> Excesses:
    """Those after `before`: `uses` is what is used now, except of the `unknown` GPUs; `now` is on a monotonic clock."""
    found = {key: known for key, known in before.items() if key[2] in unknown}
    over = {use.key: use for use in uses if use.used > use.given}
    for key, use in over.items():
        known = before.get(key)
        found[key] = Excess(use, use, now + WARNED) if known is None else replace(known, now=use)
    return Excesses(found, [found[key] for key in over if found[key].ends <= now])


def asked_to_end(excess: Excess, now: float) -> Excess:
    """It was asked to end, and is killed if it still uses too much after `AGAIN` seconds."""
    return replace(excess, ends=now + AGAIN, asked=True)


# -- who uses how much ------------------------------------------------------------------------------------


def uses(
    book: Book,
    samples: Mapping[GpuKey, GpuSample],
    may_be_of: Mapping[UserName, Collection[int]],
) -> Iterator[Use]:
    """What those who have part of a sampled GPU use of it. A process counts only if it runs as a system user of
    `may_be_of`, so that nobody has another user's workload ended."""
    nodes = {node.name: node for node in book.nodes if node.isolation in WATCHED and node.gpu_memory is not None}
    for workload, attempt in _running(book):
        for gpu, given in _parts(workload, nodes).items():
            if gpu in samples:
                mine = [
                    process
                    for process in samples[gpu].processes
                    if process.uid in may_be_of.get(workload.user, ())
                    and owner_of(process, gpu, book, picks=False) is workload
                ]
                yield Use((workload.id, attempt, gpu), given, tuple(mine))


def _running(book: Book) -> Iterator[tuple[Job | Session, int]]:
    for job in book.holding.values():
        yield job, len(job.attempts)
    for session in book.sessions.values():
        yield session, 0


def _parts(workload: Job | Session, nodes: Mapping[NodeName, Node]) -> Mapping[GpuKey, MiB]:
    """The memory that a workload was given of each GPU of which it has part."""
    found: dict[GpuKey, MiB] = {}
    for worker in workload.placement:
        node = nodes.get(worker.node)
        if node is not None and node.gpu_memory is not None and worker.share < ONE:
            for gpu in worker.gpus:
                key = GpuKey((worker.node, gpu))
                found[key] = found.get(key, 0) + node.part_memory(worker.share)
    return found
