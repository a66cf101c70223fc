"""Reclaiming CPUs and memory, in pools of one node, compared with a slow and obvious reference."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.model import (
    Bounds,
    JobId,
    Node,
    NodeName,
    Pool,
    Project,
    ProjectName,
    Request,
    Shape,
    WorkerPlacement,
    Workload,
)
from scheduler.policy import Action, Snapshot, decide
from scheduler.policy.play import carry_out

many = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
GPUS, CPUS = 4, 16_000
NOTHING = Bounds()
NODE = Node(NodeName("n0"), GPUS, cpus=CPUS, memory=65_536)


def project(name: str, parent: str | None = None, guaranteed: int = 0, cpus: Bounds = NOTHING) -> Project:
    above = None if parent is None else ProjectName(parent)
    return Project(ProjectName(name), above, guaranteed=guaranteed, weight=0, cpus=cpus)


def job(id: str, project: str, gpus: int, cpus: int, *held: int, running: bool = False) -> Workload:
    """A job that runs on the GPUs `held` (or on CPUs only), or that waits."""
    placement = (WorkerPlacement(NODE.name, held),) if running else ()
    request = Request(ProjectName(project), shape=Shape(1000 * gpus, cpus=1000 * cpus))
    started = -100.0 if running else None
    return Workload(JobId(id), request, 0.0, running=running, started=started, placement=placement)


def snapshot(projects: tuple[Project, ...], *jobs: Workload) -> Snapshot:
    return Snapshot(0.0, Pool(projects=projects), (NODE,), jobs)


def runs(there: Snapshot) -> set[str]:
    """The running jobs once nothing changes."""
    for _ in range(10):
        plan = decide(there)
        if not plan.changes:
            break
        there = carry_out(there, plan)
    return {workload.id for workload in there.workloads if workload.running}


HOGS = tuple(job(f"hog{n}", "hog", 0, 4, running=True) for n in range(4))


def test_jobs_without_gpus_give_back_the_cpus_that_come_with_guaranteed_gpus() -> None:
    projects = (project("hog"), project("a", guaranteed=2000))
    waiting = [job(f"a{n}", "a", 1, 4) for n in range(2)]
    assert {"a0", "a1"} < runs(snapshot(projects, *HOGS, *waiting))


def test_declared_cpus_are_given_back_to_jobs_without_gpus_and_kept_from_others() -> None:
    projects = (project("hog"), project("a", cpus=Bounds(8000)))
    waiting = [job(f"a{n}", "a", 0, 4) for n in range(3)]
    assert len(runs(snapshot(projects, *HOGS, *waiting)) & {"a0", "a1", "a2"}) == 2
    kept = (replace(projects[0], cpus=Bounds(16_000)), projects[1])
    assert runs(snapshot(kept, *HOGS, *waiting)) == {hog.id for hog in HOGS}


def test_a_job_without_gpus_is_stopped_before_one_that_holds_some() -> None:
    projects = (project("hog"), project("a", guaranteed=1000))
    running = [job("gpu", "hog", 1, 12, 0, running=True), job("hog0", "hog", 0, 4, running=True)]
    assert runs(snapshot(projects, *running, job("a", "a", 1, 4))) == {"gpu", "a"}


def test_under_a_full_limit_of_a_department_its_other_projects_give_back() -> None:
    projects = (
        project("department", cpus=Bounds(limit=8000)),
        project("hog", "department"),
        project("a", "department", guaranteed=1000),
    )
    now = runs(snapshot(projects, *HOGS[:2], job("a", "a", 1, 4)))
    assert "a" in now
    assert len(now) == 2


def test_a_job_that_cannot_be_preempted_stays_inside_the_declared_cpus() -> None:
    projects = (project("a", cpus=Bounds(8000)),)
    fixed = [job(f"a{n}", "a", 0, 4) for n in range(3)]
    fixed = [replace(each, request=replace(each.request, preemptible=False)) for each in fixed]
    there = snapshot(projects, *fixed)
    assert runs(there) == {"a0", "a1"}
    assert decide(there).decisions[JobId("a2")].details == {
        "kind": "guarantee", "project": "a", "resource": "cpus", "guaranteed": 8, "allocated": 8, "asked": 4,
    }  # fmt: skip


@many
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 1)), max_size=8),
    st.integers(0, 4),
    st.one_of(st.none(), st.integers(0, 16)),
    st.integers(0, 1),
    st.integers(1, 16),
)
def test_a_new_project_reclaims_its_guarantee_and_no_more(
    hogs: list[tuple[int, int]], guaranteed: int, declared: int | None, gpus: int, cpus: int
) -> None:
    """One node, one project that holds what it has no guarantee for, and one newcomer. By hand: it starts if there is
    room beside the hogs that may stay, and those may not stay who hold what it is guaranteed."""
    running: list[Workload] = []
    free_gpus, free_cpus = GPUS, CPUS // 1000
    for n, (its_cpus, its_gpus) in enumerate(hogs):
        if its_cpus <= free_cpus and its_gpus <= free_gpus:
            held = range(GPUS - free_gpus, GPUS - free_gpus + its_gpus)
            running.append(job(f"hog{n}", "hog", its_gpus, its_cpus, *held, running=True))
            free_cpus, free_gpus = free_cpus - its_cpus, free_gpus - its_gpus
    bounds = Bounds() if declared is None else Bounds(1000 * declared)
    projects = (project("hog"), project("a", guaranteed=1000 * guaranteed, cpus=bounds))
    there = snapshot(projects, *running, job("new", "a", gpus, cpus))
    # It is due what it is guaranteed, and what comes with its fair share of GPUs.
    due = 4 * guaranteed if declared is None else max(declared, 4 * min(gpus, guaranteed))
    fits = gpus <= free_gpus and cpus <= free_cpus
    # The GPUs of hogs are over quota; with them come their CPUs.
    by_gpus = sum(its.request.shape.cpus or 0 for its in running if its.request.shape.gpus) // 1000
    inside_gpus = bool(gpus) and gpus <= guaranteed
    taken = inside_gpus and cpus <= free_cpus + by_gpus
    expected = fits or taken or (cpus <= due and (inside_gpus or not gpus))
    assert ("new" in runs(there)) == expected


def test_a_plan_says_who_gives_back_what() -> None:
    projects = (project("hog"), project("a", guaranteed=2000))
    plan = decide(snapshot(projects, *HOGS, job("a", "a", 1, 4)))
    stopped = {id: decision.reason for id, decision in plan.decisions.items() if decision.action is Action.STOP}
    assert list(stopped.values()) == ["Project a reclaims CPUs and memory for a."]
