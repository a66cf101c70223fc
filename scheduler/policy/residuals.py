"""Which GPUs run slower than others of their type: each GPU's own residual, from what attempts reached.

An attempt is compared with attempts of the same kind of job, with as many workers on the same type of GPU: the median
of what they reached, over what it reached. A gang runs at the pace of its slowest GPU, so a fast gang clears all of its
GPUs, and a slow one counts only against the one of its GPUs that no other attempts have cleared; while there are
several of these, it says nothing.

Little evidence says nothing: the median over the kinds of jobs is shrunk towards 1 by the number of attempts, and a GPU
is called slow only after `ATTEMPTS` of at least `KINDS` kinds, each of which was slow there: one kind alone may be slow
for a reason of its own. Pure and bounded; the same attempts in the same order give the same residuals.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from math import exp, log
from statistics import median

from scheduler.model import ONE, GpuKey, Milli, Node

RECENT = 64
"""The median of this many recent attempts of a kind is the usual value …"""

MOST = 2_000
"""… for this many kinds; the least recently used are forgotten."""

ON_A_GPU, KINDS_ON_A_GPU = 8, 8
"""How many recent attempts, and of how many kinds, are remembered for each GPU."""

ATTEMPTS, KINDS = 3, 2
"""How many attempts, of how many kinds of jobs, it takes to call a GPU slow."""

ENOUGH = 4
"""How many attempts of a kind it takes to know the usual value."""

SLOW = 1.1
"""The residual from which a GPU counts as slow; less is noise."""

NOTABLE = 50
"""The change of a residual, in thousandths, after which it is reported again."""

SHRINK = 2.0
"""The number of normal attempts that are assumed before the first."""

CLEARED, OFTEN = 2, 0.2
"""So many fast attempts clear a GPU of the slowness of its gangs, if they are this part of its attempts: noise makes a
slow GPU look fast now and then."""

LARGEST = 16
"""Gangs of more GPUs only clear theirs."""

_Attempt = tuple[float, tuple[GpuKey, ...] | None]
"""What an attempt reached, and which other GPUs may have slowed it down; `None` where it was fast."""


class Residuals:
    """`slow` has the GPUs that run slower than their like, with the time they need in thousandths of that of others."""

    def __init__(self) -> None:
        self.slow: Mapping[GpuKey, Milli] = {}
        self._usual: OrderedDict[Hashable, deque[float]] = OrderedDict()
        self._on: dict[GpuKey, OrderedDict[Hashable, deque[_Attempt]]] = defaultdict(OrderedDict)
        self._cleared: set[GpuKey] = set()

    def learn(self, kind: Hashable, reached: float, gpus: Iterable[GpuKey]) -> bool:
        """Learn the throughput that an attempt of a kind reached; whether `slow` has changed."""
        gpus = tuple(gpus)
        attempts = self._usual.setdefault(kind, deque(maxlen=RECENT))
        attempts.append(reached)
        self._usual.move_to_end(kind)
        if len(self._usual) > MOST:
            self._usual.popitem(last=False)
        is_fast = len(attempts) >= ENOUGH and median(attempts) <= SLOW * reached
        for gpu in gpus:
            if not is_fast and len(gpus) > LARGEST:
                break
            kinds = self._on[gpu]
            others = None if is_fast else tuple([other for other in gpus if other != gpu])
            kinds.setdefault(kind, deque(maxlen=ON_A_GPU)).append((reached, others))
            kinds.move_to_end(kind)
            if len(kinds) > KINDS_ON_A_GPU:
                kinds.popitem(last=False)
        slow = dict(self.slow)
        for gpu in {*gpus, *self._clear(gpus)}:
            residual = self._residual(gpu)
            if residual is None:
                slow.pop(gpu, None)
            elif abs(residual - slow.get(gpu, 0)) > NOTABLE:
                slow[gpu] = residual
        if slow == self.slow:
            return False
        self.slow = slow
        return True

    def _clear(self, gpus: Iterable[GpuKey]) -> set[GpuKey]:
        """Find again which of these have been fast; those that were in slow gangs with one that is judged otherwise
        now."""
        concerned = set[GpuKey]()
        for gpu in gpus:
            attempts = [attempt for kind in self._on.get(gpu, {}).values() for attempt in kind]
            fast = sum(others is None for _, others in attempts)
            is_cleared = fast >= max(CLEARED, OFTEN * len(attempts))
            if is_cleared != (gpu in self._cleared):
                (self._cleared.add if is_cleared else self._cleared.discard)(gpu)
                concerned.update([other for _, others in attempts for other in others or ()])
        return concerned

    def attempts(self, gpu: GpuKey) -> tuple[int, int]:
        """The number of attempts, and of kinds of jobs, known for a GPU."""
        ratios = self._ratios(gpu)
        return sum(count for _, count in ratios), len(ratios)

    def mark(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        """The nodes with what is known of their GPUs."""
        by_node: dict[str, list[tuple[int, Milli]]] = defaultdict(list)
        for (node, gpu), slowness in sorted(self.slow.items()):
            by_node[node].append((gpu, slowness))
        found = ((node, tuple(by_node.get(node.name, ()))) for node in nodes)
        return tuple(node if node.slowness == known else replace(node, slowness=known) for node, known in found)

    def _ratios(self, gpu: GpuKey) -> list[tuple[float, int]]:
        """For each kind the ratio of the time on this GPU to the usual time, and the number of attempts."""
        found = []
        for kind, attempts in self._on.get(gpu, {}).items():
            usual = self._usual.get(kind, ())
            known = [reached for reached, others in attempts if self._cleared.issuperset(others or ())]
            if known and len(usual) >= ENOUGH:
                found.append((median(usual) / median(known), len(known)))
        return found

    def _residual(self, gpu: GpuKey) -> Milli | None:
        ratios = self._ratios(gpu)
        count = sum(attempts for _, attempts in ratios)
        if count < ATTEMPTS or sum(ratio > SLOW for ratio, _ in ratios) < KINDS:
            return None
        shrunk = exp(median([log(ratio) for ratio, _ in ratios]) * count / (count + SHRINK))
        return round(ONE * shrunk) if shrunk > SLOW else None
