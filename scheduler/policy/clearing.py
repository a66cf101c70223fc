"""Clearing nodes for the workers of a newcomer: which candidates clear a node, and what that would lose."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import takewhile

from scheduler.model import ONE, WorkerPlacement
from scheduler.policy.demands import Demand
from scheduler.policy.eligibility import EligibilityRules
from scheduler.policy.evictions import NOTHING_LOST, Eviction, Floor, VictimClass, WholeJobs, make
from scheduler.policy.nodecounts import NodeCounts
from scheduler.policy.nodes import LATER, NodeState
from scheduler.policy.nodetrial import NodeTrial
from scheduler.policy.poolstate import PoolState
from scheduler.policy.projects import ProjectState
from scheduler.policy.sets import NodeSet
from scheduler.policy.workloads import WorkloadState


class SearchState:
    """The trials of one search: what each node would be without the candidates considered, and which nodes are
    cleared.

    The trial of a node begins when the candidates considered hold enough GPUs there to clear it. Until then, candidates
    are passed over: those of a class on nodes that it can't clear, and those of the latest class (`_waiting`) until
    they are enough. `_most` is what is free with all of the classes so far gone, `_before` without the latest.
    """

    def __init__(self, state: PoolState, rules: EligibilityRules, demand: Demand, mask: NodeSet, together: int) -> None:
        self.state = state
        self.rules = rules
        self.demand = demand
        self.together = together
        self.mask = mask
        self.needed = demand.whole * together
        self._by_gpus = self.needed > 0 and not (demand.cpus or demand.memory)
        self.trials: dict[int, NodeTrial] = {}
        self._most: NodeCounts | None = None
        self._before = NodeCounts()
        self._waiting: dict[int, list[Eviction]] = {}
        self._lacking: dict[int, int] = {}
        self._passed: list[tuple[VictimClass, Floor]] = []
        self._whole: dict[tuple[ProjectState, int], list[int]] = {}
        self._listed: list[int] = []
        self._refused = False
        self.cleared: list[tuple[tuple[float, int], int]] = []
        self.workers: list[WorkerPlacement] = []
        self.evictions: list[Eviction] = []
        self.seated = 0

    def use_free(self, count: int) -> None:
        """Place what fits without evictions."""
        nodes = self.state.nodes
        while self.seated < count:
            node = nodes.together(self.demand, self.together, self.mask, LATER)
            if node is None:
                return
            self._seat(node)

    def _seat(self, node: NodeState) -> None:
        self.workers.extend(self.state.seat(node, self.demand, LATER, self.together))
        self.seated += 1

    def _free(self) -> NodeCounts:
        """How many GPUs are free on each node."""
        free = self.state.nodes.buckets[LATER].items()
        return NodeCounts.apart((nodes, key[0]) for key, nodes in free)

    def may_seat(self, count: int, classes: Iterable[VictimClass]) -> bool:
        """A quick look: False where the workers would not fit even if all candidates were gone, judged by GPUs."""
        if self.needed < 2:
            return True
        most = self._free()
        for members in classes:
            members.count(most)
        places = (most.at_least(times * self.needed) & self.mask for times in range(1, count - self.seated + 1))
        return sum(nodes.bit_count() for nodes in takewhile(bool, places)) >= count - self.seated

    def may_be_cleared(self, members: VictimClass) -> NodeSet:
        """The nodes that may be cleared by candidates of one more class and those before them, judged by GPUs."""
        if self.needed < 2:
            return self.mask  # any candidate might
        if self._most is None:
            self._most = self._free()
        self._before = self._most.copy()
        self._waiting = {}
        members.count(self._most)
        return self._most.at_least(self.needed) & self.mask

    def passed(self, members: VictimClass, floor: Floor) -> None:
        """All candidates of a class were considered, on nodes that may be cleared."""
        at = len(self._passed)
        self._passed.append((members, floor))
        if isinstance(members, WholeJobs):
            for project in members.projects:
                self._whole.setdefault((project, members.priority), []).append(at)
        else:
            self._listed.append(at)

    def more_with_crossing(self) -> bool:
        """Whether candidates that were considered before may be allowed if floors may be crossed."""
        return self.rules.some_cross or self._refused or bool(self.evictions)

    def take_alone(self, eviction: Eviction, floor: Floor, count: int) -> bool:
        """Whether a candidate clears its node alone. If so its place is taken at once, for as many of `count` workers
        as it has room for: none of those that come after it loses less."""
        workers = eviction.workers
        if not self._by_gpus or len(workers) > 1 or workers[0].share < ONE:
            return False
        node = self.state.nodes.by_name[workers[0].node]
        if (
            node.index in self.trials
            or node.keys[LATER][0] + len(workers[0].gpus) < self.needed
            or not self.mask & node.bit
            or not self.rules.may_lose(eviction, NOTHING_LOST, floor)
        ):
            return False
        make(self.state, eviction)
        self.evictions.append(eviction)
        while self.seated < count and node.keys[LATER][0] >= self.needed:
            self._seat(node)
        return True

    def consider(self, eviction: Eviction, floor: Floor, nodes: NodeSet) -> None:
        """Try a candidate on each of its nodes that may be cleared."""
        by_name = self.state.nodes.by_name
        workers = eviction.workers
        names = (workers[0].node,) if len(workers) == 1 else {worker.node: None for worker in workers}
        for name in names:
            node = by_name[name]
            if nodes & node.bit:
                trial = self.trials.get(node.index)
                if trial is not None:
                    self._try(trial, eviction, floor)
                else:
                    self._wait(node, eviction, floor)

    def _wait(self, node: NodeState, eviction: Eviction, floor: Floor) -> None:
        """Begin the trial of a node once its candidates hold enough GPUs to clear it."""
        index = node.index
        waiting = self._waiting.get(index)
        if waiting is None:
            waiting = self._waiting[index] = []
            self._lacking[index] = self.lacking(index)
        waiting.append(eviction)
        self._lacking[index] -= sum([len(worker.gpus) for worker in eviction.workers if worker.node == node.name])
        if self._lacking[index] <= 0:
            trial = self._begin(node)
            for other in waiting:
                if not other.gone:
                    self._try(trial, other, floor)

    def lacking(self, index: int) -> int:
        """How many GPUs candidates of the latest class must hold on a node to clear it."""
        return self.needed - self._before.at(index) if self.needed > 1 else 0

    def _begin(self, node: NodeState) -> NodeTrial:
        """A trial of the candidates of this node that were passed over before."""
        trial = self.trials[node.index] = NodeTrial(node)
        if self._passed:
            jobs = {at: list[WorkloadState]() for at in self._listed}
            for job in self.state.standing.get(node.index, {}).values():
                if job.project is not None:
                    for at in self._whole.get((job.project, job.priority), ()):
                        jobs.setdefault(at, []).append(job)
            for at in sorted(jobs):
                members, floor = self._passed[at]
                for eviction in members.on(node, jobs[at]):
                    if not eviction.gone:
                        self._try(trial, eviction, floor)
        return trial

    def _try(self, trial: NodeTrial, eviction: Eviction, floor: Floor) -> None:
        if not trial.cleared and trial.take(eviction, self.rules, floor):
            if trial.fits(self.demand, self.together):
                trial.drop_unneeded(self.rules, self.demand, self.together)
                self._push(trial)
        elif trial.cleared or trial.refused_for_others(eviction, self.rules, floor):
            self._refused |= not trial.cleared
            if trial.improve(eviction, floor, self.rules, self.demand, self.together):
                self._push(trial)

    def _push(self, trial: NodeTrial) -> None:
        trial.cleared = True
        heapq.heappush(self.cleared, (trial.cost(), trial.node.index))

    def cheapest(self) -> tuple[float, int]:
        """The work that the cheapest cleared node loses, and how many evictions lose it."""
        return self.cleared[0][0] if self.cleared else (float("inf"), 0)

    def take(self, count: int) -> None:
        """Apply the evictions of the cheapest cleared node, and place one more worker of `count` there."""
        cost, index = heapq.heappop(self.cleared)
        trial = self.trials[index]
        if not trial.cleared or trial.cost() != cost:
            return  # a better way to clear this node was found meanwhile
        trial.cleared = False
        if not trial.still_stands(self.rules, self.demand, self.together):
            self._look_again(trial)
            return
        made = trial.made()
        for eviction in made:
            make(self.state, eviction)
        self.evictions.extend(made)
        self._seat(trial.node)
        if self.seated == count:
            return
        nodes = {self.state.nodes.by_name[worker.node].index for eviction in made for worker in eviction.workers}
        for changed in sorted({index, *nodes}):
            other = self.trials.get(changed)
            if other is not None and not other.cleared:
                self._look_again(other)

    def _look_again(self, trial: NodeTrial) -> None:
        """The node has changed: start its trial again with the candidates considered."""
        trial.begin_again(self.rules, self.demand, self.together)
        if trial.fits(self.demand, self.together):
            trial.drop_unneeded(self.rules, self.demand, self.together)
            self._push(trial)
