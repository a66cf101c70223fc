"""Any events in any order: no job is lost, none runs twice, no GPU is allocated twice.

Hypothesis submits, cancels, pauses and resumes jobs, opens and closes sessions, ends workers with and without success,
reclaims GPUs, has jobs grow, shrink and move, fills the disk, removes a node, and kills the scheduler at any instant,
also with unwritten changes.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    rule,
)

from scheduler.controller import statewriter
from scheduler.errors import Conflict, RunaiError, Unavailable
from scheduler.model import (
    ONE,
    Job,
    JobId,
    JobState,
    Node,
    NodeName,
    Pool,
    ProjectName,
    ProjectUsage,
    Session,
    Settings,
    WorkerPlacement,
    Workload,
    WorkloadId,
    held_by,
)
from scheduler.policy import Action, Decision, Plan, Snapshot
from scheduler.store import Store
from tests.controller.stage import DISK, NODES, Bench, World, begin, first_come, make_job, make_session

T = TypeVar("T")

SPARE = replace(NODES[1], name=NodeName("n2"), gpus=2)


def sized(workload: Workload, workers: int, snapshot: Snapshot, plan: Plan) -> tuple[WorkerPlacement, ...] | None:
    """Places for this many workers: its own ones first, then free ones; the same number moves the job."""
    one = workload.placement[0]
    taken = {
        (worker.node, gpu)
        for other in snapshot.workloads
        for worker in (*other.placement, *other.nomination, *plan.decisions[other.id].placement)
        for gpu in worker.gpus
    }
    free = [
        WorkerPlacement(node.name, tuple(range(first, first + len(one.gpus))), one.share)
        for node in snapshot.nodes
        if node.node_pool == "train"
        for first in range(0, node.gpus, len(one.gpus))
        if all((node.name, gpu) not in taken for gpu in range(first, first + len(one.gpus)))
        and first + len(one.gpus) <= node.gpus
    ]
    if workers == len(workload.placement):
        return tuple(free[:workers]) if len(free) >= workers else None
    found = (*workload.placement[:workers], *free[: max(0, workers - len(workload.placement))])
    return found if len(found) == workers else None


class Watched(World):
    """An engine that fails immediately if two workers get the same GPU, or an attempt is started twice."""

    def check(self) -> None:
        assert len(set(self.launches)) == len(self.launches), "an attempt was launched twice"
        running = self.running()
        assert len({job for job, _ in running}) == len(running), "a job runs in two attempts"
        taken: Counter[tuple[str, int]] = Counter()
        for attempt in running:
            for worker in self.placements[attempt].workers:
                for gpu in worker.gpus:
                    taken[worker.node, gpu] += worker.share
        assert all(share <= ONE for share in taken.values()), taken


class Lives(RuleBasedStateMachine):
    jobs: Bundle[Job] = Bundle("jobs")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.impatience = patch.object(statewriter, "PAUSE", 0.01)
        self.impatience.start()
        self.folder = Path(tempfile.mkdtemp(prefix="runai-lives-"))
        self.world = Watched()
        self.victims: set[WorkloadId] = set()
        self.changing: dict[WorkloadId, int] = {}
        self.acknowledged: dict[JobId, Job] = {}
        self.cancelled: set[str] = set()
        self.leased: dict[str, Session] = {}
        self.nodes: tuple[Node, ...] = (*NODES, SPARE)
        self.planned: dict[WorkloadId, Workload] = {}
        self.misled: list[Snapshot] = []
        self.bench: Bench = self.run(begin(self.folder, self.world, *self.nodes, decide=self.decide))
        self.run(self.bench.controller.apply(Pool(settings=Settings(usage_half_life=1))))

    def run(self, coroutine: Any) -> Any:
        return self.runner.run(coroutine)

    def insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask again, as one does who was told that nothing was changed."""

        async def asking() -> T:
            async with asyncio.timeout(30):
                while True:
                    try:
                        return await ask()
                    except Unavailable as refusal:
                        if "could not" not in refusal.sentence:
                            raise
                        await asyncio.sleep(0.01)

        answer: T = self.run(asking())
        return answer

    def decide(self, snapshot: Snapshot) -> Plan:
        """First come, first served; and now and then somebody has to go."""
        self.follow(snapshot)
        plan = first_come(snapshot)
        stops = {
            workload.id: Decision(Action.STOP, "Its GPUs are needed.")
            for workload in snapshot.workloads
            if workload.id in self.victims and workload.running and not workload.stopping
        }
        self.victims -= stops.keys()
        running = {w.id: w for w in snapshot.workloads if w.running and not w.stopping}
        changes: dict[WorkloadId, Decision] = {}
        for id in (self.changing.keys() & running.keys()) - stops.keys():
            placement = sized(running[id], self.changing.pop(id), snapshot, plan)
            if placement is not None:
                action = Action.GROW if len(placement) > len(running[id].placement) else Action.SHRINK
                action = Action.MOVE if len(placement) == len(running[id].placement) else action
                changes[id] = Decision(action, "GPUs are needed elsewhere.", placement)
        decisions = {**plan.decisions, **stops, **changes}
        return Plan(decisions, {}, changes=decisions)

    def follow(self, snapshot: Snapshot) -> None:
        """As a planner does that only looks at what it is told has changed."""
        there = {workload.id: workload for workload in snapshot.workloads}
        if snapshot.changed is not None:
            known = {**self.planned, **snapshot.changed}
            if {id: workload for id, workload in known.items() if workload is not None} != there:
                self.misled.append(snapshot)
        self.planned = there

    def try_to(self, verb: Callable[[JobId], Awaitable[Job]], job: Job) -> bool:
        try:
            self.insist(lambda: verb(job.id))
        except Conflict:
            return False
        return True

    # -- what happens -------------------------------------------------------------------------------------

    @rule(
        target=jobs,
        gpus=st.sampled_from([0.5, 1, 2, 4]),
        workers=st.sampled_from([1, 1, 2]),
        retries=st.integers(0, 1),
        key=st.sampled_from([None, None, "a", "b"]),
    )
    def submit(self, gpus: float, workers: int, retries: int, key: str | None) -> Job:
        job = make_job(gpus=gpus, workers=1 if gpus == 4 else workers, retries=retries, idempotency_key=key)
        got = self.insist(lambda: self.bench.controller.submit(job))
        if key is not None and got.id != job.id:
            assert got.id in self.acknowledged
        self.acknowledged[got.id] = got
        return got

    @rule(count=st.integers(1, 5))
    def submit_and_pull_the_plug(self, count: int) -> None:
        """What was not acknowledged may be there or not, but not by half."""

        async def both() -> None:
            asked = [asyncio.ensure_future(self.bench.controller.submit(make_job())) for _ in range(count)]
            await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            told = [task.result() for task in asked if task.done() and not task.exception()]
            self.acknowledged.update({job.id: job for job in told})
            await self.bench.crash()
            for task in asked:
                with suppress(RunaiError):
                    job = await task
                    self.acknowledged[job.id] = job

        self.run(both())
        self.restart()

    @rule()
    def pull_the_plug(self) -> None:
        self.run(self.bench.crash())
        self.restart()

    def restart(self) -> None:
        self.run(self.usage_is_that_of_the_attempts())
        self.bench = self.run(begin(self.folder, self.world, *self.nodes, decide=self.decide))

    @rule()
    def the_disk_is_full(self) -> None:
        """For a moment; whatever is on its way there is refused."""
        DISK.full = True

    @rule()
    def a_node_goes(self) -> None:
        """And its workers with it."""
        self.nodes = NODES
        self.world.gone = frozenset({SPARE.name})

        async def go() -> None:
            for attempt in self.world.running():
                for rank, worker in enumerate(self.world.placements[attempt].workers):
                    if worker.node == SPARE.name:
                        self.bench.engine.end(*attempt, rank, None)
            self.bench.machines.become(*self.nodes)

        self.run(go())

    @rule()
    def a_node_comes(self) -> None:
        self.nodes = (*NODES, SPARE)
        self.world.gone = frozenset()
        self.bench.machines.become(*self.nodes)

    @rule(user=st.sampled_from(["ana", "bo", "cy"]), gpus=st.sampled_from([0.5, 1]))
    def open_session(self, user: str, gpus: float) -> None:
        try:
            session = self.insist(lambda: self.bench.controller.open_session(make_session(user, gpus=gpus)))
        except Unavailable:
            assert len(self.leased) >= 2
        else:
            assert self.leased.setdefault(user, session).id == session.id

    @rule(user=st.sampled_from(["ana", "bo", "cy"]))
    def close_session(self, user: str) -> None:
        if user in self.leased:
            session = self.leased.pop(user)
            self.insist(lambda: self.bench.controller.close_session(session.id))

    @rule(job=jobs)
    def cancel(self, job: Job) -> None:
        if self.try_to(self.bench.controller.cancel, job):
            self.cancelled.add(job.id)

    @rule(job=jobs)
    def pause(self, job: Job) -> None:
        self.try_to(self.bench.controller.pause, job)

    @rule(job=jobs)
    def resume(self, job: Job) -> None:
        self.try_to(self.bench.controller.resume, job)

    @rule(job=jobs)
    def preemptor(self, job: Job) -> None:
        self.victims.add(job.id)
        self.bench.controller.refresh()

    @rule(job=jobs, workers=st.integers(1, 3))
    def resize_or_move(self, job: Job, workers: int) -> None:
        self.changing[job.id] = workers
        self.bench.controller.refresh()

    @rule(stubborn=st.booleans())
    def stops_take_long(self, stubborn: bool) -> None:
        self.bench.engine.stubborn = stubborn

    @rule(
        which=st.integers(0, 7),
        rank=st.integers(0, 2),
        code=st.sampled_from([0, 0, 0, 1, -9, None]),
    )
    def a_worker_ends(self, which: int, rank: int, code: int | None) -> None:
        running = sorted(self.world.running())

        async def end() -> None:
            attempt = running[which % len(running)]
            self.bench.engine.end(*attempt, rank % len(self.world.workers[attempt]), code)

        if running:
            self.run(end())

    @rule()
    def time_passes(self) -> None:
        self.run(self.bench.settled())

    # -- what holds ---------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_given_twice(self) -> None:
        self.world.check()
        taken: Counter[tuple[str, int]] = Counter()
        for workload in self.bench.controller.book.workloads.values():
            for worker in workload.placement:
                for gpu in worker.gpus:
                    taken[worker.node, gpu] += worker.share
        assert all(share <= ONE for share in taken.values()), taken

    @invariant()
    def a_plan_knows_all_that_has_changed(self) -> None:
        assert not self.misled

    @invariant()
    def a_lease_holds(self) -> None:
        assert {s.user: s for s in self.bench.controller.book.sessions.values()} == self.leased

    @invariant()
    def what_was_acknowledged_is_there(self) -> None:
        async def check() -> None:
            for job_id in self.acknowledged:
                job = await self.bench.controller.job(job_id)
                assert job is not None, f"{job_id} is lost"
                if job_id in self.cancelled:
                    assert job.state.final or job.wanted is JobState.CANCELLED

        self.run(check())

    def teardown(self) -> None:
        try:
            self.run(self.to_the_end())
        finally:
            self.run(self.bench.crash())
            self.runner.close()
            self.impatience.stop()
            shutil.rmtree(self.folder)

    async def usage_is_that_of_the_attempts(self) -> None:
        """On disk, at any instant: nothing that a project has held is forgotten, and nothing counts twice."""
        DISK.full = False
        store = Store(f"sqlite:///{self.folder}/runai.sqlite")
        store.open()
        jobs, loaded = await store.jobs(limit=100_000), store.load()
        store.close()
        now = time.time()
        attempts = [(job, attempt) for job in jobs for attempt in job.attempts]
        held = [(held_by(attempt.placement), attempt.created, attempt.ended or now) for _, attempt in attempts]
        expected = sum(gpus * (2 ** (ended - now) - 2 ** (begun - now)) for gpus, begun, ended in held)
        (used,) = loaded.usage or (ProjectUsage(ProjectName("default")),)
        assert used.held == sum(held_by(job.placement) for job in jobs)
        assert used.average_at(now, 1.0) == pytest.approx(expected, abs=1e-6)

    async def to_the_end(self) -> None:
        """When all goes well from now on, every job gets to its end, and it has run for what it says."""
        DISK.full = False
        self.bench.engine.stubborn = False
        self.victims.clear()
        self.changing.clear()
        await self.bench.settled()
        for job_id, job in list(self.bench.controller.book.jobs.items()):
            if job.state is JobState.PAUSED or job.wanted is JobState.PAUSED:
                await self.bench.controller.resume(JobId(job_id))
            if job.state is JobState.STOPPING:
                await self.bench.engine.stop(job_id, len(job.attempts), 0)
        async with asyncio.timeout(60):
            while self.bench.controller.book.jobs:
                await self.bench.settled()
                for attempt in self.world.running():
                    for rank in self.world.workers[attempt]:
                        self.bench.engine.end(*attempt, rank, 0)
                self.world.check()
        for job_id in self.acknowledged:
            done = await self.bench.controller.job(job_id)
            assert done is not None
            assert done.state.final
            assert [attempt.number for attempt in done.attempts] == list(range(1, len(done.attempts) + 1))
            if done.state is JobState.SUCCEEDED:
                assert set(done.attempts[-1].exit_codes) == {0}
            if job_id in self.cancelled:
                assert done.state in (JobState.CANCELLED, JobState.SUCCEEDED)
        events = await self.bench.store.events(0, limit=100_000)
        first = self.bench.store.load().before_events + 1
        assert [event.id for event in events] == list(range(first, first + len(events)))


TestLives = Lives.TestCase
TestLives.settings = settings(
    max_examples=15,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
