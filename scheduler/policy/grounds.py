"""The parts of the pool with their nodes, each with an account for every project.

A project's own limits hold for all parts together, those of its quotas for their nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.model import ONE, Milli, Pool, Project, Quota
from scheduler.policy import quotas
from scheduler.policy.accounts import Account, Cap, open_accounts
from scheduler.policy.nodes import NodeState
from scheduler.policy.quotas import Part

_EVERYWHERE = -1


@dataclass(eq=False, slots=True)
class Ground:
    """A part of the pool: `mask` is its nodes, `capacity` the GPUs of those that take work, `tops` the accounts at the top."""

    part: Part
    accounts: dict[str, Account]
    tops: list[Account]
    mask: int = 0
    capacity: Milli = 0


def grounds_of(
    pool: Pool, nodes: Sequence[NodeState], trains: Callable[[NodeState], bool]
) -> tuple[Ground, ...]:
    """The rest of the pool first. NodeIndex that are not for training are of the rest: they may be lent."""
    grounds = {part: _open(part, pool.projects) for part in quotas.parts_of(pool.projects)}
    for node in nodes:
        ground = grounds[quotas.part_of(node.spec, grounds) if trains(node) else quotas.REST]
        ground.mask |= node.bit
        if node.spec.schedulable and trains(node):
            ground.capacity += node.spec.gpus * ONE
    for project in pool.projects:
        caps = tuple(_caps(project, grounds, nodes))
        for ground in grounds.values():
            ground.accounts[project.name].caps = caps
    return tuple(grounds.values())


def _open(part: Part, projects: Sequence[Project]) -> Ground:
    guaranteed = quotas.guarantees(part, projects)
    accounts = open_accounts(
        [
            replace(project, guaranteed=guaranteed[project.name], limit=_limit(project, part))
            for project in projects
        ]
    )
    for account in accounts.values():
        account.part = part
    return Ground(part, accounts, [account for account in accounts.values() if account.parent is None])


def _limit(project: Project, part: Part) -> Milli | None:
    """The most that a project may hold of a part."""
    own = [quota.limit for quota in project.quotas if (quota.node_pool, quota.gpu_type) == part]
    return min([limit for limit in (project.limit, *own) if limit is not None], default=None)


def _caps(project: Project, grounds: Mapping[Part, Ground], nodes: Iterable[NodeState]) -> Iterable[Cap]:
    """The limits of a project that are not those of one of its accounts alone."""
    if len(grounds) > 1 and project.limit is not None:
        yield Cap(Quota(limit=project.limit), _EVERYWHERE)
    for quota in project.quotas:
        mask = sum([node.bit for node in nodes if quota.covers(node.spec)])
        ground = grounds.get((quota.node_pool, quota.gpu_type))
        if quota.limit is not None and (ground is None or ground.mask != mask):
            yield Cap(quota, mask)
