"""The pool while a plan is made of it: nodes, projects and who stands where.

Every change goes through a step that is written down with its inverse; `undo` takes steps back to a mark. So a trial
is: mark, try, and keep it or undo it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from scheduler.model import ONE, WorkerPlacement
from scheduler.policy.candidates import Candidates
from scheduler.policy.demands import Demand, amount_of
from scheduler.policy.nodes import NodeIndex, NodeState
from scheduler.policy.projects import ProjectState
from scheduler.policy.work import RequestClass, Work


class State:
    """`standing` has the works in each node, `leaving` the workers on their way out of it, by whose they are.

    `limited` says that some project has a limit for some of the nodes. `gains` changes when somebody leaves: what did not
    fit before may fit then.
    """

    def __init__(self, nodes: NodeIndex) -> None:
        self.nodes = nodes
        self.candidates: dict[ProjectState, Candidates] = {}
        self.standing: dict[int, dict[str, Work]] = {}
        self.releasing: dict[int, dict[str, list[WorkerPlacement]]] = {}
        self.releasing_work: dict[str, tuple[Work, int]] = {}
        self.gains = 0
        self.limited = False
        self._journal: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    # -- trials -------------------------------------------------------------------------------------------

    def mark(self) -> int:
        return len(self._journal)

    def undo(self, mark: int) -> None:
        """Take back every step since `mark`."""
        journal = self._journal
        while len(journal) > mark:
            step, arguments = journal.pop()
            step(*arguments)

    def _did(self, inverse: Callable[..., None], *arguments: Any) -> None:
        self._journal.append((inverse, arguments))

    # -- what the snapshot says ---------------------------------------------------------------------------

    def load(self, work: Work) -> None:
        """Put a running workload where it stands. The inverse is `unload`."""
        if self.limited:
            self._count(work, work.placement, 1)
        if work.releasing:
            for worker, demand in work.standing:
                self.nodes.hold(worker, demand)
            self._mark_releasing(work, work.placement)
            self._charge_releasing(work, work.amount)
        else:
            for worker, demand in work.standing:
                self.nodes.occupy(worker, demand)
            self._charge(work, work.amount)
            self._list(work)

    def unload(self, work: Work) -> None:
        if self.limited:
            self._count(work, work.placement, -1)
        if work.releasing:
            for worker, demand in work.standing:
                self.nodes.unhold(worker, demand)
            self._unmark_releasing(work, work.placement)
            self._charge_releasing(work, -work.amount)
        else:
            for worker, demand in work.standing:
                self.nodes.vacate(worker, demand)
            self._charge(work, -work.amount)
            self._unlist(work)

    # -- steps --------------------------------------------------------------------------------------------

    def seat(self, node: NodeState, demand: Demand, later: bool) -> WorkerPlacement:
        """A worker takes a place in a node that has one for it."""
        worker = node.seat(demand, later)
        self.nodes.occupy(worker, demand)
        self._did(self.nodes.vacate, worker, demand)
        return worker

    def take_places(self, workers: Iterable[WorkerPlacement], request: RequestClass) -> bool:
        """Take the very places that were promised; whether they could be had."""
        nodes = self.nodes
        workers = tuple(workers)
        standing = list(zip(workers, request.demands_of(len(workers)), strict=False))
        for worker in workers:
            node = nodes.by_name.get(worker.node)
            if (
                node is None
                or not node.bit & request.eligible
                or any(g >= node.spec.gpus for g in worker.gpus)
            ):
                return False
        if len(workers) < request.gang_size or not self.has_place(standing):
            return False
        for worker, demand in standing:
            nodes.occupy(worker, demand)
            self._did(nodes.vacate, worker, demand)
        return True

    def choose(self, work: Work, project: ProjectState, request: RequestClass) -> None:
        """A work that waits is to run in the partition that this project and this request are for."""
        before = work.project, work.request
        work.project, work.request = project, request
        self._did(self._choose_again, work, before)

    def _choose_again(self, work: Work, choice: tuple[ProjectState | None, RequestClass]) -> None:
        work.project, work.request = choice

    def settle(self, work: Work, workers: Iterable[WorkerPlacement]) -> None:
        """A work gets places that have been taken for it already."""
        before, more = work.placement, tuple(workers)
        self._resize(work, (*before, *more), amount_of(more))
        self._did(self._resize, work, before, -amount_of(more))
        if self.limited:
            self._count(work, more, 1)
            self._did(self._count, work, more, -1)

    def release(self, work: Work) -> None:
        """A running work gives back what it holds; until it is gone it is in the way."""
        self._unlist(work)
        for worker, demand in work.standing:
            self.nodes.vacate(worker, demand)
            self.nodes.hold(worker, demand)
        self._mark_releasing(work, work.placement)
        work.releasing = True
        self._charge(work, -work.amount)
        self._charge_releasing(work, work.amount)
        self.gains += 1
        self._did(self._unrelease, work)

    def _unrelease(self, work: Work) -> None:
        self.gains -= 1
        self._charge_releasing(work, -work.amount)
        self._charge(work, work.amount)
        work.releasing = False
        self._unmark_releasing(work, work.placement)
        for worker, demand in work.standing:
            self.nodes.unhold(worker, demand)
            self.nodes.occupy(worker, demand)
        self._list(work)

    def reinstate(self, work: Work) -> None:
        """Undo `release` without undoing what came after it; `has_place` must hold."""
        self._unrelease(work)
        self._did(self._release_again, work)

    def _release_again(self, work: Work) -> None:
        self.release(work)
        self._journal.pop()

    def move(self, work: Work, workers: Iterable[WorkerPlacement]) -> None:
        """A work that leaves where it stood gets other places, which have been taken for it already."""
        before, amount = work.placement, work.amount
        work.releasing, work.moved = False, True
        work.placement = tuple(workers)
        work.amount = amount_of(work.placement)
        self._charge(work, work.amount)
        self._did(self._unmove, work, before, amount)
        if self.limited:
            self._count(work, work.placement, 1)
            self._did(self._count, work, work.placement, -1)

    def _unmove(self, work: Work, before: tuple[WorkerPlacement, ...], amount: int) -> None:
        self._charge(work, -work.amount)
        work.releasing, work.moved = True, False
        work.placement, work.amount = before, amount

    def shrink(self, work: Work, worker: WorkerPlacement) -> None:
        """An elastic job gives back one worker."""
        before = work.placement
        index = before.index(worker)
        self.nodes.vacate(worker, work.request.demand)
        self.nodes.hold(worker, work.request.demand)
        self._mark_releasing(work, (worker,))
        self._resize(work, before[:index] + before[index + 1 :], -amount_of((worker,)))
        self._charge_releasing(work, amount_of((worker,)))
        self.gains += 1
        self._did(self._unshrink, work, worker, before)

    def _unshrink(self, work: Work, worker: WorkerPlacement, before: tuple[WorkerPlacement, ...]) -> None:
        self.gains -= 1
        self._charge_releasing(work, -amount_of((worker,)))
        self._resize(work, before, amount_of((worker,)))
        self._unmark_releasing(work, (worker,))
        self.nodes.unhold(worker, work.request.demand)
        self.nodes.occupy(worker, work.request.demand)

    def regrow(self, work: Work, worker: WorkerPlacement) -> None:
        """Undo `shrink` without undoing what came after it; `has_place` must hold."""
        self._unshrink(work, worker, (*work.placement, worker))
        self._did(self._shrink_again, work, worker)

    def _shrink_again(self, work: Work, worker: WorkerPlacement) -> None:
        self.shrink(work, worker)
        self._journal.pop()

    # -- questions ----------------------------------------------------------------------------------------

    def has_place(self, workers: Iterable[tuple[WorkerPlacement, Demand]]) -> bool:
        """Whether all of these could stand (later) where they stood."""
        beside: dict[str, tuple[int, int]] = {}
        shares: dict[tuple[str, int], int] = {}
        for worker, demand in workers:
            node = self.nodes.by_name[worker.node]
            for gpu in worker.gpus:
                share = shares[worker.node, gpu] = shares.get((worker.node, gpu), 0) + worker.share
                if node.share_free(gpu, True) < share:
                    return False
            cpus, memory = beside.get(worker.node, (0, 0))
            cpus, memory = beside[worker.node] = (cpus + demand.cpus, memory + demand.memory)
            if cpus > node.cpus or memory > node.memory:
                return False
        return True

    def in_the_way(self, workers: Iterable[WorkerPlacement]) -> set[str]:
        """The works that leave or shrink and hold what these workers are to have."""
        found: set[str] = set()
        for worker in workers:
            node = self.nodes.by_name[worker.node]
            for name, held in self.releasing.get(node.index, {}).items():
                if (
                    node.cpus < node.releasing_cpus
                    or node.memory < node.releasing_memory
                    or any(_collide(other, worker, node) for other in held)
                ):
                    found.add(name)
        return found

    def over_limit_until(self, project: ProjectState) -> set[str]:
        """The leaving works whose end a project of this path must await, lest it holds more than its limit."""
        full = [
            step for step in project.path if step.releasing and step.allocated + step.releasing > step.limit
        ]
        if not full:
            return set()
        return {
            work.id
            for work, _ in self.releasing_work.values()
            if work.project is not None and any(step in work.project.path for step in full)
        }

    # -- sums ---------------------------------------------------------------------------------------------

    def _resize(self, work: Work, placement: tuple[WorkerPlacement, ...], change: int) -> None:
        self._unlist(work)
        work.placement = placement
        work.amount += change
        self._charge(work, change)
        self._list(work)

    def _charge(self, work: Work, amount: int) -> None:
        if work.project is not None and amount:
            work.project.allocate(amount, not work.preemptible)

    def _count(self, work: Work, workers: tuple[WorkerPlacement, ...], sign: int) -> None:
        """Note what a work holds (or holds no more) in the nodes for which its projects have a limit."""
        for step in work.project.path if work.project is not None else ():
            for quota in step.quotas:
                for worker in workers:
                    if self.nodes.by_name[worker.node].bit & quota.mask:
                        quota.allocated += sign * amount_of((worker,))

    def _charge_releasing(self, work: Work, amount: int) -> None:
        if work.project is not None and amount:
            work.project.allocate_releasing(amount)

    def _list(self, work: Work) -> None:
        """Note where a work stands; a running job that may be preempted is a candidate."""
        for worker in work.placement:
            self.standing.setdefault(self.nodes.by_name[worker.node].index, {})[work.id] = work
        if work.project is not None and work.preemptible and work.workload.running:
            self.candidates.setdefault(work.project, Candidates()).add(work)

    def _unlist(self, work: Work) -> None:
        for worker in work.placement:
            self.standing[self.nodes.by_name[worker.node].index].pop(work.id, None)
        if work.project is not None and work.preemptible and work.workload.running:
            self.candidates[work.project].remove(work)

    def _mark_releasing(self, work: Work, workers: tuple[WorkerPlacement, ...]) -> None:
        for worker in workers:
            index = self.nodes.by_name[worker.node].index
            self.releasing.setdefault(index, {}).setdefault(work.id, []).append(worker)
        _, count = self.releasing_work.get(work.id, (work, 0))
        self.releasing_work[work.id] = work, count + len(workers)

    def _unmark_releasing(self, work: Work, workers: tuple[WorkerPlacement, ...]) -> None:
        for worker in workers:
            index = self.nodes.by_name[worker.node].index
            node = self.releasing[index]
            node[work.id].remove(worker)
            if not node[work.id]:
                del node[work.id]
                if not node:
                    del self.releasing[index]
        _, count = self.releasing_work.pop(work.id)
        if count > len(workers):
            self.releasing_work[work.id] = work, count - len(workers)


def _collide(one: WorkerPlacement, other: WorkerPlacement, node: NodeState) -> bool:
    """Whether two workers can't hold their GPUs at the same time."""
    shared = set(one.gpus) & set(other.gpus)
    return any(one.share == ONE or other.share == ONE or node.share_free(gpu, False) < 0 for gpu in shared)
