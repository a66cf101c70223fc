"""Trying a node: what would be free on it without some of the workloads there."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.model import ONE, WorkerPlacement
from scheduler.policy.demands import Demand
from scheduler.policy.eligibility import EligibilityRules
from scheduler.policy.evictions import NOTHING_LOST, Eviction, Floor, Losses, note_loss
from scheduler.policy.nodes import LATER, NodeState
from scheduler.policy.sets import FIRST_GPU
from scheduler.policy.workloads import WorkloadState


class NodeTrial:
    """`evictions` are taken on trial, in order of rank; `spare` were looked at and turned out not to be needed
    (yet)."""

    __slots__ = (
        "_seen",
        "_surplus",
        "cleared",
        "cpus",
        "evictions",
        "free",
        "losses",
        "memory",
        "node",
        "shares",
        "spare",
    )

    def __init__(self, node: NodeState) -> None:
        self.node = node
        self.cleared = False
        self.spare: list[tuple[Eviction, Floor]] = []
        self._open()

    def _open(self) -> None:
        node = self.node
        self.free = node.free(LATER)
        self.shares = dict(node.shares) if node.shares else {}
        if node.foreign:
            self._add_foreign()
        self.cpus = node.cpus
        self.memory = node.memory
        self.evictions: list[tuple[Eviction, Floor]] = []
        self.losses: Losses = {}
        self._seen: set[tuple[str, int]] = set()
        self._surplus = False

    def _add_foreign(self) -> None:
        """What others use of shared GPUs stays in use; a GPU that a workload holds whole is not shared."""
        node = self.node
        for gpu, share in node.foreign.items():
            held_whole = node.taken >> gpu & 1 and gpu not in node.shares
            self.shares[gpu] = ONE if held_whole else self.shares.get(gpu, 0) + share

    def take(self, eviction: Eviction, rules: EligibilityRules, floor: Floor) -> bool:
        """Try one more eviction, if the rules allow it; whether that was done."""
        name = _name(eviction)
        if name in self._seen or not self._has(eviction) or not rules.may_lose(eviction, self.losses, floor):
            return False
        if eviction.worker is not None:
            self._surplus = True
        elif self._surplus and any(other.job is eviction.job for other, _ in self.evictions):
            self._instead_of_surplus(eviction, floor)
            return True
        self._seen.add(name)
        self.evictions.append((eviction, floor))
        self._free(eviction, 1)
        return True

    def refused_for_others(self, eviction: Eviction, rules: EligibilityRules, floor: Floor) -> bool:
        """Whether an eviction that the rules do not allow now would be allowed alone."""
        return (
            bool(self.evictions)
            and _name(eviction) not in self._seen
            and self._has(eviction)
            and rules.may_lose(eviction, NOTHING_LOST, floor)
        )

    def _has(self, eviction: Eviction) -> bool:
        """Whether that worker may still go: an elastic job keeps its minimum until it goes whole, with all its
        workers."""
        if eviction.worker is None:
            return True
        evicted_before = [other for other, _ in self.evictions if other.job is eviction.job]
        if any(other.worker is None for other in evicted_before):
            return False
        return (
            len(evicted_before) < len(eviction.job.placement) - eviction.job.request.gang_size
            and eviction.worker in eviction.job.placement
        )

    def _instead_of_surplus(self, eviction: Eviction, floor: Floor) -> None:
        """Stop a whole job of which surplus workers were tried before."""
        for other, _ in [entry for entry in self.evictions if entry[0].job is eviction.job]:
            self._free(other, -1)
        self.evictions = [entry for entry in self.evictions if entry[0].job is not eviction.job]
        self._seen.add((eviction.job.id, 0))
        self.evictions.append((eviction, floor))
        self._free(eviction, 1)

    def _free(self, eviction: Eviction, sign: int) -> None:
        """Free (1) or fill again (-1) what an eviction gives back on this node, and note what its projects lose."""
        self._give_back(eviction.standing, sign)
        note_loss(self.losses, eviction, sign)

    def vacate(self, job: WorkloadState) -> None:
        """Free what a workload holds on this node."""
        self._give_back(job.standing, 1)

    def _give_back(self, standing: Iterable[tuple[WorkerPlacement, Demand]], sign: int) -> None:
        here, every = self.node.name, self.node.every
        for worker, demand in standing:
            if worker.node != here:
                continue
            self.cpus += sign * demand.cpus
            self.memory += sign * demand.memory
            if worker.share == ONE:
                for gpu in worker.gpus:
                    self.free ^= FIRST_GPU << gpu & every
                continue
            for gpu in worker.gpus:
                used = self.shares[gpu] = self.shares.get(gpu, 0) - sign * worker.share
                if used:
                    self.free &= ~(FIRST_GPU << gpu)
                else:
                    self.free |= FIRST_GPU << gpu

    def fits(self, demand: Demand, count: int) -> bool:
        """Whether `count` workers would fit."""
        if demand.cpus and demand.cpus * count > self.cpus:
            return False
        if demand.memory and demand.memory * count > self.memory:
            return False
        if not demand.partial:
            return self.free.bit_count() >= demand.whole * count
        share = demand.share_on(self.node.spec)
        if share > ONE:
            return False
        shared = [ONE - used for used in self.shares.values() if 0 < used < ONE]
        return self.free.bit_count() * (ONE // share) + sum([left // share for left in shared]) >= count

    def drop_unneeded(self, rules: EligibilityRules, demand: Demand, count: int) -> None:
        """Fill again, the last first, whoever is not in the way of `count` workers."""
        kept: list[tuple[Eviction, Floor]] = []
        for number, (eviction, floor) in reversed(list(enumerate(self.evictions))):
            self._give_back(eviction.standing, -1)
            if self.fits(demand, count) and self._allowed([*self.evictions[:number], *kept[::-1]], rules):
                note_loss(self.losses, eviction, -1)
                self.spare.append((eviction, floor))
            else:
                self._give_back(eviction.standing, 1)
                kept.append((eviction, floor))
        self.evictions = kept[::-1]

    def _allowed(self, evictions: Iterable[tuple[Eviction, Floor]], rules: EligibilityRules) -> bool:
        """Whether the rules allow these one after the other."""
        losses: Losses = {}
        for eviction, floor in evictions:
            if not rules.may_lose(eviction, losses, floor):
                return False
            note_loss(losses, eviction)
        return True

    def improve(self, eviction: Eviction, floor: Floor, rules: EligibilityRules, demand: Demand, count: int) -> bool:
        """Whether this eviction in place of others clears the node, or does so better; if so it takes their place.

        Of a cleared node the better way loses less work, or stops fewer jobs where it loses as much.
        """
        before, cost = self.evictions, self.cost()
        if self.cleared and (eviction.loss, 1) >= cost:
            self.spare.append((eviction, floor))
            return False
        spare = self.spare
        self.spare = [*before, *spare]
        self._open()
        self.take(eviction, rules, floor)
        for other, its_floor in before:
            if self.fits(demand, count):
                break
            self.take(other, rules, its_floor)
        if self.fits(demand, count):
            self.drop_unneeded(rules, demand, count)
            if not self.cleared or self.cost() < cost:
                chosen = {id(other) for other, _ in self.evictions}
                self.spare = [entry for entry in (*before, *spare) if id(entry[0]) not in chosen]
                return True
        self._open()
        for other, its_floor in before:
            self.take(other, rules, its_floor)
        self.spare = [*spare, (eviction, floor)]
        return False

    def cost(self) -> tuple[float, int]:
        """The work that is lost, and how many evictions lose it."""
        return sum([eviction.loss for eviction, _ in self.evictions]), len(self.evictions)

    def still_stands(self, rules: EligibilityRules, demand: Demand, count: int) -> bool:
        """Whether the evictions tried may still be made, and are enough."""
        surplus: dict[WorkloadState, int] = {}
        for eviction, _ in self.evictions:
            if eviction.worker is not None:
                surplus[eviction.job] = surplus.get(eviction.job, 0) + 1
                if len(eviction.job.placement) - surplus[eviction.job] < eviction.job.request.gang_size:
                    return False
            if eviction.gone:
                return False
        return self._allowed(self.evictions, rules) and self.fits(demand, count)

    def made(self) -> list[Eviction]:
        """Hand out the evictions, which are made now; the trial keeps the spare ones."""
        evictions = [eviction for eviction, _ in self.evictions]
        self.evictions = []
        return evictions

    def begin_again(self, rules: EligibilityRules, demand: Demand, count: int) -> None:
        """The node has changed: try the candidates considered again, as far as they are needed."""
        looked_at = [*self.evictions, *reversed(self.spare)]
        self.spare = []
        self._open()
        for number, (eviction, floor) in enumerate(looked_at):
            if self.fits(demand, count):
                self.spare.extend(entry for entry in looked_at[number:] if not entry[0].gone)
                return
            if not eviction.gone:
                self.take(eviction, rules, floor)


def _name(eviction: Eviction) -> tuple[str, int]:
    return eviction.job.id, id(eviction.worker) if eviction.worker is not None else 0
