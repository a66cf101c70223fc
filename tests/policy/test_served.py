"""The order `served`: the user who uses least is next, then the job that was served least; long jobs may be paused for
short ones, if that saves more than it costs; and no job starves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.model import (
    JobId,
    Node,
    NodeName,
    Pool,
    Project,
    ProjectName,
    QueueOrder,
    Request,
    Settings,
    Shape,
    UserName,
    WorkerPlacement,
    Workload,
)
from scheduler.policy import Action, Plan, Snapshot, SnapshotPlanner, decide
from scheduler.policy.levels import RESTART, ServiceLevels
from scheduler.policy.service import QUIET
from scheduler.simulation.play import Costs, Player
from scheduler.simulation.trace import Trace, TraceJob
from tests.policy.pools import NOW, Draw

many = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
HOUR = 3600.0
SERVED = Settings(order=QueueOrder.SERVED, service_levels=(1 / 6, 1.0, 8.0, 64.0))
LEVELS = ServiceLevels(SERVED)


@st.composite
def queues(draw: Draw, running: bool) -> Snapshot:
    """One project and some users; with `running`, all GPUs are in use, otherwise none."""
    gpus = draw(st.integers(1, 6))
    users = st.sampled_from(["ann", "ben", "eva"])
    served = st.sampled_from([0.0, 0.0, 1000.0, 2 * HOUR, 20 * HOUR])
    work = []
    for gpu in range(gpus if running else 0):
        started = NOW - draw(st.sampled_from([30.0, 700.0, HOUR, 9 * HOUR]))
        saved = draw(st.sampled_from([None, NOW - 10.0, NOW - 1800.0]))
        request = Request(
            ProjectName("p"),
            user=UserName(draw(users)),
            priority=draw(st.sampled_from([40, 50])),
            preemptible=draw(st.integers(0, 5)) > 0,
            min_runtime=draw(st.sampled_from([0.0, 0.0, HOUR])),
        )
        work.append(
            Workload(
                JobId(f"r{gpu}"),
                request,
                submitted=started,
                running=True,
                started=started,
                checkpointed=None if saved is None else max(saved, started),
                placement=(WorkerPlacement(NodeName("n"), (gpu,)),),
                served=draw(served),
                preemptions=draw(st.integers(0, 3)),
            )
        )
    for number in range(draw(st.integers(1, 10))):
        before = draw(served)
        submitted = NOW - draw(st.integers(0, 30_000))
        request = Request(
            ProjectName("p"),
            user=UserName(draw(users)),
            priority=draw(st.sampled_from([50, 50, 60])),
            shape=Shape(1000),
            workers=1,
        )
        work.append(
            Workload(
                JobId(f"w{number}"),
                request,
                submitted=submitted,
                served=before,
                preemptions=int(before > 0),
                preempted=submitted if before else None,
            )
        )
    return Snapshot(
        NOW, Pool(projects=(Project(ProjectName("p")),), settings=SERVED), (Node(NodeName("n"), gpus),), tuple(work)
    )


@many
@given(queues(running=False))
def test_the_next_job_is_the_one_that_an_exhaustive_search_finds(snapshot: Snapshot) -> None:
    assert started(decide(snapshot)) == set(next_ones(snapshot.workloads, snapshot.nodes[0].gpus))


def next_ones(workloads: Iterable[Workload], free: int) -> Iterable[str]:
    """The jobs that get free GPUs, in order."""
    waiting, held = list(workloads), Counter[str | None]()
    for _ in range(min(free, len(waiting))):
        chosen = min(
            waiting,
            key=lambda job: (-job.request.priority, held[job.request.user], level(job), job.submitted, job.id),
        )
        waiting.remove(chosen)
        held[chosen.request.user] += 1
        yield chosen.id


def level(job: Workload) -> int:
    """The service level: the number of thresholds passed, or the lowest after too long a wait."""
    patient = job.submitted + (1 + SERVED.patience) * job.served > NOW
    return sum(hours * HOUR <= job.served_until(NOW) for hours in SERVED.service_levels) if patient else 0


def started(plan: Plan) -> set[str]:
    return {id for id, decision in plan.changes.items() if decision.action is Action.START}


@many
@given(queues(running=True))
def test_a_paused_job_loses_less_time_than_the_pause_saves(snapshot: Snapshot) -> None:
    plan = decide(snapshot)
    by_id = {job.id: job for job in snapshot.workloads}
    stopped = {id: decision for id, decision in plan.changes.items() if decision.action is Action.STOP}
    new = [by_id[JobId(id)] for id in started(plan)]
    assert len(new) == len(stopped), "somebody is stopped for nobody"
    for id, decision in stopped.items():
        job = by_id[id]
        assert job.started is not None
        assert job.request.preemptible
        assert job.started + job.request.min_runtime <= NOW
        if not decision.reason.startswith("Paused for"):
            continue
        (newcomer,) = [other for other in new if other.id in decision.reason]
        assert newcomer.request.priority == job.request.priority
        assert level(newcomer) < LEVELS.when_running(job, NOW)[0]
        assert job.started + QUIET * job.preemptions <= NOW
        saved = job.started if job.checkpointed is None else job.checkpointed
        assert RESTART + NOW - saved < job.served_until(NOW), "more is lost than spared"


@many
@given(queues(running=True))
def test_no_job_waits_if_another_may_be_paused_for_it(snapshot: Snapshot) -> None:
    """No waiting job is on a lower level than one of its priority that keeps running and may be paused."""
    plan = decide(snapshot)
    waits = [job for job in snapshot.workloads if not job.running and plan.decisions[job.id].action is Action.WAIT]
    for job in snapshot.workloads:
        if not job.running or plan.decisions[job.id].action is not Action.KEEP or not job.request.preemptible:
            continue
        assert job.started is not None
        saved = job.started if job.checkpointed is None else job.checkpointed
        protected = max(job.request.min_runtime, QUIET * job.preemptions)
        if job.started + protected <= NOW and RESTART + NOW - saved < job.served_until(NOW):
            own = LEVELS.when_running(job, NOW)[0]
            assert not [w for w in waits if w.request.priority == job.request.priority and level(w) < own]


@many
@given(queues(running=True))
def test_no_job_is_paused_in_the_order_of_arrival(snapshot: Snapshot) -> None:
    plan = decide(replace(snapshot, pool=replace(snapshot.pool, settings=Settings(order=QueueOrder.ARRIVAL))))
    assert not [decision for decision in plan.changes.values() if decision.reason.startswith("Paused for")]


@pytest.mark.parametrize(
    ("own", "above", "of_all", "served"),
    [
        (None, None, "served", True),
        (None, None, "arrival", False),
        ("served", None, "arrival", True),
        (None, "served", "arrival", True),
        ("arrival", "served", "served", False),
    ],
)
def test_a_project_inherits_the_order_of_its_parent(
    own: str | None, above: str | None, of_all: str, served: bool
) -> None:
    """A job that was served waits behind a younger one that was not, if the order considers service."""
    projects = (
        Project(ProjectName("all"), order=QueueOrder(above) if above else None),
        Project(ProjectName("p"), parent=ProjectName("all"), order=QueueOrder(own) if own else None),
    )
    pool = Pool(projects=projects, settings=Settings(order=QueueOrder(of_all)))
    old = Workload(
        JobId("old"),
        Request(ProjectName("p")),
        submitted=NOW - 100,
        served=20 * HOUR,
        preempted=NOW - 100,
        preemptions=1,
    )
    new = Workload(JobId("new"), Request(ProjectName("p")), submitted=NOW)
    plan = decide(Snapshot(NOW, pool, (Node(NodeName("n"), 1),), (old, new)))
    assert started(plan) == ({"new"} if served else {"old"})


@many
@given(queues(running=False))
def test_a_place_in_line_does_not_depend_on_when_it_is_read(snapshot: Snapshot) -> None:
    """A plan that stays valid is read when it no longer counts what users hold of it."""
    assert dict(SnapshotPlanner()(snapshot).decisions) == dict(decide(snapshot).decisions)


def test_a_starting_job_is_not_paused() -> None:
    """It was placed after a long wait, and its workers have not begun."""
    starting = Workload(
        JobId("old"),
        Request(ProjectName("p")),
        submitted=0.0,
        running=True,
        placement=(WorkerPlacement(NodeName("n"), (0,)),),
        served=20 * HOUR,
        preemptions=1,
    )
    new = Workload(JobId("new"), Request(ProjectName("p")), submitted=NOW)
    pool = Pool(projects=(Project(ProjectName("p")),), settings=SERVED)
    plan = decide(Snapshot(NOW, pool, (Node(NodeName("n"), 1),), (starting, new)))
    assert plan.decisions[JobId("old")].action is Action.KEEP


def test_a_stream_of_short_jobs_does_not_starve_a_long_one() -> None:
    """One GPU, a job of ten hours, and for four days a job of 20 minutes every 20 minutes."""
    long = TraceJob(JobId("long"), 0.0, 10 * HOUR, 1000, ProjectName("p"))
    short = [TraceJob(JobId(f"s{n}"), 60.0 + n * 1200.0, 1200.0, 1000, ProjectName("p")) for n in range(288)]
    trace = Trace((long, *short), "")
    player = Player(
        trace,
        Pool(projects=(Project(ProjectName("p")),), settings=SERVED),
        [Node(NodeName("n"), 1)],
        Costs(),
        saves_known=True,
    )
    ends = {run.job.id: run for run in player.play()}
    assert ends[JobId("long")].stops < 30
    assert ends[JobId("long")].ended < (SERVED.patience + 2) * 10 * HOUR
