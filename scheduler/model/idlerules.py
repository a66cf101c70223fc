"""What happens to notebook servers that nobody uses, as an administrator declares it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from scheduler.model.names import GroupName, UserName


class IdleAction(StrEnum):
    """What happens at last to a notebook server that stays idle."""

    STOP = "stop"
    TAKE_BACK = "take_back"


@dataclass(frozen=True, slots=True)
class IdleRules:
    """What happens to an idle notebook server: after `timeout` seconds (0: never) its user is warned; `grace` seconds
    later its GPUs are lent to jobs for `lend` seconds (0: not lent); then the server is stopped, or loses its GPUs."""

    timeout: float
    grace: float
    lend: float
    action: IdleAction


@dataclass(frozen=True, slots=True)
class IdleException:
    """Idle rules for some users and groups of JupyterHub; what is `None` is as for everybody."""

    users: tuple[UserName, ...] = ()
    groups: tuple[GroupName, ...] = ()
    timeout: float | None = None
    grace: float | None = None
    lend: float | None = None
    action: IdleAction | None = None

    def concerns(self, user: UserName, groups: Collection[GroupName]) -> bool:
        return user in self.users or any(group in self.groups for group in groups)
