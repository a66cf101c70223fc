"""A node on paper: what would be free in it without some of those who stand there."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.model import ONE, WorkerPlacement
from scheduler.policy.demands import Demand
from scheduler.policy.nodes import NodeState
from scheduler.policy.terms import Cut, Losses, Terms
from scheduler.policy.workloads import WorkloadState


class Paper:
    """`cuts` are taken on paper, in order of rank; `spare` were looked at and turned out not to be needed (yet)."""

    __slots__ = ("_seen", "cleared", "cpus", "cuts", "free", "losses", "memory", "node", "shares", "spare")

    def __init__(self, node: NodeState) -> None:
        self.node = node
        self.cleared = False
        self.spare: list[tuple[Cut, bool]] = []
        self._open()

    def _open(self) -> None:
        node = self.node
        self.free = node.free(True)
        self.shares = dict(node.shares) if node.shares else {}
        self.cpus = node.cpus
        self.memory = node.memory
        self.cuts: list[tuple[Cut, bool]] = []
        self.losses: Losses = {}
        self._seen: set[tuple[str, int]] = set()

    def take(self, cut: Cut, terms: Terms, straddling: bool) -> bool:
        """Cut on paper, if the terms allow one more; whether that was done."""
        name = (cut.job.id, id(cut.worker) if cut.worker is not None else 0)
        if name in self._seen or not self._has(cut) or not terms.may_lose(cut, self.losses, straddling):
            return False
        if cut.worker is None and any(other.job is cut.job for other, _ in self.cuts):
            self._instead_of_surplus(cut, straddling)
            return True
        self._seen.add(name)
        self.cuts.append((cut, straddling))
        self._free(cut, 1)
        return True

    def _has(self, cut: Cut) -> bool:
        """Whether that worker may still go: an elastic job keeps its minimum until it goes whole, with all its workers."""
        if cut.worker is None:
            return True
        cut_before = [other for other, _ in self.cuts if other.job is cut.job]
        if any(other.worker is None for other in cut_before):
            return False
        return (
            len(cut_before) < len(cut.job.placement) - cut.job.request.gang_size
            and cut.worker in cut.job.placement
        )

    def _instead_of_surplus(self, cut: Cut, straddling: bool) -> None:
        """A job goes whole of which surplus workers were cut before."""
        for other, _ in [entry for entry in self.cuts if entry[0].job is cut.job]:
            self._free(other, -1)
        self.cuts = [entry for entry in self.cuts if entry[0].job is not cut.job]
        self._seen.add((cut.job.id, 0))
        self.cuts.append((cut, straddling))
        self._free(cut, 1)

    def _free(self, cut: Cut, sign: int) -> None:
        """Free (1) or fill again (-1) what a cut gives back in this node, and note what its projects lose."""
        self._give_back(cut.standing, sign)
        project = cut.job.project
        assert project is not None
        for step in project.path:
            self.losses[step] = self.losses.get(step, 0) + sign * cut.amount

    def vacate(self, job: WorkloadState) -> None:
        """Free what a workload holds on this node."""
        self._give_back(job.standing, 1)

    def _give_back(self, standing: Iterable[tuple[WorkerPlacement, Demand]], sign: int) -> None:
        here = self.node.name
        for worker, demand in standing:
            if worker.node != here:
                continue
            self.cpus += sign * demand.cpus
            self.memory += sign * demand.memory
            if worker.share == ONE:
                for gpu in worker.gpus:
                    self.free ^= 1 << gpu
                continue
            for gpu in worker.gpus:
                used = self.shares[gpu] = self.shares.get(gpu, 0) - sign * worker.share
                if used:
                    self.free &= ~(1 << gpu)
                else:
                    self.free |= 1 << gpu

    def fits(self, demand: Demand, count: int) -> bool:
        """Whether `count` workers would fit."""
        if demand.cpus * count > self.cpus or demand.memory * count > self.memory:
            return False
        if not demand.partial:
            return self.free.bit_count() >= demand.whole * count
        share = demand.share_on(self.node.spec)
        if share > ONE:
            return False
        shared = [ONE - used for used in self.shares.values() if 0 < used < ONE]
        return self.free.bit_count() * (ONE // share) + sum([left // share for left in shared]) >= count

    def drop_unneeded(self, demand: Demand, count: int) -> None:
        """Fill again, the last first, whoever is not in the way of `count` workers."""
        kept = []
        for cut, straddling in reversed(self.cuts):
            self._free(cut, -1)
            if self.fits(demand, count):
                self.spare.append((cut, straddling))
            else:
                self._free(cut, 1)
                kept.append((cut, straddling))
        self.cuts = kept[::-1]

    def improve(self, cut: Cut, straddling: bool, terms: Terms, demand: Demand, count: int) -> bool:
        """Of a cleared node: whether this cut in place of others loses less work, in which case it takes their place."""
        before, loss = self.cuts, self.loss()
        if cut.loss >= loss:
            self.spare.append((cut, straddling))
            return False
        spare = self.spare
        self.spare = [*before, *spare]
        self._open()
        self.take(cut, terms, straddling)
        for other, straddles in before:
            if self.fits(demand, count):
                break
            self.take(other, terms, straddles)
        if self.fits(demand, count):
            self.drop_unneeded(demand, count)
            if self.loss() < loss:
                chosen = {id(other) for other, _ in self.cuts}
                self.spare = [entry for entry in (*before, *spare) if id(entry[0]) not in chosen]
                return True
        self._open()
        for other, straddles in before:
            self.take(other, terms, straddles)
        self.spare = [*spare, (cut, straddling)]
        return False

    def loss(self) -> float:
        return sum([cut.loss for cut, _ in self.cuts])

    def still_stands(self, terms: Terms, demand: Demand, count: int) -> bool:
        """Whether the cuts on paper may still be made, and are enough."""
        losses: Losses = {}
        surplus: dict[WorkloadState, int] = {}
        for cut, straddling in self.cuts:
            if cut.worker is not None:
                surplus[cut.job] = surplus.get(cut.job, 0) + 1
                if len(cut.job.placement) - surplus[cut.job] < cut.job.request.gang_size:
                    return False
            if cut.gone or not terms.may_lose(cut, losses, straddling):
                return False
            project = cut.job.project
            assert project is not None
            for step in project.path:
                losses[step] = losses.get(step, 0) + cut.amount
        return self.fits(demand, count)

    def made(self) -> list[Cut]:
        """The cuts, as they are made; the paper keeps the spare ones."""
        cuts = [cut for cut, _ in self.cuts]
        self.cuts = []
        return cuts

    def begin_again(self, terms: Terms, demand: Demand, count: int) -> None:
        """Things have changed in this node: take those that were looked at anew, as far as they are needed."""
        looked_at = [*self.cuts, *reversed(self.spare)]
        self.spare = []
        self._open()
        for number, (cut, straddling) in enumerate(looked_at):
            if self.fits(demand, count):
                self.spare.extend(entry for entry in looked_at[number:] if not entry[0].gone)
                return
            if not cut.gone:
                self.take(cut, terms, straddling)
