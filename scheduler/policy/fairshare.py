"""Fair share: how many GPUs each project may count on, level by level down the tree.

For the children of one project and the `total` it may use:
1. Each wants the smaller of its limit and its demand.
2. Each first gets its guarantee, as far as it wants it. This is never scaled down.
3. What remains goes to the projects that want more, the highest project priority first; within one priority in
   proportion to weight, in rounds: a project that wants no more than its part gets what it wants, and the rest is
   divided again. Parts are cut to whole GPUs.
4. Whole GPUs left over from the cutting go one at a time to the largest cut-off fraction, the older first on a tie.
5. With `time_aware` k > 0 the weight in 3 becomes max(0, w + k (w - u)): w is the share of the weights, u that of use.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import groupby
from math import lcm

from scheduler.model import ONE, Milli, ProjectName
from scheduler.policy.projects import ProjectState


def share_out(roots: Sequence[ProjectState], total: Milli, time_aware: float = 0.0) -> None:
    """Set `wanted` and `share` of every project from its `demand`, its promises and `total`."""
    for project in roots:
        _want(project)
    _divide(roots, total, time_aware)


def _want(project: ProjectState) -> Milli:
    """What the project wants: within its limit, the demand of a leaf or what the children may want."""
    below = [_want(child) for child in project.children]
    wanted = sum(below) if below else project.demand + project.overflow
    project.wanted = min(project.limit, wanted)
    return project.wanted


def _divide(projects: Sequence[ProjectState], total: Milli, time_aware: float) -> None:
    for project in projects:
        project.share = min(project.guarantee, project.wanted)
    rest = max(0, total - sum(project.share for project in projects))
    by_priority = sorted(projects, key=lambda project: -project.priority)
    for _, level in groupby(by_priority, key=lambda project: project.priority):
        rest = _divide_surplus(list(level), rest, time_aware)
    for project in projects:
        if project.children:
            _divide(project.children, min(project.share, total), time_aware)


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
