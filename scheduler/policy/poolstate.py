"""The pool while a plan is made: nodes, projects, and which workloads run where.

Every change is a step recorded with its inverse, so a `Trial` can undo it: checkpoint, try, commit or roll back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from scheduler.model import GpuKey, Milli, WorkerPlacement, WorkloadId
from scheduler.policy.candidates import Candidates
from scheduler.policy.demands import GPUS_ONLY, Beside, Demand, amount_of, beside
from scheduler.policy.nodeindex import NodeIndex
from scheduler.policy.nodes import LATER, NodeState, When
from scheduler.policy.projects import ProjectState
from scheduler.policy.trials import Journal, Trial
from scheduler.policy.workloads import RequestClass, WorkloadState


class PoolState:
    """`standing` has the workloads on each node, `releasing` the workers that are leaving it, by workload.

    `limited` says that some project has a limit for some of the nodes, `beside` that CPUs or memory count. `gains`
    changes when somebody leaves: what did not fit before may fit then.
    """

    def __init__(self, nodes: NodeIndex) -> None:
        self.nodes = nodes
        self.candidates = defaultdict[ProjectState, Candidates](lambda: Candidates(nodes.by_name))
        self.standing = defaultdict[int, dict[WorkloadId, WorkloadState]](dict)
        self.releasing: dict[int, dict[WorkloadId, list[WorkerPlacement]]] = {}
        self.releasing_jobs: dict[WorkloadId, tuple[WorkloadState, int]] = {}
        self.gains = 0
        self.limited = False
        self.beside = False
        self._journal: Journal = []
        self._loading = False

    # -- trials -------------------------------------------------------------------------------------------

    def trial(self) -> Trial:
        """Steps to be tried: a context manager that rolls them back at its end unless it is committed."""
        return Trial(self._journal)

    def _did(self, inverse: Callable[..., None], *arguments: Any) -> None:
        self._journal.append((inverse, arguments))

    # -- what the snapshot says ---------------------------------------------------------------------------

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Many workloads are loaded: nodes are indexed and candidates sorted once, at the end."""
        self._loading = True
        with self.nodes.loading():
            yield
        self._loading = False
        for candidates in self.candidates.values():
            candidates.sort()

    def load(self, job: WorkloadState) -> None:
        """Place a running workload on its nodes. The inverse is `unload`."""
        if self.limited:
            self._count(job, job.placement, 1)
        if job.releasing:
            for worker, demand in job.standing:
                self.nodes.hold(worker, demand)
            self._mark_releasing(job, job.placement)
            self._charge_releasing(job, job.amount)
        else:
            for worker, demand in job.standing:
                self.nodes.occupy(worker, demand)
            self._charge(job, job.amount)
            self._list(job)
        if self.beside:
            self.charge_beside(job)

    def unload(self, job: WorkloadState) -> None:
        if self.limited:
            self._count(job, job.placement, -1)
        if job.releasing:
            for worker, demand in job.standing:
                self.nodes.unhold(worker, demand)
            self._unmark_releasing(job, job.placement)
            self._charge_releasing(job, -job.amount)
        else:
            for worker, demand in job.standing:
                self.nodes.vacate(worker, demand)
            self._charge(job, -job.amount)
            self._unlist(job)
        if self.beside:
            self.charge_beside(job, -1)

    # -- steps --------------------------------------------------------------------------------------------

    def seat(self, node: NodeState, demand: Demand, when: When, count: int = 1) -> list[WorkerPlacement]:
        """Workers take free places in a node that has them, in one link group if one takes them all."""
        workers, among = [], node.group_for(demand, when, count)
        for _ in range(count):
            worker = node.seat(demand, when, among)
            self.nodes.occupy(worker, demand)
            self._did(self.nodes.vacate, worker, demand)
            workers.append(worker)
        return workers

    def take_places(self, workers: Iterable[WorkerPlacement], request: RequestClass) -> bool:
        """Take exactly the places of a nomination. Returns whether they are available."""
        nodes = self.nodes
        workers = tuple(workers)
        standing = list(zip(workers, request.demands_of(len(workers)), strict=False))
        for worker in workers:
            node = nodes.by_name.get(worker.node)
            if node is None or not node.bit & request.eligible or any(g >= node.spec.gpus for g in worker.gpus):
                return False
        if len(workers) < request.gang_size or not self.has_place(standing):
            return False
        for worker, demand in standing:
            nodes.occupy(worker, demand)
            self._did(nodes.vacate, worker, demand)
        return True

    def keep(self, worker: WorkerPlacement) -> None:
        """Take free GPUs that somebody gets later."""
        self.nodes.occupy(worker, GPUS_ONLY)
        self._did(self.nodes.vacate, worker, GPUS_ONLY)

    def choose(self, job: WorkloadState, project: ProjectState, request: RequestClass) -> None:
        """A waiting job will run in the partition of this project and this request."""
        before = job.project, job.request
        job.project, job.request = project, request
        self._did(self._choose_again, job, before)

    def _choose_again(self, job: WorkloadState, choice: tuple[ProjectState | None, RequestClass]) -> None:
        job.project, job.request = choice

    def settle(self, job: WorkloadState, workers: Iterable[WorkerPlacement]) -> None:
        """A workload gets places that were taken for it before."""
        before, more = job.placement, tuple(workers)
        amount = amount_of(more)
        self._resize(job, (*before, *more), amount)
        self._did(self._resize, job, before, -amount)
        if self.limited:
            self._count(job, more, 1)
            self._did(self._count, job, more, -1)

    def release(self, job: WorkloadState) -> None:
        """A running job will stop: its places are free later, but not now."""
        self._unlist(job)
        for worker, demand in job.standing:
            self.nodes.leave(worker, demand)
        self._mark_releasing(job, job.placement)
        job.releasing = True
        self._charge(job, -job.amount)
        self._charge_releasing(job, job.amount)
        if self.beside:
            self._charge_beside(job, -1)
            self._charge_releasing_beside(job, job.beside, 1)
        self.gains += 1
        self._did(self._unrelease, job)

    def _unrelease(self, job: WorkloadState) -> None:
        self.gains -= 1
        if self.beside:
            self._charge_releasing_beside(job, job.beside, -1)
            self._charge_beside(job, 1)
        self._charge_releasing(job, -job.amount)
        self._charge(job, job.amount)
        job.releasing = False
        self._unmark_releasing(job, job.placement)
        for worker, demand in job.standing:
            self.nodes.stay(worker, demand)
        self._list(job)

    def reinstate(self, job: WorkloadState) -> None:
        """Undo `release` without undoing what came after it; `has_place` must hold."""
        self._unrelease(job)
        self._did(self._release_again, job)

    def _release_again(self, job: WorkloadState) -> None:
        self.release(job)
        self._journal.pop()

    @contextmanager
    def without_own(self, job: WorkloadState) -> Iterator[None]:
        """The places that a leaving job still holds are free, as they are for the job itself."""
        held = list(job.standing)
        for worker, demand in held:
            self.nodes.unhold(worker, demand)
        try:
            yield
        finally:
            for worker, demand in held:
                self.nodes.hold(worker, demand)

    def move(self, job: WorkloadState, workers: Iterable[WorkerPlacement]) -> None:
        """A job that leaves its places gets others, which were taken for it before."""
        before, amount = job.placement, job.amount
        job.releasing, job.moved = False, True
        job.placement = tuple(workers)
        job.amount = amount_of(job.placement)
        self._charge(job, job.amount)
        if self.beside:
            self._charge_beside(job, 1)
        self._did(self._unmove, job, before, amount)
        if self.limited:
            self._count(job, job.placement, 1)
            self._did(self._count, job, job.placement, -1)

    def _unmove(self, job: WorkloadState, before: tuple[WorkerPlacement, ...], amount: int) -> None:
        self._charge(job, -job.amount)
        if self.beside:
            self._charge_beside(job, -1)
        job.releasing, job.moved = True, False
        job.placement, job.amount = before, amount

    def shrink(self, job: WorkloadState, worker: WorkerPlacement) -> None:
        """An elastic job gives back one worker."""
        before = job.placement
        index = before.index(worker)
        self.nodes.leave(worker, job.request.demand)
        self._mark_releasing(job, (worker,))
        self._resize(job, before[:index] + before[index + 1 :], -amount_of((worker,)))
        self._charge_releasing(job, amount_of((worker,)))
        if self.beside:
            self._charge_releasing_beside(job, beside((job.request.demand,)), 1)
        self.gains += 1
        self._did(self._unshrink, job, worker, before)

    def _unshrink(self, job: WorkloadState, worker: WorkerPlacement, before: tuple[WorkerPlacement, ...]) -> None:
        self.gains -= 1
        if self.beside:
            self._charge_releasing_beside(job, beside((job.request.demand,)), -1)
        self._charge_releasing(job, -amount_of((worker,)))
        self._resize(job, before, amount_of((worker,)))
        self._unmark_releasing(job, (worker,))
        self.nodes.stay(worker, job.request.demand)

    def regrow(self, job: WorkloadState, worker: WorkerPlacement) -> None:
        """Undo `shrink` without undoing what came after it; `has_place` must hold."""
        self._unshrink(job, worker, (*job.placement, worker))
        self._did(self._shrink_again, job, worker)

    def _shrink_again(self, job: WorkloadState, worker: WorkerPlacement) -> None:
        self.shrink(job, worker)
        self._journal.pop()

    # -- questions ----------------------------------------------------------------------------------------

    def has_place(self, workers: Iterable[tuple[WorkerPlacement, Demand]]) -> bool:
        """Whether all of these could (later) run where they ran."""
        held_beside: dict[str, tuple[int, int]] = {}
        shares: dict[GpuKey, Milli] = {}
        for worker, demand in workers:
            node = self.nodes.by_name[worker.node]
            for gpu in worker.gpus:
                key = GpuKey((worker.node, gpu))
                share = shares[key] = shares.get(key, 0) + worker.share
                if node.share_free(gpu, LATER) < share:
                    return False
            cpus, memory = held_beside.get(worker.node, (0, 0))
            cpus, memory = held_beside[worker.node] = (cpus + demand.cpus, memory + demand.memory)
            if (cpus and cpus > node.cpus) or (memory and memory > node.memory):
                return False
        return True

    def in_the_way(self, workers: Iterable[WorkerPlacement]) -> set[WorkloadId]:
        """The jobs that stop or shrink and still hold what these workers are nominated for."""
        found: set[WorkloadId] = set()
        for worker in workers:
            node = self.nodes.by_name[worker.node]
            for name, held in self.releasing.get(node.index, {}).items():
                if (
                    node.cpus < node.releasing_cpus
                    or node.memory < node.releasing_memory
                    or any(node.collide(each, worker) for each in held)
                ):
                    found.add(name)
        return found

    def over_limit_until(self, project: ProjectState) -> set[WorkloadId]:
        """The releasing jobs that must end before a project of this path is within its limit again."""
        paths = [project.path, *[state.path for state in project.beside]]
        full = {
            step for path in paths for step in path if step.releasing and step.allocated + step.releasing > step.limit
        }
        if not full:
            return set()
        return {
            job.id
            for job, _ in self.releasing_jobs.values()
            if job.project is not None
            and any(not full.isdisjoint(state.path) for state in (job.project, *job.project.beside))
        }

    # -- sums ---------------------------------------------------------------------------------------------

    def _resize(self, job: WorkloadState, placement: tuple[WorkerPlacement, ...], change: int) -> None:
        self._unlist(job)
        if self.beside and job.placement:
            self._charge_beside(job, -1)
        job.placement = placement
        job.amount += change
        self._charge(job, change)
        if self.beside:
            self._charge_beside(job, 1)
        self._list(job)

    def _charge(self, job: WorkloadState, amount: int) -> None:
        if job.project is not None and amount:
            job.project.allocate(amount, not job.preemptible)
            if job.project.held is not None:
                job.project.allocate_to(job.workload.request.user, amount)

    def charge_beside(self, job: WorkloadState, sign: int = 1) -> None:
        """Count the CPUs and the memory of a workload, as they are held or about to be released; or no longer."""
        if job.releasing:
            self._charge_releasing_beside(job, job.beside, sign)
        else:
            self._charge_beside(job, sign)

    def _charge_beside(self, job: WorkloadState, sign: int) -> None:
        if job.project is not None:
            job.project.allocate_beside(job.beside, sign, not job.preemptible)

    def _charge_releasing_beside(self, job: WorkloadState, held: Beside, sign: int) -> None:
        if job.project is not None:
            job.project.allocate_releasing_beside(held, sign)

    def _count(self, job: WorkloadState, workers: tuple[WorkerPlacement, ...], sign: int) -> None:
        """Record what a job holds (or no longer holds) on the nodes for which its projects have a limit."""
        for step in job.project.path if job.project is not None else ():
            for quota in step.quotas:
                for worker in workers:
                    if self.nodes.by_name[worker.node].bit & quota.mask:
                        quota.allocated += sign * amount_of((worker,))

    def _charge_releasing(self, job: WorkloadState, amount: int) -> None:
        if job.project is not None and amount:
            job.project.allocate_releasing(amount)

    def _list(self, job: WorkloadState) -> None:
        """Record the nodes of a workload; a running job that may be preempted is a candidate."""
        for node in [self.nodes.by_name[worker.node] for worker in job.placement]:
            node.version += 1
            self.standing[node.index][job.id] = job
        if job.project is not None and job.preemptible and job.workload.running:
            candidates = self.candidates[job.project]
            if self._loading:
                candidates.append(job)
            else:
                candidates.add(job)

    def _unlist(self, job: WorkloadState) -> None:
        for worker in job.placement:
            self.standing[self.nodes.by_name[worker.node].index].pop(job.id, None)
        if job.project is not None and job.preemptible and job.workload.running:
            self.candidates[job.project].remove(job)

    def _mark_releasing(self, job: WorkloadState, workers: tuple[WorkerPlacement, ...]) -> None:
        for worker in workers:
            index = self.nodes.by_name[worker.node].index
            self.releasing.setdefault(index, {}).setdefault(job.id, []).append(worker)
        _, count = self.releasing_jobs.get(job.id, (job, 0))
        self.releasing_jobs[job.id] = job, count + len(workers)

    def _unmark_releasing(self, job: WorkloadState, workers: tuple[WorkerPlacement, ...]) -> None:
        for worker in workers:
            index = self.nodes.by_name[worker.node].index
            node = self.releasing[index]
            node[job.id].remove(worker)
            if not node[job.id]:
                del node[job.id]
                if not node:
                    del self.releasing[index]
        _, count = self.releasing_jobs.pop(job.id)
        if count > len(workers):
            self.releasing_jobs[job.id] = job, count - len(workers)
