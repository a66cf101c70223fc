"""The build quotas of users and groups, changed one by one."""

from __future__ import annotations

from dataclasses import replace

from scheduler.model import GroupName, Pool, User, UserGroup, UserName
from scheduler.schema import BuildQuotaEntry
from scheduler.schema.reading import milli


def with_user_quota(pool: Pool, name: str, entry: BuildQuotaEntry | None) -> Pool:
    """`pool` with a build quota of a user's own, or without one (`None`)."""
    others = [user for user in pool.users if user.name != name]
    own = [] if entry is None else [User(UserName(name), milli(entry.gpus, "gpus"))]
    return replace(pool, users=tuple(sorted([*others, *own], key=lambda user: user.name)))


def with_group_quota(pool: Pool, name: str, entry: BuildQuotaEntry | None) -> Pool:
    """`pool` with a build quota of the users of a group, or without one (`None`)."""
    others = [group for group in pool.groups if group.name != name]
    own = [] if entry is None else [UserGroup(GroupName(name), milli(entry.gpus, "gpus"))]
    return replace(pool, groups=tuple(sorted([*others, *own], key=lambda group: group.name)))
