"""Recent use and reclaim: with `time_aware`, what a project holds is safe from small differences in recent use."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.model import ONE
from scheduler.policy.fairshare import share_out
from scheduler.policy.partitions import Partition

HELD = 2**0.125 - 1
"""Recent use alone takes a GPU from one project for another only if it still would after the other had held it for an
eighth of the half-life: if their use differs by this part of it. Otherwise, equal projects would take it in turns in
every plan."""


def find_kept(partitions: Sequence[Partition], time_aware: float) -> None:
    """Find the fair shares that hold against reclaim: as if each project had used less by `HELD` of what it holds."""
    capacity = max(ONE, sum([partition.capacity for partition in partitions]))
    for partition in partitions:
        projects = partition.projects.values()
        before = [(project, project.usage, project.share) for project in projects]
        for project in projects:
            project.usage -= HELD * project.allocated / capacity
        share_out(partition.roots, partition.capacity, time_aware)
        for project, usage, share in before:
            project.kept, project.usage, project.share = project.share, usage, share
