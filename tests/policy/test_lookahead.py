"""A guarantee that rises by calendar finds its GPUs: non-preemptible jobs are not started in its way."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from scheduler.model import (
    ONE,
    GuaranteeChange,
    JobId,
    Node,
    NodeName,
    Pool,
    Project,
    ProjectName,
    Request,
    Shape,
    Workload,
)
from scheduler.policy import Action, Snapshot, decide
from scheduler.policy.play import carry_out

GPUS = 4
NODE = Node(NodeName("n0"), GPUS)
LAB, CLASS = ProjectName("lab"), ProjectName("class")
NINE = 3600.0
many = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


def pool(guaranteed: int, then: int, lab: int = 0, after: int | None = None) -> Pool:
    """The class's guarantee: its amounts now, from nine, and an hour later."""
    changes = [GuaranteeChange(NINE, then * ONE)]
    if after is not None:
        changes.append(GuaranteeChange(2 * NINE, after * ONE))
    projects = (
        Project(LAB, guaranteed=lab * ONE, weight=ONE),
        Project(CLASS, guaranteed=guaranteed * ONE, weight=0, changes=tuple(changes)),
    )
    return Pool(projects=projects)


def job(id: str, project: ProjectName, **request: float | bool | None) -> Workload:
    return Workload(JobId(id), Request(project, shape=Shape(ONE), **request), submitted=0.0)  # type: ignore[arg-type]


def started(pool: Pool, *jobs: Workload) -> list[str]:
    decisions = decide(Snapshot(0.0, pool, (NODE,), jobs)).decisions
    return [job.id for job in jobs if decisions[job.id].action is Action.START]


def reason(pool: Pool, *jobs: Workload) -> str:
    return decide(Snapshot(0.0, pool, (NODE,), jobs)).decisions[jobs[-1].id].reason


def test_preemptible_jobs_use_the_gpus_until_the_window_begins() -> None:
    jobs = [job("plain", LAB), job("short", LAB, min_runtime=NINE), job("long", LAB, expected_runtime=1e6)]
    assert started(pool(0, 4), *jobs) == ["plain", "short", "long"]


def test_protected_jobs_start_only_if_they_end_before_the_window() -> None:
    stays, ends = job("stays", LAB, min_runtime=NINE + 1), job("ends", LAB, min_runtime=NINE + 1, expected_runtime=NINE)
    assert started(pool(0, 4), stays, ends) == ["ends"]
    assert reason(pool(0, 4), stays) == (
        "The guarantee of project class rises to 4 GPUs at 01:00. This job is protected from preemption for longer and "
        "is not expected to end before."
    )


def test_gpus_that_are_not_guaranteed_in_the_window_may_be_held_by_any_job() -> None:
    jobs = [job(f"j{n}", LAB, min_runtime=1e6) for n in range(4)]
    assert started(pool(0, 3), *jobs) == ["j0"]
    assert started(pool(0, 2, lab=2), *jobs) == ["j0", "j1"]


def test_non_preemptible_jobs_start_only_inside_their_guarantee_until_they_end() -> None:
    stays, ends = job("stays", CLASS, preemptible=False), job("ends", CLASS, preemptible=False, expected_runtime=NINE)
    assert started(pool(4, 0), stays, ends) == ["ends"]
    assert started(pool(4, 1), stays, job("too", CLASS, preemptible=False), ends) == ["stays", "ends"]
    assert "falls to 0 GPUs at 01:00. This job can't be preempted" in reason(pool(4, 0), stays)


@dataclass(frozen=True)
class Kind:
    project: ProjectName
    preemptible: bool
    min_runtime: float
    expected_runtime: float | None


kinds = st.builds(
    Kind,
    st.sampled_from([LAB, CLASS]),
    st.booleans(),
    st.sampled_from([0.0, 1800.0, 1e5]),
    st.sampled_from([None, 1800.0, 1e5]),
)


@many
@example([Kind(LAB, True, 1e5, None), Kind(LAB, False, 0.0, None)], 0, 3, 1)
@example([Kind(LAB, True, 1e5, None)], 0, 4, 0)
@given(kinds=st.lists(kinds, max_size=8), guaranteed=st.integers(0, 4), then=st.integers(0, 4), lab=st.integers(0, 4))
def test_at_nine_the_class_gets_its_guarantee_within_one_reclaim(
    kinds: list[Kind], guaranteed: int, then: int, lab: int
) -> None:
    """What ends by nine has ended, and the class asks for all that it is guaranteed."""
    assume(then > guaranteed)  # else nothing changes: who has started is protected as ever
    lab = min(lab, GPUS - then)
    before = pool(guaranteed, then, lab)
    jobs = [
        job(
            f"j{n}",
            kind.project,
            preemptible=kind.preemptible,
            min_runtime=kind.min_runtime,
            expected_runtime=kind.expected_runtime,
        )
        for n, kind in enumerate(kinds)
    ]
    now = Snapshot(0.0, before, (NODE,), tuple(jobs))
    ran = carry_out(now, decide(now)).workloads
    left = [each for each in ran if each.running and (each.request.expected_runtime or 1e9) > NINE]
    students = [replace(job(f"s{n}", CLASS), submitted=NINE) for n in range(then)]
    projects = (before.projects[0], replace(before.projects[1], guaranteed=then * ONE, changes=()))
    at_nine = Snapshot(NINE, replace(before, projects=projects), (NODE,), (*left, *students))
    plan = decide(at_nine)
    found = [each for each in carry_out(at_nine, plan).workloads if each.running and each.request.project == CLASS]
    assert len(found) >= then
