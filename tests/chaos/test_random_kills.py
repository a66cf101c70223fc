"""Processes are killed at random while users submit, cancel and pause jobs: no job is lost, none runs twice, no GPU is
allocated twice and no process is left running. The checks use what the jobs themselves record (`history`).

`RUNAI_CHAOS=1` takes longer and also kills a hub and its proxy; `RUNAI_SEED` repeats a run.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import random
import signal
import subprocess
import time
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import pytest
import sqlalchemy

from hub_spawner.ports import any_free
from scheduler.client import AsyncClient
from scheduler.controller.retries import LOSSES
from scheduler.discovery.statefolder import StateFolder
from scheduler.errors import Conflict, RunaiError
from scheduler.model import Ending, JobState
from scheduler.schema import JobSubmit, JobView, SessionOpen
from tests.app.conftest import Service, end_all, until
from tests.chaos.campaign import LONG, seed, tell
from tests.chaos.history import HistoryRecorder
from tests.engines.workplace import processes, supervisors
from tests.hub.running import TOKEN, Hub
from tests.kubernetes.forwarding import Address, forwarded
from tests.store.conftest import postgresql_server, postgresql_url

__all__ = ["postgresql_server", "postgresql_url"]

CLIENTS = 4
PATIENCE = 120.0
SESSION_OF = "ann"
"""The user whose session is always open."""

T = TypeVar("T")


class Target(ABC):
    """A deployment of the scheduler, and its processes to kill. `kinds` gives the weight of each kind."""

    kinds: dict[str, int]
    state_dir: Path
    kills = 150 if LONG else 8

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def client(self) -> AsyncClient: ...

    @abstractmethod
    def clean(self) -> None: ...

    @abstractmethod
    def kill(self, kind: str, chance: random.Random) -> bool:
        """Kill a process of this kind, and restart it where nothing else does; false where there is none."""

    @abstractmethod
    def revive(self) -> None:
        """Restart ended processes, as systemd does."""


def kill_one(pids: list[int], chance: random.Random) -> bool:
    if pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(chance.choice(pids), signal.SIGKILL)
            return True
    return False


class Alone(Target):
    """A scheduler without a hub."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.kinds = {"scheduler": 3, "launcher": 1, "supervisor": 3}
        self.service = Service(folder, "--auth=token", "--declared-gpus=8", *options)
        self.state_dir = self.service.folder.path
        self.folder = folder

    def start(self) -> None:
        self.service.start()

    def client(self) -> AsyncClient:
        endpoint, token = self.service.folder.endpoint(), self.service.folder.read_token()
        assert endpoint is not None
        assert token is not None
        return AsyncClient(endpoint.url, token)

    def clean(self) -> None:
        end_all(self.folder)
        if self.service.process is not None:
            self.service.process.wait()

    def kill(self, kind: str, chance: random.Random) -> bool:
        assert self.service.process is not None
        if kind == "scheduler":
            self.service.kill()
            if chance.random() < 0.3:  # kill it again while it starts
                self.service.process = self.service.spawn()
                time.sleep(chance.uniform(0, 1.5))
                self.service.kill()
            self.service.start()
            return True
        return kill_worker(kind, self.state_dir, self.service.process.pid, chance)

    def revive(self) -> None:
        """A scheduler exits if it does not know whether a change is durable."""
        assert self.service.process is not None
        if self.service.process.poll() is not None:
            self.service.start()


class OnPostgreSQL(Alone):
    """A scheduler with a database server, which closes the scheduler's connections."""

    def __init__(self, folder: Path, db_url: str) -> None:
        super().__init__(folder, f"--db-url={db_url}")
        self.kinds["connections"] = 3
        self.db_url = db_url

    def kill(self, kind: str, chance: random.Random) -> bool:
        return bool(self._end_connections()) if kind == "connections" else super().kill(kind, chance)

    def _end_connections(self) -> list[object]:
        engine = sqlalchemy.create_engine(self.db_url, isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                ended = connection.exec_driver_sql(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
                return list(ended.scalars())
        finally:
            engine.dispose()


class WithAStandby(Alone):
    """Two schedulers, one of them the leader. Connections go to the leader, as with a Kubernetes Service."""

    def __init__(self, folder: Path, db_url: str) -> None:
        super().__init__(folder, f"--db-url={db_url}", "--RunaiService.standby=True")
        self.kinds = {"leader": 5, "standby": 2, "launcher": 1, "supervisor": 2}
        self.port = any_free()
        self._ends = contextlib.ExitStack()

    def start(self) -> None:
        self._ends.enter_context(forwarded("127.0.0.1", self.port, self._leader))
        self.revive()
        until(self._leader)

    def client(self) -> AsyncClient:
        token = self.service.folder.read_token()
        assert token is not None
        return AsyncClient(f"http://127.0.0.1:{self.port}/", token)

    def clean(self) -> None:
        end_all(self.folder)
        for process in self.service.spawned:
            process.wait()
        self._ends.close()

    def kill(self, kind: str, chance: random.Random) -> bool:
        leader = self.service.folder.holder()
        if kind == "leader":
            killed = kill_one([leader] if leader else [], chance)
            if killed and chance.random() < 0.7:  # else the next one may be killed while it takes over
                self.revive()
                until(lambda: (found := self.service.folder.endpoint()) is not None and found.pid != leader)
            return killed
        if kind == "standby":
            return kill_one([process.pid for process in self._alive() if process.pid != leader], chance)
        return kill_worker(kind, self.state_dir, leader, chance)

    def revive(self) -> None:
        while len(self._alive()) < 2:
            self.service.spawn()

    def _alive(self) -> list[subprocess.Popen[bytes]]:
        return [process for process in self.service.spawned if process.poll() is None]

    def _leader(self) -> Address | None:
        endpoint = self.service.folder.endpoint()
        return None if endpoint is None else ("127.0.0.1", urlsplit(endpoint.url).port or 0)


def kill_worker(kind: str, state_dir: Path, scheduler: int | None, chance: random.Random) -> bool:
    """Kill the launcher, which is the scheduler's child, or a supervisor: the launcher's child, or an orphan. A
    supervisor's own child is a worker that has not begun, and would fail as a killed worker does."""
    parents = {each.pid: each.parent for each in supervisors(state_dir)}
    launchers = [pid for pid, parent in parents.items() if parent == scheduler]
    found = [pid for pid, parent in parents.items() if parent not in parents or parent in launchers]
    found = launchers if kind == "launcher" else [pid for pid in found if pid not in launchers]
    return kill_one(found, chance)


class BehindAHub(Target):
    """A hub with its proxy, which starts and restarts the scheduler. A start takes seconds."""

    kills = 40

    def __init__(self, folder: Path) -> None:
        self.kinds = {"hub": 1, "proxy": 2, "scheduler": 3, "launcher": 1, "supervisor": 3}
        self.hub = Hub(folder, gpus=8)
        self.state_dir = folder / "pool"

    def start(self) -> None:
        self.hub.start()

    def client(self) -> AsyncClient:
        return AsyncClient(f"{self.hub.url}/services/runai", TOKEN)

    def clean(self) -> None:
        self.hub.clean()

    def kill(self, kind: str, chance: random.Random) -> bool:
        holder = StateFolder(self.state_dir).holder()
        if kind == "hub":
            self.hub.kill()
            self.hub.start()
            return True
        if kind == "proxy":
            return kill_one([int((self.hub.folder / "jupyterhub-proxy.pid").read_text())], chance)
        if kind == "scheduler":
            return kill_one([holder] if holder else [], chance)
        return kill_worker(kind, self.state_dir, holder, chance)

    def revive(self) -> None:
        """The hub restarts it."""


@dataclass
class Campaign:
    """Users, and the responses that they got."""

    target: Target
    recorder: HistoryRecorder
    chance: random.Random
    jobs: dict[str, JobSubmit] = field(default_factory=dict)
    cancelled: dict[str, float] = field(default_factory=dict)
    """The jobs with a cancel request, and the number of their attempts then; infinite where they had ended."""
    succeeded: dict[str, int] = field(default_factory=dict)
    """The jobs that succeeded, with the number of their attempts."""
    given_up: set[str] = field(default_factory=set)
    """The jobs that are not retried, since their supervisors were killed too often."""
    kills: Counter[str] = field(default_factory=Counter)
    over: bool = False

    async def run(self) -> None:
        async with self.target.client() as client:
            session = await insist(partial(client.open_session, SessionOpen(user=SESSION_OF)))
            people = [asyncio.create_task(self.work(client)) for _ in range(CLIENTS)]
            killing = asyncio.create_task(self.kill_things())
            await asyncio.wait([killing, *people], return_when=asyncio.FIRST_COMPLETED)
            self.over = True
            await asyncio.gather(killing, *people)
            await asyncio.to_thread(self.target.revive)
            for job in self.jobs:
                self.note(await insist(partial(client.wait, job, PATIENCE)))
            assert session.id in {each.id for each in await insist(client.sessions)}

    async def kill_things(self) -> None:
        while self.kills.total() < self.target.kills:
            await asyncio.sleep(self.chance.uniform(0, 0.5))
            (kind,) = self.chance.choices(*zip(*self.target.kinds.items(), strict=True))
            await asyncio.to_thread(self.target.revive)
            self.kills[kind] += await asyncio.to_thread(self.target.kill, kind, self.chance)

    # -- users --------------------------------------------------------------------------------------------

    async def work(self, client: AsyncClient) -> None:
        """Submit jobs; cancel some, pause some, wait for some."""
        ours: list[str] = []
        while not self.over:
            workers = self.chance.choice((1, 1, 1, 2))
            command = self.recorder.command(self.chance.choice((0, 1, 5, 20)))
            sent = JobSubmit(command=command, gpus=self.chance.choice((1, 1, 2)), workers=workers)
            key = str(uuid.UUID(int=self.chance.getrandbits(128)))
            job = await insist(partial(client.submit, sent, idempotency_key=key))
            self.jobs[job.id] = sent
            ours.append(job.id)
            what = self.chance.random()
            if what < 0.1:
                await self.cancel(client, self.chance.choice(ours))
            elif what < 0.2:
                await self.pause(client, self.chance.choice(ours))
            elif what < 0.6:
                self.note(await insist(partial(client.wait, self.chance.choice(ours), PATIENCE)))

    async def cancel(self, client: AsyncClient, job: str) -> None:
        self.cancelled.setdefault(job, math.inf)
        with contextlib.suppress(Conflict):  # it has ended
            self.cancelled[job] = len((await insist(partial(client.cancel, job))).attempts)

    async def pause(self, client: AsyncClient, job: str) -> None:
        with contextlib.suppress(Conflict):  # it has ended
            await insist(partial(client.pause, job))
            await insist(partial(client.resume, job))

    def note(self, job: JobView) -> None:
        if job.state is JobState.SUCCEEDED:
            assert self.succeeded.setdefault(job.id, len(job.attempts)) == len(job.attempts), f"{job.id} has run again"
            self.check_whole(job)
        elif job.state is JobState.FAILED:
            assert [attempt.ending for attempt in job.attempts[-LOSSES:]] == [Ending.LOST] * LOSSES, job
            self.given_up.add(job.id)
        else:
            assert job.state is JobState.CANCELLED, f"{job.id}: {job.state} {job.reason} {job.attempts}"
            assert job.id in self.cancelled, f"{job.id} was cancelled by nobody"

    def check_whole(self, job: JobView) -> None:
        """Each job that is reported as succeeded has: all its workers finished in the last attempt."""
        ends = self.recorder.of(job.id).ends
        last = len(job.attempts)
        assert all(ends[last, rank] == 1 for rank in range(self.jobs[job.id].workers or 1)), (job, ends)

    # -- invariants ---------------------------------------------------------------------------------------

    def check(self) -> None:
        found = {job: self.recorder.of(job) for job in self.jobs}
        twice = [job for job, told in found.items() if any(times > 1 for times in told.begins.values())]
        after = [job for job, most in self.cancelled.items() if found[job].attempts > most]
        lost = self.jobs.keys() - self.succeeded.keys() - self.cancelled.keys() - self.given_up
        with contextlib.suppress(AssertionError):
            until(lambda: not processes(self.target.state_dir))
        orphans = processes(self.target.state_dir)
        figures = {
            "kills": self.kills.total(),
            **{f"kills: {kind}": count for kind, count in sorted(self.kills.items())},
            "jobs": len(self.jobs),
            "attempts": sum(told.attempts for told in found.values()),
            f"given up after {LOSSES} kills of their supervisors": len(self.given_up),
            "lost": len(lost),
            "twice": len(twice) + len(after) + len(self.recorder.taken()),
            "orphans": len(orphans),
        }
        for figure, value in figures.items():
            tell(f"random kills, {type(self.target).__name__}: {figure}", value)
        assert self.recorder.taken() == []
        assert not twice
        assert not after
        assert not lost
        assert not orphans


async def insist(ask: Callable[[], Awaitable[T]]) -> T:
    """Repeat the request until it is answered. Errors that are expected during a restart do not count."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await ask()
            except Conflict:
                raise
            except RunaiError:
                await asyncio.sleep(0.05)


def campaign(target: Target, folder: Path) -> None:
    found = Campaign(target, HistoryRecorder(folder / "marks"), random.Random(seed()))
    try:
        target.start()
        asyncio.run(found.run())
        found.check()
    finally:
        target.clean()


def test_kills_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    campaign(Alone(tmp_path), tmp_path)


def test_nor_with_postgresql_whose_connections_are_cut(tmp_path: Path, postgresql_url: str) -> None:
    campaign(OnPostgreSQL(tmp_path, postgresql_url), tmp_path)


def test_nor_with_a_standby_that_takes_over(tmp_path: Path, postgresql_url: str) -> None:
    campaign(WithAStandby(tmp_path, postgresql_url), tmp_path)


@pytest.mark.skipif(not LONG, reason="a hub is killed in `make chaos`")
def test_nor_behind_a_hub_that_is_killed_with_its_proxy(tmp_path: Path) -> None:
    campaign(BehindAHub(tmp_path), tmp_path)
