"""Places for workers of several shapes together, by a bounded search.

Placing one group after another, each as close together as possible, sometimes fails although another order would
succeed: two machines with 8 and 6 free GPUs take 4 + 3 and 3 + 3, but not if 4 goes to the fuller one first. The search
does not repeat what failed with the same number of machines of each free amount, so small gangs are judged exactly. A
count bounds it.
"""

from __future__ import annotations

from scheduler.model import WorkerPlacement
from scheduler.policy.nodes import Key, NodeState, When
from scheduler.policy.poolstate import PoolState
from scheduler.policy.sets import NodeSet
from scheduler.policy.workloads import RequestClass

WORKERS = 64
"""Gangs of more workers are not searched for."""


class Packing:
    """The search for one gang, in one domain after the other; `steps` is how many places it may still try."""

    def __init__(self, state: PoolState, request: RequestClass, when: When, steps: int) -> None:
        self.state = state
        self.when = when
        self.steps = steps if request.gang_size <= WORKERS else 0
        self.workers = [(number, group) for number, group in request.largest_first for _ in range(group.gang_size)]

    def within(self, mask: NodeSet) -> dict[int, list[WorkerPlacement]] | None:
        """The workers of each group, all in nodes of `mask`. None, with nothing taken, if there are no places."""
        found: list[WorkerPlacement] = []
        if mask.bit_count() < 2 or not self._seat(found, mask, set()):
            return None
        groups: dict[int, list[WorkerPlacement]] = {}
        for (number, _), worker in zip(self.workers, found, strict=True):
            groups.setdefault(number, []).append(worker)
        return groups

    def _seat(self, found: list[WorkerPlacement], mask: NodeSet, in_vain: set[object]) -> bool:
        if len(found) == len(self.workers):
            return True
        group = self.workers[len(found)][1]
        buckets = self.state.nodes.buckets[self.when]
        here: list[tuple[Key, NodeSet]] = sorted((key, bits & mask) for key, bits in buckets.items() if bits & mask)
        name = (len(found), tuple([(key, bits.bit_count()) for key, bits in here]))
        if name in in_vain:
            return False
        for node in self._nodes(group, here, mask):
            if self.steps <= 0:
                return False
            self.steps -= 1
            with self.state.trial() as trial:
                found.extend(self.state.seat(node, group.demand, self.when))
                if self._seat(found, mask, in_vain):
                    trial.commit()
                    return True
                found.pop()
        in_vain.add(name)
        return False

    def _nodes(self, group: RequestClass, here: list[tuple[Key, NodeSet]], mask: NodeSet) -> list[NodeState]:
        """One node for each free amount, the fullest first; for workers without whole GPUs only the best node."""
        nodes, demand, mask = self.state.nodes, group.demand, mask & group.eligible
        if not demand.whole:
            best = nodes.best(demand, mask, self.when, False)
            return [] if best is None else [best]
        first = [
            next((node for node in nodes.each(bits & mask) if node.takes_beside(demand, self.when)), None)
            for key, bits in here
            if key[0] >= demand.whole
        ]
        return [node for node in first if node is not None]
