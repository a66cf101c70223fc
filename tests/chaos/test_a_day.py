"""A day of a busy pool in minutes, by a clock of the test's: what the service keeps in memory and in its store is
bounded, and nothing that has ended is left in it.

`RUNAI_DAYS=1` (`make soak DAYS=1`) takes so many days, `RUNAI_CHAOS=1` a quarter of one, else it is half an
hour; `RUNAI_SEED` repeats the choices of a run.
"""

from __future__ import annotations

import gc
import os
import random
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import psutil

from scheduler.api.recent import KEPT
from scheduler.model import JobId, Node, NodeName
from scheduler.store import EventRecord, JobFilter
from tests.chaos.campaign import LONG, seed, tell
from tests.live.conftest import Live, Open, open_pool

__all__ = ["open_pool"]

DAYS = float(os.environ.get("RUNAI_DAYS", 0))
HOURS = 24 * DAYS or (6.0 if LONG else 0.5)
PARTS = 10
"""So many times in between everything is ended and counted: the later half of it must not grow."""

SAMPLES = 3
"""So many times in each part the memory is looked at."""

FLAT = 0.5
"""MiB an hour that the memory may seem to grow in the later half of a day or more."""

STEP = 20.0
"""Virtual seconds between two looks at everything."""

KEEP = HOURS / 12
"""Hours after which what has ended is deleted; it is looked for four times as often."""

GPUS = 16
MIB = 2**20
PROJECTS = {"a": 4, "b": 8}
"""Guarantees. One of the two after the other is busy, so that GPUs are borrowed and taken back."""

Held = Counter[str]


@dataclass
class Day:
    live: Live
    chance: random.Random
    ahead: float = 0.0
    """Virtual seconds since the start."""
    done: Counter[str] = field(default_factory=Counter)
    ends: dict[str, float] = field(default_factory=dict)
    """How long the jobs run that have not ended, in seconds."""
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
        """As many as take nine tenths of the pool, most of them in the project whose turn it is."""
        busy = "ab"[int(self.ahead // 600) % 2]
        for _ in range(2):
            project = busy if self.chance.random() < 0.85 else "ab".replace(busy, "")
            job = await self.live.submit(project=project, gpus=self.chance.choice((0.5, 1, 1, 2)))
            self.ends[job] = self.chance.uniform(20, 240)
            self.done["submitted"] += 1

    async def _change_one(self) -> None:
        """A job that waits or runs is cancelled, or paused and resumed, one in five times."""
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
        """The scripted engine keeps nothing of attempts that are over either; a job's second attempt was preempted."""
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
        """How many objects of each class of the scheduler's there are once no job is left."""
        controller = self.live.service.controller
        for job in list(controller.book.jobs):
            await controller.cancel(JobId(job))
        await self.live.bench.settled()
        self._forget()
        assert not controller.book.jobs
        assert not controller.book.workloads
        gc.collect()
        return Counter(
            f"{type(each).__module__}.{type(each).__qualname__}"
            for each in gc.get_objects()
            if str(type(each).__module__).startswith("scheduler.")
        )


async def test_a_day_leaves_nothing_behind(open_pool: Open) -> None:
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
    for _ in range(PARTS):
        for _ in range(SAMPLES):
            await day.live_through(HOURS * 3600 / PARTS / SAMPLES)
            memory.append((day.ahead / 3600, psutil.Process().memory_info().rss / MIB))
        held.append(await day.held())
        submitted.append(day.done["submitted"])
        print(f"{day.ahead / 3600:5.2f} h  {memory[-1][1]:6.1f} MiB  {held[-1].total():6} objects", flush=True)
    for figure in ("submitted", "attempts", "cancel", "pause"):
        tell(figure, day.done[figure])
    slope = statistics.linear_regression(*zip(*memory[len(memory) // 2 :], strict=True)).slope
    tell("virtual hours", HOURS)
    tell("memory at the end, MiB", round(memory[-1][1], 1))
    tell("its growth in the later half, MiB a virtual hour", round(slope, 3))

    events = f"{EventRecord.__module__}.{EventRecord.__qualname__}"
    assert all(counted.pop(events, 0) <= 2 * KEPT + PARTS for counted in held)
    earlier, later = held[PARTS // 2 : -2], held[-2:]
    grown = {name: least(later, name) - least(earlier, name) for name in held[-1]}
    jobs = submitted[-1] - submitted[PARTS // 2 - 1]
    assert all(more < jobs / 4 for more in grown.values()), {name: more for name, more in grown.items() if more > 9}
    if DAYS >= 1:
        assert slope < FLAT
    ended = [job.ended for job in await live.service.controller.jobs(JobFilter(), limit=10**6)]
    assert None not in ended
    assert min(at for at in ended if at) > day.now() - 1.5 * KEEP * 3600


def least(counts: list[Held], name: str) -> int:
    """How many there are always: some are kept for a while."""
    return min(counted[name] for counted in counts)
