"""A simulated day of a busy pool, in minutes: the service's memory and store stay bounded, and keep nothing of jobs
that have ended.

It counts objects by class, Python's memory blocks and bytes allocated by the C library. The resident size is no measure
of a leak: allocators keep freed memory.

`RUNAI_DAYS` (`make soak DAYS=1`) sets the number of days; `RUNAI_CHAOS=1` takes a quarter of a day, the default is half
an hour. `RUNAI_SEED` repeats the choices of a run.
"""

from __future__ import annotations

import ctypes
import gc
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from statistics import linear_regression, median
from typing import Any

import psutil
import pytest

from scheduler.api import broadcast
from scheduler.api.recent import Recent
from scheduler.controller.feed import Feed
from scheduler.model import JobId, Node, NodeName
from scheduler.store import EventRecord, JobFilter
from tests.api.conftest import eventually
from tests.chaos.campaign import LONG, seed, tell
from tests.live.conftest import Live, Open, open_pool

__all__ = ["open_pool"]

DAYS = float(os.environ.get("RUNAI_DAYS", 0))
HOURS = 24 * DAYS or (6.0 if LONG else 0.5)
PARTS = 10
"""How often all jobs are ended and objects are counted: the later half of the counts must not grow."""

SAMPLES = 3
"""Memory samples in each part."""

SMALL = 256
"""Upper bound of the allocated bytes that remain for each job: threads keep some free ones. It holds for the median
part, since CPython's table of interned strings grows in large steps."""

STEP = 20.0
"""Virtual seconds between two samples."""

KEEP = HOURS / 12
"""Hours after which ended jobs are deleted; the sweep runs four times as often."""

LATEST = 10
"""The number of latest events kept in memory; it varies by up to a factor of two."""

EVENTS = 1000
"""Upper bound of the events in memory once all are delivered: the latest, and those of the last write."""

GPUS = 16
MIB = 2**20
PROJECTS = {"a": 4, "b": 8}
"""Guarantees. The two projects are busy in turn, so that GPUs are borrowed and reclaimed."""


@dataclass(frozen=True)
class Held:
    """The memory in use once no job is left.

    `objects`: the scheduler's own, by class; `blocks`: Python's; `malloced`: bytes allocated by glibc, 0 with other C
    libraries.
    """

    objects: Counter[type]
    blocks: int
    malloced: int

    def of(self, kind: type) -> int:
        return self.objects[kind]


class Malloc(ctypes.Structure):
    """`struct mallinfo2` of glibc 2.33."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def count_objects() -> Counter[type]:
    """The scheduler's objects, by class."""
    return Counter(type(each) for each in gc.get_objects() if str(type(each).__module__).startswith("scheduler."))


def malloced() -> int:
    """Bytes allocated by malloc, in arenas and in separate mappings."""
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return 0
    ask.restype = Malloc
    found = ask()
    return int(found.uordblks + found.hblkhd)


@dataclass
class Day:
    live: Live
    chance: random.Random
    ahead: float = 0.0
    """Virtual seconds since the start."""
    done: Counter[str] = field(default_factory=Counter)
    ends: dict[str, float] = field(default_factory=dict)
    """The run times of unfinished jobs, in seconds."""
    began: dict[tuple[str, int], float] = field(default_factory=dict)

    def now(self) -> float:
        return time.time() + self.ahead

    async def live_through(self, seconds: float) -> None:
        until, next_tidy = self.ahead + seconds, self.ahead
        while self.ahead < until:
            self.ahead += STEP
            await self._submit()
            await self._change_one()
            self._end_those_whose_time_is_over()
            await self.live.bench.settled()
            self._forget()
            if self.ahead >= next_tidy:
                await self.live.service.controller.tidy()
                next_tidy += KEEP * 3600 / 4

    async def _submit(self) -> None:
        """Enough jobs for nine tenths of the pool, most of them in the project whose turn it is."""
        busy = "ab"[int(self.ahead // 600) % 2]
        for _ in range(2):
            project = busy if self.chance.random() < 0.85 else "ab".replace(busy, "")
            job = await self.live.submit(project=project, gpus=self.chance.choice((0.5, 1, 1, 2)))
            self.ends[job] = self.chance.uniform(20, 240)
            self.done["submitted"] += 1

    async def _change_one(self) -> None:
        """One time in five, cancel a waiting or running job, or pause and resume it."""
        jobs = self.live.service.controller.book.jobs
        if jobs and self.chance.random() < 0.2:
            job = self.chance.choice(list(jobs))
            verbs = self.chance.choice((("cancel",), ("pause", "resume")))
            for verb in verbs:
                await self.live.service.http["owner"].post(f"jobs/{job}/{verb}")
                self.done[verb] += 1

    def _end_those_whose_time_is_over(self) -> None:
        for attempt in self.live.bench.engine.world.running():
            job, number = attempt
            began = self.began.setdefault(attempt, self.ahead)
            if self.ahead - began >= self.ends[job]:
                self.live.bench.engine.end(job, number, 0, 0, at=self.now())

    def _forget(self) -> None:
        """The scripted engine, too, keeps nothing of ended attempts; a job's second attempt was preempted."""
        world, unfinished = self.live.bench.engine.world, self.live.service.controller.book.jobs
        for attempt in [a for a, workers in world.workers.items() if all(w.state.over for w in workers.values())]:
            self.done["attempts"] += 1
            for known in (world.workers, world.placements, self.began):
                known.pop(attempt, None)
        for job in self.ends.keys() - unfinished.keys():
            del self.ends[job]
            world.saved.pop(job, None)
        world.launches.clear()
        self.live.bench.engine.stops.clear()

    async def held(self) -> Held:
        """After all jobs have ended and been deleted."""
        controller = self.live.service.controller
        for job in list(controller.book.jobs):
            await controller.cancel(JobId(job))
        await self.live.bench.settled()
        self._forget()
        await self._look_at_what_is_kept()
        self.ahead += 2 * KEEP * 3600
        await controller.tidy()
        assert not await controller.jobs(JobFilter())
        assert not controller.book.jobs
        assert not controller.book.workloads
        await eventually(lambda: count_objects()[EventRecord] < EVENTS)
        gc.collect()
        blocks, in_use = sys.getallocatedblocks(), malloced()
        return Held(count_objects(), blocks, in_use)

    async def _look_at_what_is_kept(self) -> None:
        """Ended jobs are not kept much longer than configured."""
        ended = [job.ended for job in await self.live.service.controller.jobs(JobFilter(), limit=10**6)]
        assert None not in ended
        assert min(at for at in ended if at) > self.now() - 1.5 * KEEP * 3600


async def test_a_day_leaves_nothing_behind(open_pool: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    for kept in (Recent, Feed):
        monkeypatch.setattr(kept.__init__, "__defaults__", (LATEST,))
    monkeypatch.setattr(broadcast, "MESSAGES", LATEST)
    days: list[Day] = []
    pool: dict[str, Any] = {
        "node_pools": [{"name": "train", "environment": "train"}],
        "projects": [{"name": name, "members": ["*"], "guaranteed": gpus} for name, gpus in PROJECTS.items()],
        "keep_days": KEEP / 24,
    }
    live = await open_pool(
        *(Node(NodeName(f"n{number}"), gpus=4) for number in range(GPUS // 4)),
        clock=lambda: days[0].now() if days else time.time(),
        **pool,
    )
    day = Day(live, random.Random(seed()))
    days.append(day)
    held: list[Held] = []
    submitted: list[int] = []
    memory: list[tuple[float, float]] = []
    for part in range(PARTS):
        for sample in range(1, SAMPLES + 1):
            await day.live_through(HOURS * 3600 / PARTS / SAMPLES)
            passed = HOURS * (part + sample / SAMPLES) / PARTS
            memory.append((passed, psutil.Process().memory_info().rss / MIB))
        held.append(await day.held())
        submitted.append(day.done["submitted"])
        print(
            f"{passed:5.2f} h  {memory[-1][1]:6.1f} MiB  {held[-1].objects.total():6} objects  "
            f"{held[-1].blocks:8} blocks  {held[-1].malloced} bytes",
            flush=True,
        )
    for figure in ("submitted", "attempts", "cancel", "pause"):
        tell(figure, day.done[figure])
    slope = linear_regression(*zip(*memory[len(memory) // 2 :], strict=True)).slope
    tell("virtual hours", HOURS)
    tell("memory at the end, MiB", round(memory[-1][1], 1))
    tell("its growth in the later half, MiB a virtual hour", round(slope, 3))

    earlier, later = held[PARTS // 2 : -2], held[-2:]
    jobs = submitted[-1] - submitted[PARTS // 2 - 1]

    def grown(count: Callable[[Held], int]) -> int:
        return min(map(count, later)) - min(map(count, earlier))

    more = {kind: grown(partial(Held.of, kind=kind)) for kind in held[-1].objects}
    blocks = grown(lambda one: one.blocks)
    steps = [after.malloced - before.malloced for before, after in pairwise(held[PARTS // 2 - 1 :])]
    tell("jobs in the later half", jobs)
    tell("blocks of memory that they left", blocks)
    tell(
        "bytes of the C library that each of them left, in the median part",
        round(each := median(steps) / jobs * len(steps)),
    )
    assert all(number < jobs / 4 for number in more.values()), more
    if HOURS >= 6:  # earlier, caches still fill
        assert blocks < jobs / 4
        assert each < SMALL
