"""The time of one full cycle of the policy, in CPU seconds.

Each case states its pool and its jobs exactly. A cycle is complete when every workload's decision has been read. Names
as arguments select cases; `growth.py` plots the growth.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from scheduler.model import (
    TRAIN_POOL,
    Environment,
    JobId,
    Node,
    NodeName,
    NodePool,
    Pool,
    Project,
    ProjectName,
    Request,
    Shape,
    WorkerPlacement,
    Workload,
)
from scheduler.policy import Action, Plan, Planner, Snapshot, decide
from scheduler.policy.play import carry_out

RUNS = 3
TRAIN = (NodePool(TRAIN_POOL, Environment.TRAIN),)


@dataclass(frozen=True)
class Case:
    """A snapshot, and the correct plan for it (checked, so that no wrong plan is timed)."""

    name: str
    make: Callable[[], Snapshot]
    right: Callable[[Plan], bool]


def nodes(count: int, gpus: int = 8, cpus: int | None = None) -> tuple[Node, ...]:
    return tuple(Node(NodeName(f"n{n:05}"), gpus, cpus=cpus) for n in range(count))


def pool(*projects: Project) -> Pool:
    return Pool(node_pools=TRAIN, projects=projects)


def job(name: str, project: str, gpus: int = 1, workers: int = 1, at: float = -100.0, priority: int = 50) -> Workload:
    request = Request(
        ProjectName(project), shape=Shape(gpus * 1000), workers=workers, min_workers=workers, priority=priority
    )
    return Workload(JobId(name), request, submitted=at)


def running(count: int, project: str, per_node: int = 8) -> tuple[Workload, ...]:
    """One-GPU jobs that fill the nodes in order."""
    request = Request(ProjectName(project))
    return tuple(
        Workload(
            JobId(f"r{n:06}"),
            request,
            submitted=-7200.0,
            running=True,
            started=-3600.0,
            placement=(WorkerPlacement(NodeName(f"n{n // per_node:05}"), (n % per_node,)),),
        )
        for n in range(count)
    )


def actions(plan: Plan) -> dict[Action, int]:
    counts = dict.fromkeys(Action, 0)
    for decision in plan.decisions.values():
        counts[decision.action] += 1
    return counts


# -- the cases ----------------------------------------------------------------------------------------------


def fill(count: int = 500) -> Snapshot:
    jobs = tuple(job(f"j{n:06}", "a", at=n - 1e6) for n in range(8 * count))
    return Snapshot(0.0, pool(Project(ProjectName("a"), guaranteed=0)), nodes(count), jobs)


def reclaim_large(count: int = 1000) -> Snapshot:
    projects = Project(ProjectName("over"), guaranteed=0), Project(ProjectName("due"), guaranteed=count * 8000)
    gang = job("gang", "due", gpus=8, workers=count // 2)
    return Snapshot(0.0, pool(*projects), nodes(count), (*running(8 * count, "over"), gang))


def reclaim_many(count: int = 500) -> Snapshot:
    projects = Project(ProjectName("over"), guaranteed=0), Project(ProjectName("due"), guaranteed=count * 8000)
    jobs = tuple(job(f"j{n:06}", "due", at=n - 1e6) for n in range(8 * count))
    return Snapshot(0.0, pool(*projects), nodes(count), (*running(8 * count, "over"), *jobs))


def schedule_many(count: int = 1000, jobs: int = 64_000) -> Snapshot:
    """CPU slots: a job takes one of a node's 32 CPUs and no GPU."""
    request = Request(ProjectName("a"), shape=Shape(0, cpus=1000))
    waiting = tuple(Workload(JobId(f"j{n:06}"), request, submitted=n - 1e6) for n in range(jobs))
    return Snapshot(0.0, pool(Project(ProjectName("a"))), nodes(count, gpus=0, cpus=32_000), waiting)


def unschedulable(count: int = 500) -> Snapshot:
    """Nine nodes can be cleared for the gang of ten; every other node has a job that cannot be preempted."""
    projects = (
        Project(ProjectName("over"), guaranteed=0),
        Project(ProjectName("fixed"), guaranteed=count * 8000),
        Project(ProjectName("due"), guaranteed=80_000),
    )
    fixed = Request(ProjectName("fixed"), preemptible=False)
    work = list(running(8 * count, "over"))
    for n in range(9, count):
        work[8 * n] = Workload(
            JobId(f"r{8 * n:06}"), fixed, -7200.0, running=True, started=-3600.0, placement=work[8 * n].placement
        )
    return Snapshot(0.0, pool(*projects), nodes(count), (*work, job("gang", "due", gpus=8, workers=10)))


def full(count: int = 10_000, held: int = 60_000, jobs: int = 100_000, projects: int = 200) -> Snapshot:
    """The large pool in use: 60,000 one-GPU jobs run anywhere, and gangs of 50 shapes wait for the rest."""
    draw = random.Random(7)
    tree = [
        Project(ProjectName(f"p{n:03}"), guaranteed=8000 * count // projects, created=float(n)) for n in range(projects)
    ]
    kinds = [
        (draw.choice([1, 1, 1, 2, 4, 8]), draw.choice([1, 1, 2, 4, 8, 16]), draw.choice([10, 50, 50, 90]))
        for _ in range(50)
    ]
    work = []
    for n, gpu in enumerate(draw.sample(range(8 * count), held)):
        request, place = (
            Request(ProjectName(f"p{draw.randrange(projects):03}")),
            WorkerPlacement(NodeName(f"n{gpu // 8:05}"), (gpu % 8,)),
        )
        started = -float(draw.randrange(60, 7200))
        work.append(Workload(JobId(f"r{n:06}"), request, -7200.0, running=True, started=started, placement=(place,)))
    for n in range(jobs):
        gpus, workers, priority = draw.choice(kinds)
        work.append(job(f"j{n:06}", f"p{draw.randrange(projects):03}", gpus, workers, n - 1e6, priority))
    return Snapshot(0.0, pool(*tree), nodes(count), tuple(work))


def large(count: int = 10_000, jobs: int = 100_000, projects: int = 200, shapes: int = 50) -> Snapshot:
    """Jobs of 50 shapes (GPUs, workers, priority) in 200 projects with guarantees for three quarters of the pool."""
    draw = random.Random(7)
    guarantee = count * 8000 * 3 // 4 // projects
    tree = [Project(ProjectName(f"p{n:03}"), guaranteed=guarantee, created=float(n)) for n in range(projects)]
    kinds = [
        (draw.choice([1, 1, 1, 2, 4, 8]), draw.choice([1, 1, 1, 2, 4]), draw.choice([10, 50, 50, 90]))
        for _ in range(shapes)
    ]
    waiting = []
    for n in range(jobs):
        gpus, workers, priority = draw.choice(kinds)
        waiting.append(job(f"j{n:06}", f"p{draw.randrange(projects):03}", gpus, workers, n - 1e6, priority))
    return Snapshot(0.0, pool(*tree), nodes(count), tuple(waiting))


def everything_held(plan: Plan) -> bool:
    return sum(figures.allocated for figures in plan.projects.values()) == 80_000_000


CASES = (
    Case("fill", fill, lambda plan: actions(plan)[Action.START] == 4000),
    Case(
        "reclaim large",
        reclaim_large,
        lambda plan: plan.decisions[JobId("gang")].action is Action.START and actions(plan)[Action.STOP] == 4000,
    ),
    Case(
        "reclaim many",
        reclaim_many,
        lambda plan: actions(plan)[Action.START] == 4000 and actions(plan)[Action.STOP] == 4000,
    ),
    Case("schedule many", schedule_many, lambda plan: actions(plan)[Action.START] == 32_000),
    Case(
        "unschedulable",
        unschedulable,
        lambda plan: plan.decisions[JobId("gang")].action is Action.WAIT and actions(plan)[Action.STOP] == 0,
    ),
    Case("large", large, everything_held),
    Case("full", full, everything_held),
)

GROWTH: dict[str, tuple[Callable[[int], Snapshot], tuple[int, ...]]] = {
    "fill, nodes": (fill, (250, 500, 1000, 2000, 4000)),
    "reclaim large, nodes": (reclaim_large, (250, 500, 1000, 2000, 4000)),
    "reclaim many, nodes": (reclaim_many, (250, 500, 1000, 2000, 4000)),
    "large, jobs": (lambda jobs: large(jobs=jobs), (12_500, 25_000, 50_000, 100_000)),
    "large, nodes": (lambda count: large(count=count), (1250, 2500, 5000, 10_000)),
}


# -- measuring ----------------------------------------------------------------------------------------------


def measure(snapshot: Snapshot) -> tuple[float, Plan]:
    """The seconds of one cycle, the best of several, with every decision read."""
    best = float("inf")
    for _ in range(RUNS):
        gc.collect()
        begun = time.process_time()
        plan = decide(snapshot)
        for _ in plan.decisions.values():
            pass
        best = min(best, time.process_time() - begun)
    return best, plan


def steady() -> tuple[float, float]:
    """The large pool in a steady state: the next plan after a job ends, and after one arrives (worst of ten each)."""
    snapshot = settled(large())
    planner = Planner(snapshot.pool, snapshot.nodes, snapshot.workloads)
    gc.collect()
    gc.freeze()  # keeps the collector from scanning the snapshot during a plan
    draw = random.Random(11)
    ends, arrivals = [], []
    for n in range(10):
        ended = draw.choice([workload.id for workload in snapshot.workloads if workload.running])
        new = job(f"k{n}", f"p{draw.randrange(200):03}", draw.choice([1, 2, 4, 8]), at=0.0)
        begun = time.process_time()
        planner.drop(ended)
        plan = planner.plan(snapshot.now)
        ends.append(time.process_time() - begun)
        for workload in snapshot.workloads:
            if workload.id == ended:
                planner.put(workload)
        begun = time.process_time()
        planner.put(new)
        plan = planner.plan(snapshot.now)
        plan.decisions[new.id]
        arrivals.append(time.process_time() - begun)
        planner.drop(new.id)
    return max(ends), max(arrivals)


def settled(snapshot: Snapshot) -> Snapshot:
    """The snapshot after plans have been carried out until nothing changes."""
    while (plan := decide(snapshot)).changes:
        print(f"settling: {len(plan.changes)} changes", file=sys.stderr)
        snapshot = replace(carry_out(snapshot, plan), now=snapshot.now + 60.0)
    return snapshot


def figures(names: list[str]) -> Iterator[tuple[str, float, str]]:
    for case in CASES:
        if not names or case.name in names:
            seconds, plan = measure(case.make())
            if not case.right(plan):
                raise SystemExit(f"{case.name}: the plan is wrong: {actions(plan)}")
            yield f"policy: {case.name}", seconds, "s"
    if not names or "steady" in names:
        ended, arrived = steady()
        yield "policy: steady, a job ends", ended, "s"
        yield "policy: steady, a job arrives", arrived, "s"


def main(arguments: list[str]) -> None:
    for figure, value, unit in figures(arguments):
        print(json.dumps({"figure": figure, "value": round(value, 6), "unit": unit}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
