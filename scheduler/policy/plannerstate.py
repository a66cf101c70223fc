"""What the policy knows of the pool: nodes, projects, and the workloads by what they do.

`put` and `remove` update it in time that does not grow with the pool, so a plan after one change costs little;
`nodechanges` takes over changed nodes. The state depends only on the nodes and workloads, not on the order of the
changes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from scheduler.model import Environment, Milli, Node, Pool, ProjectName, Request, SurplusOrder, Workload, WorkloadId
from scheduler.policy import resources
from scheduler.policy.blocking import Blocked
from scheduler.policy.fairshare import FairShares, share_out
from scheduler.policy.levels import ServiceLevels
from scheduler.policy.lookahead import changes_ahead
from scheduler.policy.nodeindex import NodeIndex
from scheduler.policy.nodes import NodeState
from scheduler.policy.partitions import Partition, build_partitions
from scheduler.policy.poolstate import PoolState
from scheduler.policy.positions import HeldByUser, Line, WaitingClass, positions
from scheduler.policy.projects import ProjectState
from scheduler.policy.requestclasses import RequestClasses
from scheduler.policy.service import by_service
from scheduler.policy.sets import union
from scheduler.policy.surplus import DemandByLevel
from scheduler.policy.topology import Topology
from scheduler.policy.usage import find_kept
from scheduler.policy.workloads import Options, RequestClass, WorkloadState, never_fits

Waiting = Mapping[ProjectState, Mapping[RequestClass, list[WorkloadState]]]
"""The waiting jobs of each project, by what they ask for."""


class PlannerState:
    """The workloads of a pool. `homeless` jobs are of no project that takes jobs; `train` is the nodes for jobs.

    `projects` are those of the remainder, which is the whole pool where there are no other partitions. `blocked` are
    the latest blockers of waiting jobs.
    """

    def __init__(self, pool: Pool, nodes: Iterable[Node], workloads: Iterable[Workload] = ()) -> None:
        self.pool = pool
        self.next_change = min([project.changes[0].at for project in pool.projects if project.changes], default=None)
        index = NodeIndex(nodes)
        self.state = PoolState(index)
        self.topology = Topology(index.all, pool.topology)
        self.request_classes = RequestClasses(pool, index)
        self.workloads: dict[WorkloadId, WorkloadState] = {}
        self.waiting: dict[ProjectState, dict[RequestClass, list[WorkloadState]]] = {}
        self.sessions: dict[WorkloadId, WorkloadState] = {}
        self.elastic: dict[WorkloadId, WorkloadState] = {}
        self.reduced: dict[WorkloadId, WorkloadState] = {}
        self.nominations: dict[WorkloadId, WorkloadState] = {}
        self.homeless: dict[WorkloadId, WorkloadState] = {}
        self._unsorted: dict[int, list[WorkloadState]] = {}
        self.blocked: dict[tuple[ProjectState, RequestClass], Blocked] = {}
        self._lines: dict[ProjectName, Line] = {}
        self._options: dict[tuple[ProjectName, RequestClass], Options] = {}
        self.partitions = build_partitions(pool, index.all, self.trains)
        self.projects = self.partitions[0].projects
        self.changes_ahead = changes_ahead(self.partitions)
        self._shares: FairShares | None = None
        served = pool.settings.surplus is SurplusOrder.SERVED
        if len(self.partitions) == 1 and pool.settings.time_aware <= 0 and not served:
            self._shares = FairShares(self.partitions[0].roots, self.partitions[0].changed)
        self._frozen: dict[ProjectState, ProjectState] = {}
        self._usage: Mapping[ProjectName, float] = {}
        self.resources: Sequence[resources.ResourceTree] = ()
        self.count_resources()
        self.levels = ServiceLevels(pool.settings)
        self.by_level = DemandByLevel(self.levels, self.partitions) if served else None
        self.patient: dict[WorkloadId, tuple[float, WorkloadState]] = {}
        for partition in self.partitions:
            for project in partition.projects.values():
                if by_service(project, pool.settings.order):
                    project.held = {}
        self.state.limited = any(project.quotas for project in self.projects.values())
        self.train = union(node.bit for node in index.all if node.spec.schedulable and self.trains(node))
        with self.state.loading():
            for workload in workloads:
                self.put(workload)
        self.prepare()

    def put(self, workload: Workload) -> None:
        """A workload is new."""
        spec = workload.request
        build = spec.environment is Environment.BUILD
        project = None if build else self.projects.get(spec.project)
        request = self.class_of(spec, project)
        options: Options = ()
        if project is not None and len(self.partitions) > 1:
            options = self.options(spec.project, request)
            project, request = self.choice(options, workload, request)
            if options[0][0] is not project:  # where it can't have what it was promised it is asked for everywhere else
                options = [(project, request), *[option for option in options if option[0] is not project]]
        job = self.workloads[workload.id] = WorkloadState(workload, project, request, options)
        if build:
            self.sessions[job.id] = job
        if self._lines:
            self._lines.pop(spec.project, None)
        if workload.running:
            self._stand(job)
        elif project is None or project.children:
            if not build:
                self.homeless[job.id] = job
        else:
            if project.held is not None:
                self._find_level(job)
            jobs = self.waiting.setdefault(project, {}).setdefault(job.request, [])
            if jobs and job.urgency < jobs[-1].urgency:
                self._unsorted[id(jobs)] = jobs
            jobs.append(job)
            if workload.nomination:
                self.nominations[job.id] = job
        self._ask(job, 1)

    def renew(self, workload: Workload) -> bool:
        """Update a waiting job of which only its expected run time has changed; whether that was all."""
        job = self.workloads.get(workload.id)
        if job is None or job.options or job.workload.running or job.project is None:
            return False
        request, before = workload.request, job.workload
        if replace(before, request=request) != workload:
            return False
        if (request.project, request.user, request.environment) != (
            before.request.project,
            before.request.user,
            before.request.environment,
        ):
            return False
        if self.class_of(request, job.project) is not job.request:
            return False
        job.workload = workload
        return True

    def class_of(self, spec: Request, project: ProjectState | None) -> RequestClass:
        """What a request asks for; in a project with the order `served` a class is that of one user."""
        by_user = project is not None and project.held is not None
        return self.request_classes.of(spec, spec.user if by_user else None)

    def _find_level(self, job: WorkloadState) -> None:
        level, lowest_at = self.levels.when_waiting(job.workload, job.request.gang_amount)
        job.waits_on(level)
        if level:
            self.patient[job.id] = lowest_at, job

    def apply_aging(self, now: float) -> float | None:
        """Put jobs that have waited too long on the lowest level; returns when the next one will have."""
        over = [job for at, job in self.patient.values() if at <= now]
        for job in over:
            del self.patient[job.id]
            job.waits_on(0)
            assert job.project is not None
            jobs = self.waiting[job.project][job.request]
            jobs.sort(key=_by_urgency)
            self._lines.pop(job.workload.request.project, None)
        return min([at for at, _ in self.patient.values()], default=None)

    def trains(self, node: NodeState) -> bool:
        return self.request_classes.environment_of(node.spec.node_pool) is Environment.TRAIN

    def count_resources(self) -> None:
        """Find which CPUs and how much memory come with the GPUs of nodes, and count what workloads hold of them."""
        nodes = [node for node in self.state.nodes.by_name.values() if self.trains(node)]
        if self.resources and resources.in_use(self.pool, nodes) == [tree.resource for tree in self.resources]:
            for tree in self.resources:
                tree.set_rate(nodes)
            return
        self.resources = resources.build(self.pool, self.partitions, nodes)
        self.state.beside = bool(self.resources)
        for job in self.workloads.values():
            self.state.charge_beside(job)

    def options(self, project: ProjectName, request: RequestClass) -> Options:
        """Where in the pool a job may stand: as its wishes are, then where its project has a guarantee, then by
        throughput.

        A partition in which a limit or a guarantee is too small for it comes last: what keeps it waiting is told of the
        first.
        """
        found = self._options.get((project, request))
        if found is None:
            found = self._options[project, request] = self._rank(project, request)
        return found

    def _rank(self, project: ProjectName, request: RequestClass) -> Options:
        ranked = []
        for number, partition in enumerate(self.partitions):
            there = self.request_classes.within(request, number, partition.nodes)
            if there.eligible and all(group.eligible for group in there.groups):
                owner = partition.projects[project]

                wish = next(n for n, mask in enumerate(request.preferences) if mask & partition.nodes)
                throughput = next(n for n, (nodes, _) in enumerate(request.scopes) if nodes & partition.nodes)
                never, unowned = never_fits(owner, there), not owner.guarantee
                ranked.append((never, wish, unowned, throughput, number, owner, there))
        ranked.sort(key=lambda entry: entry[:5])
        found = [(owner, there) for *_, owner, there in ranked]
        return found or [(self._wished(request.spec).projects[project], request)]

    def rank_again(self) -> list[Workload]:
        """Find all options again, since nodes have changed; returns the workloads that have others now."""
        changed = set[tuple[ProjectName, RequestClass]]()
        for key, before in self._options.items():
            found = self._rank(*key)
            if len(found) != len(before) or any(
                one is not other
                for ours, theirs in zip(found, before, strict=True)
                for one, other in zip(ours, theirs, strict=True)
            ):
                self._options[key] = found
                changed.add(key)
        if not changed:
            return []
        workloads = [job.workload for job in self.workloads.values()]
        return [workload for workload in workloads if self._wish(workload.request) in changed]

    def _wish(self, spec: Request) -> tuple[ProjectName, RequestClass]:
        """The project and the class of a request, as `options` are kept by."""
        return spec.project, self.class_of(spec, self.projects.get(spec.project))

    def _wished(self, spec: Request) -> Partition:
        """The partition to which a job that fits nowhere is assigned."""
        names = (*(spec.node_pools or ()), *(spec.gpu_types or ()))
        return next(
            (partition for partition in self.partitions[1:] if set(partition.key) & set(names)),
            self.partitions[0],
        )

    def choice(self, options: Options, workload: Workload, request: RequestClass) -> tuple[ProjectState, RequestClass]:
        """The partition in which a workload runs or is nominated for places; else the first of its options."""
        by_name = self.state.nodes.by_name
        for worker in (*workload.placement, *workload.nomination):
            node = by_name.get(worker.node)
            if node is not None:
                number, partition = next((n, g) for n, g in enumerate(self.partitions) if g.nodes & node.bit)
                return partition.projects[workload.request.project], self.request_classes.within(
                    request, number, partition.nodes
                )
        return options[0]

    def waiting_at(self, number: int) -> Waiting:
        """The jobs that wait, as they would queue in the partition that is their option of that number."""
        if not number:
            return self.waiting
        found: dict[ProjectState, dict[RequestClass, list[WorkloadState]]] = {}
        for classes in self.waiting.values():
            for jobs in classes.values():
                if number < len(jobs[0].options):
                    project, request = jobs[0].options[number]
                    lines_there = found.setdefault(project, {})
                    other = lines_there.get(request)
                    lines_there[request] = sorted([*other, *jobs], key=_by_urgency) if other else jobs
        return found

    def line(self, project: ProjectName) -> Line:
        """The places in line of the jobs of a project that wait, in whichever partition."""
        found = self._lines.get(project)
        if found is None:
            found = self._lines[project] = Line(self._classes_of(project))
        return found

    def positions(
        self, project: ProjectName, gone: Container[WorkloadId], held_before: HeldByUser
    ) -> Mapping[WorkloadId, int]:
        """The places of all jobs of a project that wait, counted without those that are `gone`."""
        return positions(self._classes_of(project), gone, held_before)

    def _classes_of(self, project: ProjectName) -> list[WaitingClass]:
        parts = [partition.projects[project] for partition in self.partitions]
        return [(part, jobs) for part in parts for jobs in self.waiting.get(part, {}).values()]

    def set_usage(self, usage: Mapping[ProjectName, float]) -> None:
        """Set recent use, by project, as a share of the pool."""
        if not usage and not self._usage:
            return
        self._usage = usage
        for partition in self.partitions:
            for name, project in partition.projects.items():
                project.usage = usage.get(name, 0.0)

    def share_out(self) -> None:
        """Find the fair shares of each partition.

        What jobs can't have in their first partition counts as demand in their next one, the most urgent jobs first.
        """
        if self._shares is not None:
            self._shares.share_out(self.partitions[0].capacity)
        else:
            self._share_out_all(self.pool.settings.time_aware)
        for tree in self.resources:
            tree.share_out()

    def _share_out_all(self, time_aware: float) -> None:
        for partition in self.partitions:
            for project in partition.projects.values():
                project.overflow = 0
            share_out(partition.roots, partition.capacity, time_aware)
        for number in range(1, len(self.partitions)):
            missing: dict[ProjectState, Milli] = {}
            classes = [(here, jobs) for here, by_class in self.waiting_at(number).items() for jobs in by_class.values()]
            for project, jobs in sorted(classes, key=lambda jobs: jobs[1][0].urgency):
                before, request = jobs[0].options[number - 1]
                left = missing.setdefault(before, max(0, before.demand + before.overflow - before.share))
                overflow = min(left, len(jobs) * max(request.gang_amount, request.workers * request.worker_amount))
                missing[before] -= overflow
                project.overflow += overflow
            for partition in self.partitions:
                share_out(partition.roots, partition.capacity, time_aware)
        if time_aware > 0:
            find_kept(self.partitions, time_aware)

    def frozen_projects(self) -> Mapping[ProjectState, ProjectState]:
        """Copies of all projects that do not change any more; where it is known which have changed, of these."""
        if self._shares is None or self.resources or self.state.limited:
            for partition in self.partitions:
                partition.changed.sums.update(partition.projects.values())
        for partition in self.partitions:
            self._frozen.update([(project, project.frozen()) for project in partition.changed.sums])
            if not self.resources:  # which may be counted no more
                partition.changed.sums.clear()
        return self._frozen.copy()

    def remove(self, id: WorkloadId) -> None:
        """A workload is gone (or never was)."""
        job = self.workloads.pop(id, None)
        if job is not None:
            self._remove(job)

    def _stand(self, job: WorkloadState) -> None:
        by_name = self.state.nodes.by_name
        known = tuple(
            [
                worker
                for worker in job.placement
                if (node := by_name.get(worker.node)) is not None
                and (not worker.gpus or max(worker.gpus) < node.spec.gpus)
            ]
        )
        if len(known) < len(job.placement):
            job.stands_at(known)
        self.state.load(job)
        if job.project is not None:
            if len(job.placement) < job.request.gang_size:
                self.reduced[job.id] = job
            if job.request.workers > job.request.gang_size:
                self.elastic[job.id] = job
            if job.releasing and job.workload.nomination and not job.project.children:
                self.nominations[job.id] = job

    def _remove(self, job: WorkloadState) -> None:
        self._lines.pop(job.workload.request.project, None)
        if job.workload.running:
            self.state.unload(job)
        elif job.project is not None and not job.project.children:
            classes = self.waiting[job.project]
            jobs = classes[job.request]
            _take_out(jobs, job)
            if not jobs:
                del classes[job.request]
                self._unsorted.pop(id(jobs), None)
                if not classes:
                    del self.waiting[job.project]
        self.patient.pop(job.id, None)
        for index in (self.sessions, self.elastic, self.reduced, self.nominations, self.homeless):
            index.pop(job.id, None)
        self._ask(job, -1)

    def _ask(self, job: WorkloadState, sign: int) -> None:
        """Its project wants what the job wants, or with -1 does not any more."""
        if job.project is not None:
            job.project.ask(sign * job.wanted)
            if self.by_level is not None:
                self.by_level.ask(job, sign)

    def prepare(self) -> None:
        """Make ready for a plan: sort the jobs of every class to which one was added, and assign GPUs to foreign
        use."""
        self.state.nodes.assign_foreign()
        for jobs in self._unsorted.values():
            jobs.sort(key=_by_urgency)
        self._unsorted.clear()


_by_urgency = attrgetter("urgency")


def _take_out(jobs: list[WorkloadState], job: WorkloadState) -> None:
    """Remove a job of a class, which is mostly in order."""
    place = bisect_left(jobs, job.urgency, key=_by_urgency)
    if place < len(jobs) and jobs[place] is job:
        del jobs[place]
    else:
        jobs.remove(job)
