"""Fair share: how many GPUs each project may count on, level by level down the tree.

For the children of one project and the `total` it may use:
1. Each wants the smaller of its limit and its demand.
2. Each first gets its guarantee, as far as it wants it. This is never scaled down.
3. What remains goes to the projects that want more, the highest project priority first; within one priority in
   proportion to weight, in rounds: a project that wants no more than its part gets what it wants, and the rest is
   divided again. Parts are cut to whole GPUs.
4. Whole GPUs left over from the cutting go one at a time to the largest cut-off fraction, the older first on a tie.
5. With `surplus: served`, 3 and 4 come first for the jobs on the lowest service level, then for those up to the next
   one, and so on. The guarantee of a project covers its jobs on the lowest levels first.
6. With `time_aware` k > 0 the weight in 3 becomes max(0, w + k (w - u)): w is the share of the weights, u that of use.

`share_out` does so for all projects. `FairShares` keeps the result of a tree and brings it up to date: what is left to
divide in 3 depends on the other projects only by a sum, so only those that changed or want more than their guarantee
are looked at, and if everybody gets what they want, only those that changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, groupby
from math import lcm

from scheduler.model import ONE, Milli, ProjectName
from scheduler.policy.projects import ChangedProjects, ProjectState


def share_out(roots: Sequence[ProjectState], total: Milli, time_aware: float = 0.0) -> None:
    """Set `wanted` and `share` of every project from its `demand`, its promises and `total`."""
    for project in roots:
        _want(project)
    _divide(roots, total, time_aware)


def _want(project: ProjectState) -> list[Milli]:
    """What the project wants, up to each service level: within its limit, the demand of a leaf or what the children may
    want."""
    if project.children:
        wants = [sum(below) for below in zip(*[_want(child) for child in project.children], strict=True)]
    else:
        wants = [demand + project.overflow for demand in accumulate(project.on_levels or [project.demand])]
    project.wants = [min(project.limit, demand) for demand in wants]
    project.wanted = project.wants[-1]
    return project.wants


def _divide(projects: Sequence[ProjectState], total: Milli, time_aware: float) -> None:
    for project in projects:
        project.share = min(project.guarantee, project.wanted)
    rest = max(0, total - sum(project.share for project in projects))
    by_priority = sorted(projects, key=lambda project: -project.priority)
    for _, equals in groupby(by_priority, key=lambda project: project.priority):
        rest = _divide_by_level(list(equals), rest, time_aware)
    for project in projects:
        if project.children:
            _divide(project.children, min(project.share, total), time_aware)


def _divide_by_level(equals: list[ProjectState], rest: Milli, time_aware: float) -> Milli:
    """Give `rest` to the projects of one priority, for their jobs on the lowest service level first."""
    for level in range(len(equals[0].wants)):
        for project in equals:
            project.wanted = project.wants[level]
        rest = _divide_surplus(equals, rest, time_aware)
    return rest


def _divide_surplus(level: list[ProjectState], rest: Milli, time_aware: float) -> Milli:
    """Give `rest` to the projects of one priority; returns what they leave."""
    weights = _weights(level, time_aware)
    wanting = [a for a in level if a.wanted > a.share and weights[a.name] > 0]
    while wanting and rest > 0:
        whole = sum(weights[a.name] for a in wanting)
        content = [a for a in wanting if (a.wanted - a.share) * whole <= rest * weights[a.name]]
        if not content:
            break
        for project in content:
            rest -= project.wanted - project.share
            project.share = project.wanted
        wanting = [a for a in wanting if a.wanted > a.share]
    if not wanting or rest <= 0:
        return rest
    return _cut_to_whole(wanting, weights, rest)


def _cut_to_whole(wanting: list[ProjectState], weights: dict[ProjectName, int], rest: Milli) -> Milli:
    """All want more than their parts: give whole GPUs, then those left over by the largest cut-off fraction."""
    whole = sum(weights[a.name] for a in wanting)
    cut_off = {a.name: rest * weights[a.name] % (whole * ONE) for a in wanting}
    parts = {a.name: rest * weights[a.name] // (whole * ONE) * ONE for a in wanting}
    for project in wanting:
        project.share += parts[project.name]
        rest -= parts[project.name]
    wanting.sort(key=lambda a: (-cut_off[a.name], a.created, a.name))
    while rest >= ONE and wanting:
        for project in wanting:
            if rest < ONE:
                break
            more = min(ONE, project.wanted - project.share)
            project.share += more
            rest -= more
        wanting = [a for a in wanting if a.wanted > a.share]
    return rest


def _weights(level: list[ProjectState], time_aware: float) -> dict[ProjectName, int]:
    """The weights by which a surplus is divided, as whole numbers with a common denominator."""
    if time_aware <= 0:
        return {a.name: a.weight for a in level}
    whole, k = sum(a.weight for a in level) or 1, Fraction(time_aware)
    parts = {a.name: Fraction(a.weight, whole) for a in level}
    weights = {a.name: max(Fraction(0), parts[a.name] + k * (parts[a.name] - Fraction(a.usage))) for a in level}
    denominator = lcm(*[weight.denominator for weight in weights.values()])
    return {name: int(weight * denominator) for name, weight in weights.items()}


class FairShares:
    """The fair shares of a tree without `time_aware`, for one plan after another."""

    def __init__(self, roots: Sequence[ProjectState], changed: ChangedProjects) -> None:
        self._changed = changed
        self._roots = _Siblings(roots, changed)

    def share_out(self, total: Milli) -> None:
        """As the function `share_out`: `total` or the demand of the projects that `changed` may be others now."""
        for project in sorted(self._changed.demands, key=lambda project: -project.depth):
            below = [child.wanted for child in project.children]
            before, project.wanted = project.wanted, min(project.limit, sum(below) if below else project.demand)
            if project.wanted != before:
                self._siblings(project).want(project, before)
        self._changed.demands.clear()
        self._roots.divide(total)

    def _siblings(self, project: ProjectState) -> _Siblings:
        found = self._roots
        for step in project.path[:0:-1]:
            found = found.below[step]
        return found


class _Siblings:
    """Projects with the same parent. `below` are the children of each that has any.

    `_over` want more than their guarantee and may get it, `_excess` is by how much in all; `_promised` is the sum of
    what all want within their guarantees. `_moved` want something else since the last time.
    """

    def __init__(self, projects: Sequence[ProjectState], changed: ChangedProjects) -> None:
        self.below = {project: _Siblings(project.children, changed) for project in projects if project.children}
        self._changed = changed
        self._over: set[ProjectState] = set()
        self._moved: set[ProjectState] = set()
        self._excess: Milli = 0
        self._promised: Milli = 0
        self._total: Milli = 0
        self._content = True

    def want(self, project: ProjectState, before: Milli) -> None:
        guarantee, wanted = project.guarantee, project.wanted
        self._promised += min(guarantee, wanted) - min(guarantee, before)
        self._moved.add(project)
        if project.weight > 0:
            self._excess += max(0, wanted - guarantee) - max(0, before - guarantee)
            (self._over.add if wanted > guarantee else self._over.discard)(project)

    def divide(self, total: Milli) -> None:
        if self._moved or total != self._total:
            self._total = total
            self._divide(max(0, total - self._promised))
            self._moved.clear()
        for project, children in self.below.items():
            children.divide(min(project.share, total))

    def _divide(self, rest: Milli) -> None:
        content, self._content = self._content, self._excess <= rest
        concerned = self._moved if content and self._content else self._moved | self._over
        before = [(project, project.share) for project in concerned]
        for project in concerned:
            project.share = min(project.guarantee, project.wanted)
        if self._content:
            for project in concerned & self._over:
                project.share = project.wanted
        else:
            by_priority = sorted(self._over, key=lambda project: -project.priority)
            for _, level in groupby(by_priority, key=lambda project: project.priority):
                rest = _divide_surplus(list(level), rest, 0.0)
        self._changed.sums.update([project for project, share in before if project.share != share])
