"""Rule 5 of the design: a stream of small jobs does not starve a gang inside its project's guarantee.

Jobs arrive without end, so that every GPU is always in demand; each ends after a while. A gang inside its guarantee has
to start about when the jobs that ran before its arrival have ended. The streams are the same in every run: in about one
of a thousand, jobs inside another guarantee arrive and end in step, and the gang waits longer.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

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
    ReclaimUpTo,
    Request,
    Settings,
    Shape,
    Workload,
)
from scheduler.policy import Snapshot, decide
from scheduler.policy.play import carry_out
from tests.policy.pools import NOW

many = settings(max_examples=200, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))

STEP = 60.0
LONGEST = 6
"""The longest run of a small job, in steps."""


@dataclass(frozen=True)
class Small:
    """The shape of a project's small jobs; `steps` are their run times."""

    project: str
    preemptible: bool
    declared: bool
    steps: tuple[int, ...]


@dataclass
class Crowd:
    """A pool with an endless queue of small jobs, and a gang that has just arrived."""

    snapshot: Snapshot
    kinds: list[Small]
    steps: dict[str, int] = field(default_factory=dict)
    count: int = 0

    def come(self, at_least: int = 4) -> None:
        """Refill the queue of every kind."""
        for kind in self.kinds:
            name = f"{kind.project}{self.kinds.index(kind)}-"
            waiting = sum(w.id.startswith(name) and not w.running for w in self.snapshot.workloads)
            for _ in range(at_least - waiting):
                self.count += 1
                steps = kind.steps[self.count % len(kind.steps)]
                request = Request(
                    ProjectName(kind.project),
                    preemptible=kind.preemptible,
                    expected_runtime=STEP * steps if kind.declared else None,
                )
                job = Workload(JobId(f"{name}{self.count:04}"), request, submitted=self.snapshot.now)
                self.steps[job.id] = steps
                self.snapshot = replace(self.snapshot, workloads=(*self.snapshot.workloads, job))

    def step(self) -> None:
        """Carry out one plan; then time passes and some jobs end."""
        self.come()
        self.snapshot = carry_out(self.snapshot, decide(self.snapshot))
        now = self.snapshot.now + STEP
        stay = (w for w in self.snapshot.workloads if not self.over(w, now))
        self.snapshot = replace(self.snapshot, now=now, workloads=tuple(stay))

    def over(self, workload: Workload, now: float) -> bool:
        steps = self.steps.get(workload.id)
        started = workload.started
        return steps is not None and started is not None and now - started >= steps * STEP

    def send(self, gang: Request) -> None:
        job = Workload(JobId("gang"), gang, submitted=self.snapshot.now)
        self.snapshot = replace(self.snapshot, workloads=(*self.snapshot.workloads, job))

    @property
    def started(self) -> bool:
        return any(w.id == "gang" and w.running for w in self.snapshot.workloads)


@st.composite
def smalls(draw: st.DrawFn) -> Small:
    return Small(
        draw(st.sampled_from(["b", "b", "c"])),
        draw(st.booleans()),
        draw(st.booleans()),
        tuple(draw(st.lists(st.integers(1, LONGEST), min_size=1, max_size=5))),
    )


@st.composite
def crowds(draw: st.DrawFn) -> tuple[Crowd, Request]:
    """A few nodes of four GPUs; a gang of whole nodes inside its guarantee; others with guarantees for the rest."""
    nodes = draw(st.integers(2, 4))
    workers = draw(st.integers(1, nodes - 1))
    left = nodes - workers
    others = draw(st.integers(0, left))
    projects = (
        Project(ProjectName("own"), guaranteed=4000 * workers),
        Project(ProjectName("b"), guaranteed=others * 4000, weight=0, created=1.0),
        Project(ProjectName("c"), guaranteed=draw(st.integers(0, left - others)) * 4000, weight=0, created=2.0),
    )
    pool = Pool(
        projects=projects,
        settings=Settings(reclaim=draw(st.sampled_from([ReclaimUpTo.FAIR_SHARE, ReclaimUpTo.GUARANTEE]))),
    )
    kinds = draw(st.lists(smalls(), min_size=1, max_size=4))
    crowd = Crowd(Snapshot(NOW, pool, tuple(Node(NodeName(f"n{n}"), 4) for n in range(nodes)), ()), kinds)
    return crowd, Request(
        ProjectName("own"), shape=Shape(4000), workers=workers, min_workers=workers, expected_runtime=3600.0
    )


@many
@given(crowds(), st.integers(1, 8))
def test_a_gang_is_not_starved(case: tuple[Crowd, Request], before: int) -> None:
    crowd, gang = case
    for _ in range(before):
        crowd.step()
    crowd.send(gang)
    for _ in range(4 * LONGEST):
        crowd.step()
        if crowd.started:
            return
    pytest.fail("the gang still waits")


@st.composite
def patient(draw: st.DrawFn) -> tuple[Crowd, Request]:
    """The same with declared run times; the gang is due the GPUs but may preempt no job."""
    nodes = draw(st.integers(1, 4))
    workers = draw(st.integers(1, nodes))
    projects = (
        Project(ProjectName("own"), weight=1000 * nodes),
        Project(ProjectName("b"), weight=0, created=1.0),
        Project(ProjectName("c"), weight=0, created=2.0),
    )
    pool = Pool(projects=projects, settings=Settings(reclaim=ReclaimUpTo.GUARANTEE))
    kinds = [
        replace(kind, preemptible=True, declared=True) for kind in draw(st.lists(smalls(), min_size=1, max_size=4))
    ]
    crowd = Crowd(Snapshot(NOW, pool, tuple(Node(NodeName(f"n{n}"), 4) for n in range(nodes)), ()), kinds)
    return crowd, Request(
        ProjectName("own"), shape=Shape(4000), workers=workers, min_workers=workers, expected_runtime=3600.0
    )


@many
@given(patient(), st.integers(1, 8))
def test_a_gang_starts_no_later_than_estimated(case: tuple[Crowd, Request], before: int) -> None:
    """Nobody ends later than was declared, so the reservation holds, whoever comes meanwhile."""
    crowd, gang = case
    for _ in range(before):
        crowd.step()
    crowd.send(gang)
    said = decide(crowd.snapshot).decisions[JobId("gang")].estimated_start
    for _ in range(2 * LONGEST):
        now = crowd.snapshot.now
        crowd.step()
        if crowd.started:
            assert said is None or now <= said
            return
    pytest.fail("the gang still waits")
