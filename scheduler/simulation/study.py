"""One trace, many policies: everything that `jupyter runai simulate` compares, simulated with the same jobs.

Where no pool file says what each project is guaranteed, it is guaranteed what it would have in a static partition, or,
where the pool is smaller than all partitions together, its part of the pool in that proportion: no more is promised
than there is. Partitions are sized on an earlier part of the trace where `learn` names one, which is then left out of
what is played.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from scheduler.errors import Invalid
from scheduler.model import (
    BUILD_POOL,
    ONE,
    TRAIN_POOL,
    Environment,
    Milli,
    Node,
    NodeName,
    NodePool,
    Pool,
    Project,
    ProjectName,
    QueueOrder,
    SurplusOrder,
    gpu_count,
)
from scheduler.simulation.baselines import POLICIES, Run, demand_quantile, play_baseline, play_static
from scheduler.simulation.fairness import Comparison, compare, deprived
from scheduler.simulation.forecastaccuracy import ForecastAccuracy, ForecastAccuracyFigures
from scheduler.simulation.metrics import Figures, figures
from scheduler.simulation.play import Costs, Player
from scheduler.simulation.preemptive import PREEMPTIVE, play_preemptive
from scheduler.simulation.sessions import Session, build_nodes
from scheduler.simulation.slowgpus import SlowGpuFigures, measure
from scheduler.simulation.trace import MOST_GPUS, Trace

OURS, SERVED, STATIC, POOLED = "runai", "served", "static", "skip_ahead"
NAMES = (OURS, SERVED, STATIC, *POLICIES, *PREEMPTIVE)
SCALED = (OURS, SERVED, POOLED)
"""What is played on other pools, too."""

SAVING = 0.25
"""The part of a stop's cost that is spent saving; the rest is restarting."""

MOST_NODES, MOST_GPUS_PER_NODE = 100_000, 1024
"""The largest pool that is played, with `MOST_GPUS` in all."""

MOST_VARIANTS = 16
"""The most sizes of a pool, and the most costs of a stop: the trace is played once for each."""

OFTEN = 1.0
"""The shortest interval at which jobs save their state, in seconds."""


class Part(StrEnum):
    """Which question of the study a result answers: side by side, on other pools, at other costs, with sessions."""

    POLICIES = "policies"
    SCALE = "scale"
    COST = "cost"
    SESSIONS = "sessions"


@dataclass(frozen=True, slots=True)
class Result:
    """One run: its name for people, the GPUs it had, what came out. `opened` is how the build sessions fared.

    `against_static` is there if static partitions are played, too; `deprived` (seconds by project) where there are
    guarantees; `estimates` where the study looks ahead.
    """

    part: Part
    policy: str
    name: str
    gpus: int
    cost: float
    runs: tuple[Run, ...]
    opened: tuple[Run, ...]
    figures: Figures
    deprived: dict[str, float]
    against_static: Comparison | None
    estimates: ForecastAccuracyFigures | None = None


@dataclass(frozen=True, slots=True)
class Study:
    """What is played. `played` is the trace without the part that partitions were sized on; `start` to `end` its
    window. With `estimate_every` our policies tell waiting jobs every so many seconds when they are likely to start.

    `costs` (seconds for a stop) and `scales` (of the pool) begin with those that policies are compared at.
    """

    played: Trace
    partition: Mapping[str, int]
    declared: Pool | None
    nodes: int
    gpus_per_node: int
    start: float
    end: float
    costs: tuple[float, ...]
    scales: tuple[float, ...]
    every: float
    checkpoint_every: float | None = None
    users: int = 0
    sessions: tuple[Session, ...] = ()
    estimate_every: float | None = None

    def play(self, names: Sequence[str]) -> Iterator[Result]:
        """Static partitions first, if at all: the others are compared with them. Raises `Invalid` before any is
        played."""
        self._check_sizes(names)
        alone: tuple[Run, ...] = ()
        if STATIC in names:
            alone = self._runs(STATIC, self.nodes, self.costs[0])
            yield self._result(Part.POLICIES, STATIC, STATIC, self.nodes, alone, ())
        for name in names:
            if name != STATIC:
                asked = self.estimate_every if name in (OURS, SERVED) else None
                ahead = ForecastAccuracy(asked) if asked else None
                runs = self._runs(name, self.nodes, self.costs[0], ahead)
                result = self._result(Part.POLICIES, name, name, self.nodes, runs, alone)
                yield replace(result, estimates=ahead.figures() if ahead else None)
        for name in [name for name in SCALED if name in names]:
            for scale in self.scales:
                nodes = max(1, round(self.nodes * scale))
                runs = self._runs(name, nodes, self.costs[0])
                yield self._result(Part.SCALE, name, f"{name} × {scale:g}", nodes, runs, alone)
        if OURS in names:
            for cost in self.costs[1:]:
                runs = self._runs(OURS, self.nodes, cost)
                label = f"{OURS}, a stop costs {cost:g} s"
                yield self._result(Part.COST, OURS, label, self.nodes, runs, alone, cost=cost)
            if self.sessions:
                for lending in (False, True):
                    yield self._with_sessions(lending, alone)
        if STATIC in names and self.sessions:
            opened = tuple(session.run() for session in self.sessions)
            yield self._result(Part.SESSIONS, STATIC, f"{STATIC}, sessions", self.nodes, alone, (), opened=opened)

    def _check_sizes(self, names: Sequence[str]) -> None:
        """No job may be larger than the smallest pool: one that never starts is found before hours are played. Nor may
        static partitions be larger than the largest pool."""
        static = sum(self.partition.values())
        if STATIC in names and (static > MOST_NODES or static * self.gpus_per_node > MOST_GPUS):
            raise Invalid(
                f"The static partitions of this trace take {static:,} nodes of {gpu_count(self.gpus_per_node * ONE)}; "
                f"{MOST_NODES:,} nodes and {MOST_GPUS:,} GPUs are simulated at most. Leave {STATIC} out of --policies.",
                field="policies",
            )
        scales = self.scales if set(SCALED) & set(names) else ()
        nodes, scale = min((max(1, round(self.nodes * scale)), scale) for scale in (1.0, *scales))
        for job in self.played.jobs:
            if set(names) - {STATIC} and job.gpus > nodes * self.gpus_per_node * ONE:
                scaled = "" if scale == 1.0 else f" scaled by {scale:g}"
                raise Invalid(
                    f"Job {job.id} of {job.project} wants {gpu_count(job.gpus)}, and the pool{scaled} has only "
                    f"{nodes * self.gpus_per_node} ({nodes} × {self.gpus_per_node}); take a larger pool.",
                    field="nodes",
                )

    def guaranteed(self, nodes: int) -> Pool:
        """The pool of so many nodes with what each project is guaranteed in it."""
        if self.declared is not None:
            return self.declared
        wanted = sum(self.partition.values())
        part = min(1.0, nodes / wanted)
        projects = tuple(
            Project(ProjectName(name), guaranteed=int(own * self.gpus_per_node * part) * ONE)
            for name, own in sorted(self.partition.items())
        )
        return Pool(
            node_pools=(NodePool(TRAIN_POOL, Environment.TRAIN), NodePool(BUILD_POOL, Environment.BUILD)),
            projects=projects,
        )

    def _runs(self, name: str, nodes: int, cost: float, estimates: ForecastAccuracy | None = None) -> tuple[Run, ...]:
        if name == STATIC:
            return play_static(self.played, self.partition, gpus_per_node=self.gpus_per_node)
        if name in (OURS, SERVED):
            return self._player(nodes, cost, served=name == SERVED, estimates=estimates).play()
        if name in PREEMPTIVE:
            return play_preemptive(self.played, name, gpus=nodes * self.gpus_per_node, cost=cost)
        return play_baseline(self.played, name, nodes=nodes, gpus_per_node=self.gpus_per_node)

    def _player(
        self,
        nodes: int,
        cost: float,
        sessions: bool = False,
        lending: bool = False,
        served: bool = False,
        estimates: ForecastAccuracy | None = None,
    ) -> Player:
        """With `served` the least served jobs come first, in all projects and in the division of the surplus, and the
        policy is told that jobs save when they are asked to."""
        pool = self.guaranteed(nodes)
        if served:
            projects = tuple(replace(project, order=QueueOrder.SERVED) for project in pool.projects)
            pool = replace(pool, projects=projects, settings=replace(pool.settings, surplus=SurplusOrder.SERVED))
        fleet = tuple(Node(NodeName(f"train-{number:04}"), self.gpus_per_node) for number in range(nodes))
        if sessions:
            pool = replace(pool, settings=replace(pool.settings, lending=lending))
            fleet += build_nodes(self.users, self.gpus_per_node)
        costs = Costs(SAVING * cost, (1 - SAVING) * cost, self.checkpoint_every)
        opening = self.sessions if sessions else ()
        return Player(
            self.played,
            pool,
            fleet,
            costs,
            every=self.every,
            sessions=opening,
            saves_known=served,
            estimates=estimates,
        )

    def with_slow_gpus(self, pattern: str, seed: int) -> SlowGpuFigures:
        """Our policy where some GPUs are slower than others of their type: what it gains by learning which."""
        player = self._player(self.nodes, self.costs[0])
        return measure(
            pattern, self.played, player.calendar.pool, player.nodes, player.costs, seed=seed, every=self.every
        )

    def _with_sessions(self, lending: bool, alone: Sequence[Run]) -> Result:
        player = self._player(self.nodes, self.costs[0], sessions=True, lending=lending)
        runs = player.play()
        label = f"{OURS}, sessions, {'lending' if lending else 'no lending'}"
        return self._result(Part.SESSIONS, OURS, label, self.nodes, runs, alone, opened=tuple(player.opened))

    def _result(
        self,
        part: Part,
        policy: str,
        name: str,
        nodes: int,
        runs: tuple[Run, ...],
        alone: Sequence[Run],
        *,
        opened: tuple[Run, ...] = (),
        cost: float | None = None,
    ) -> Result:
        self._conserved(name, runs)
        build = len(build_nodes(self.users, self.gpus_per_node)) if opened else 0
        gpus = ((sum(self.partition.values()) if policy == STATIC else nodes) + build) * self.gpus_per_node
        guarantees: dict[str, Milli] = {
            project.name: (gpus * ONE if project.guaranteed is None else project.guaranteed)
            for project in self.guaranteed(nodes).projects
        }
        return Result(
            part,
            policy,
            name,
            gpus,
            self.costs[0] if cost is None else cost,
            runs,
            opened,
            figures(runs, gpus=gpus, start=self.start, end=self.end, sessions=opened),
            {} if policy == STATIC else deprived(runs, guarantees),
            compare(runs, alone) if alone else None,
        )

    def _conserved(self, name: str, runs: Sequence[Run]) -> None:
        """Every job ran to its end, once, and did its own work: what was held is that work and what was lost."""
        ran = sorted(run.job.id for run in runs)
        if ran != sorted(job.id for job in self.played.jobs):
            raise AssertionError(f"{name} lost a job, or ran one twice")
        for run in runs:
            work = run.job.gpus * run.job.duration / ONE
            exact = 4 * len(run.spans) * math.ulp(run.ended) * run.job.gpus / ONE
            if abs(run.held - run.lost - work) > 1e-6 * (run.held + 1) + exact:
                raise AssertionError(f"{name} did not do the work of {run.job.id}")


def prepare(
    trace: Trace,
    *,
    nodes: int,
    gpus_per_node: int = 8,
    quantile: float = 0.95,
    learn: float = 0.0,
    pool: Pool | None = None,
    costs: Sequence[float] = (60.0,),
    scales: Sequence[float] = (),
    every: float = 0.0,
    checkpoint_every: float | None = None,
) -> Study:
    """Size the partitions on the first `learn` seconds of the trace (the whole of it for 0) and set up the rest.

    Raises `Invalid` for a pool that is larger than any, and for a trace that does not go with the pool.
    """
    _refuse_absurd(max(nodes, *(nodes * scale for scale in scales)) if scales else nodes, gpus_per_node)
    for name, variants in (("scale", scales), ("restart_cost", costs)):
        if len(variants) > MOST_VARIANTS:
            option = f"--{name.replace('_', '-')}"
            raise Invalid(f"{option} takes {MOST_VARIANTS} values at most, not {len(variants):,}.", field=name)
    if checkpoint_every is not None and checkpoint_every < OFTEN:
        raise Invalid(f"--checkpoint-every is at least {OFTEN:g} second.", field="checkpoint_every")
    first, last = trace.jobs[0].submitted, trace.jobs[-1].submitted
    played = trace.window(first + learn, float("inf")) if learn else trace
    seen = trace.window(first, first + learn) if learn else trace
    if not played.jobs or not seen.jobs:
        raise Invalid("No jobs are left to simulate; learn from a shorter part of the trace.", field="learn")
    partition = demand_quantile(seen, quantile, gpus_per_node=gpus_per_node)
    for project, least in _smallest(played, gpus_per_node).items():
        partition[project] = max(partition.get(project, 0), least)
    if pool is not None:
        parents = sorted(set(played.projects) & {project.parent for project in pool.projects})
        if parents:
            raise Invalid(
                f"Project “{parents[0]}”, which the trace names, has projects below it in the pool file; "
                "use one of these.",
                field="projects",
            )
        unknown = sorted(set(played.projects) - {project.name for project in pool.projects})
        if unknown:
            raise Invalid(f"The pool file has no project “{unknown[0]}”, which the trace names.", field="projects")
    start = played.jobs[0].submitted
    end = max(last, start + 1.0)
    return Study(
        played, partition, pool, nodes, gpus_per_node, start, end, tuple(costs), tuple(scales), every, checkpoint_every
    )  # fmt: skip


def _refuse_absurd(nodes: float, gpus_per_node: int) -> None:
    """Hours later such a pool would only have taken all memory."""
    if gpus_per_node > MOST_GPUS_PER_NODE:
        raise Invalid(
            f"No node has {gpus_per_node:,} GPUs; --gpus-per-node is {MOST_GPUS_PER_NODE:,} at most.",
            field="gpus_per_node",
        )
    if nodes > MOST_NODES:
        raise Invalid(
            f"A pool of {nodes:,.0f} nodes is too large to simulate; --nodes times the largest --scale is "
            f"{MOST_NODES:,} at most.",
            field="nodes",
        )
    if nodes * gpus_per_node > MOST_GPUS:
        raise Invalid(
            f"A pool of {nodes * gpus_per_node:,.0f} GPUs is too large to simulate; --nodes times --gpus-per-node "
            f"times the largest --scale is {MOST_GPUS:,} at most.",
            field="nodes",
        )


def _smallest(trace: Trace, gpus_per_node: int) -> dict[str, int]:
    """Whole nodes that hold each project's largest gang."""
    largest: dict[str, int] = {}
    for job in trace.jobs:
        largest[job.project] = max(largest.get(job.project, 1), -(-job.gpus // (gpus_per_node * ONE)))
    return largest
