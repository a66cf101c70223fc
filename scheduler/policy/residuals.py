"""Which GPUs run slower than others of their type: each GPU's own residual, from what attempts reached.

An attempt is compared with attempts of the same kind of job, with as many workers on the same type of GPU: the median
of what they reached, over what it reached. A gang runs at the pace of its slowest GPU, so a fast gang clears all of its
GPUs, and a slow one says nothing where GPUs of the node have been used alone: those attempts know better.

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
"""The median of so many of the latest attempts of a kind is what is usual …"""

MOST = 2_000
"""… of so many kinds; those seen longest ago are forgotten."""

ON_A_GPU, KINDS_ON_A_GPU = 8, 8
"""Of each GPU so many of the latest attempts are remembered, of so many kinds."""

ATTEMPTS, KINDS = 3, 2
"""How many attempts, of how many kinds of jobs, it takes to call a GPU slow."""

ENOUGH = 4
"""So many attempts of a kind it takes to know what is usual."""

SLOW = 1.1
"""From which residual on a GPU is slow; less is noise."""

NOTABLE = 50
"""By how many thousandths a residual must change to be told anew."""

SHRINK = 2.0
"""As many attempts as this without any slowness are taken to have been seen before the first."""


class Residuals:
    """`slow` has the GPUs that run slower than their like, with the time they need in thousandths of that of others."""

    def __init__(self) -> None:
        self.slow: Mapping[GpuKey, Milli] = {}
        self._usual: OrderedDict[Hashable, deque[float]] = OrderedDict()
        self._on: dict[GpuKey, OrderedDict[Hashable, deque[float]]] = defaultdict(OrderedDict)
        self._alone: set[str] = set()

    def learn(self, kind: Hashable, reached: float, gpus: Iterable[GpuKey]) -> bool:
        """An attempt of a kind (all that makes attempts comparable) reached so much. Whether `slow` has changed."""
        gpus = tuple(gpus)
        attempts = self._usual.setdefault(kind, deque(maxlen=RECENT))
        attempts.append(reached)
        self._usual.move_to_end(kind)
        if len(self._usual) > MOST:
            self._usual.popitem(last=False)
        usual = median(attempts)
        if len(gpus) == 1:
            self._alone.add(gpus[0][0])
        slow = dict(self.slow)
        for gpu in gpus:
            if len(gpus) > 1 and usual > SLOW * reached and gpu[0] in self._alone:
                continue
            kinds = self._on[gpu]
            kinds.setdefault(kind, deque(maxlen=ON_A_GPU)).append(reached)
            kinds.move_to_end(kind)
            if len(kinds) > KINDS_ON_A_GPU:
                kinds.popitem(last=False)
            residual = self._residual(gpu)
            if residual is None:
                slow.pop(gpu, None)
            elif abs(residual - slow.get(gpu, 0)) > NOTABLE:
                slow[gpu] = residual
        if slow == self.slow:
            return False
        self.slow = slow
        return True

    def attempts(self, gpu: GpuKey) -> tuple[int, int]:
        """How many attempts, of how many kinds of jobs, tell of a GPU."""
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
        """For each kind how many times as long it took on a GPU as usual, by so many attempts."""
        return [
            (median(self._usual[kind]) / median(attempts), len(attempts))
            for kind, attempts in self._on.get(gpu, {}).items()
            if len(self._usual.get(kind, ())) >= ENOUGH
        ]

    def _residual(self, gpu: GpuKey) -> Milli | None:
        ratios = self._ratios(gpu)
        count = sum(attempts for _, attempts in ratios)
        if count < ATTEMPTS or sum(ratio > SLOW for ratio, _ in ratios) < KINDS:
            return None
        shrunk = exp(median([log(ratio) for ratio, _ in ratios]) * count / (count + SHRINK))
        return round(ONE * shrunk) if shrunk > SLOW else None
