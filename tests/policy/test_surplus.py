"""With `surplus: served`, what no guarantee covers goes to the jobs that were served least, of whichever project."""

from __future__ import annotations

from scheduler.model import (
    JobId,
    Node,
    NodeName,
    Pool,
    Project,
    ProjectName,
    Request,
    Settings,
    SurplusOrder,
    WorkerPlacement,
    Workload,
)
from scheduler.policy import Action, Plan, Planner, Snapshot, decide
from tests.policy.pools import NOW

HOUR = 3600.0


def long(name: str, gpu: int, hours: float = 10.0, saved: float | None = 60.0) -> Workload:
    """A job that runs on one GPU for so long and has saved its state so many seconds ago."""
    return Workload(
        JobId(f"{name}{gpu}"),
        Request(ProjectName(name)),
        NOW - hours * HOUR,
        running=True,
        started=NOW - hours * HOUR,
        checkpointed=None if saved is None else NOW - saved,
        placement=(WorkerPlacement(NodeName("n"), (gpu,)),),
    )


def short(name: str, count: int) -> list[Workload]:
    return [Workload(JobId(f"{name}-new{number}"), Request(ProjectName(name)), NOW) for number in range(count)]


def pool(*workloads: Workload, surplus: SurplusOrder = SurplusOrder.SERVED, guaranteed: int = 0) -> Snapshot:
    """Four GPUs for the projects a and b, of which `guaranteed` (thousandths) are guaranteed to a."""
    projects = (Project(ProjectName("a"), guaranteed=guaranteed), Project(ProjectName("b")))
    settings = Settings(surplus=surplus)
    return Snapshot(NOW, Pool(projects=projects, settings=settings), (Node(NodeName("n"), 4),), workloads)


def stopped(plan: Plan) -> set[str]:
    return {id for id, decision in plan.changes.items() if decision.action is Action.STOP}


def started(plan: Plan) -> set[str]:
    return {id for id, decision in plan.changes.items() if decision.action is Action.START}


LONG = (long("a", 0), long("a", 1), long("b", 2), long("b", 3))


def test_new_jobs_of_one_project_come_before_long_jobs_of_another() -> None:
    """Both projects have their part by weight. Service decides otherwise: two of b's jobs are new."""
    workloads = (*LONG, *short("b", 2))
    assert not decide(pool(*workloads, surplus=SurplusOrder.WEIGHT)).changes
    plan = decide(pool(*workloads))
    assert len(stopped(plan)) == len(started(plan)) == 1
    assert stopped(plan) < {"a0", "a1"}, "b has two GPUs for its new jobs, and of the rest each has one"
    assert plan.projects[ProjectName("b")].fair_share == 3000


def test_a_guarantee_covers_long_jobs_too() -> None:
    assert not decide(pool(*LONG, *short("b", 2), guaranteed=2000)).changes


def test_a_job_that_never_saved_its_state_counts_as_new() -> None:
    unsaved = [long("a", 0, saved=None), long("a", 1, saved=None), *LONG[2:]]
    assert not stopped(decide(pool(*unsaved, *short("b", 2)))) & {"a0", "a1"}


def test_jobs_on_the_highest_level_are_stopped_first() -> None:
    """The project with a guarantee takes back one GPU: from the job that was served most, not from the youngest."""
    workloads = [long("b", 0, hours=0.5), long("b", 1, hours=70), long("b", 2, hours=10), long("b", 3, hours=1)]
    snapshot = pool(*workloads, *short("a", 1), guaranteed=1000)
    assert stopped(decide(snapshot)) == {"b1"}
    order = decide(pool(*workloads)).stop_order.positions
    assert [id for id, _ in sorted(order.items(), key=lambda entry: entry[1])][:2] == ["b1", "b2"]


def test_a_job_that_would_lose_more_than_it_was_served_is_not_preferred() -> None:
    workloads = [long("b", 0, hours=10, saved=9.99 * HOUR), *(long("b", gpu, hours=0.5) for gpu in (1, 2, 3))]
    assert not stopped(decide(pool(*workloads, *short("a", 1), guaranteed=1000))) & {"b0"}


def test_the_scheduler_wakes_up_when_a_job_reaches_the_next_level() -> None:
    """An hour before, a's jobs count as those of b; then b's new jobs come first."""
    workloads = (*(long("a", gpu, hours=7) for gpu in (0, 1)), *(long("b", gpu, hours=7) for gpu in (2, 3)))
    snapshot = pool(*workloads, *short("b", 2))
    planner = Planner(snapshot.pool, snapshot.nodes, snapshot.workloads)
    plan = planner.plan(NOW)
    assert not plan.changes
    assert plan.again_at == NOW + HOUR
    assert stopped(planner.plan(plan.again_at)) < {"a0", "a1"}
