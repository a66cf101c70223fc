"""The API's views of users and groups. Units as in `schema.wire`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from scheduler.schema.wire import Wire


class BuildQuotaEntry(Wire):
    gpus: float = Field(ge=0, description="GPUs that a user may hold for building")


class UserView(Wire):
    """A user known to the hub, to the pool file or by what they run.

    `build_quota` is what is in force: the user's own, else the largest of their groups' (that of `build_quota_group`),
    else the default one. `last_activity` is the hub's: any traffic of a notebook server counts.
    """

    name: str
    groups: list[str] = Field(description="in JupyterHub; of users that it does not know: none")
    build_quota: float
    build_quota_source: Literal["user", "group", "default"]
    build_quota_group: str | None = None
    build_gpus: float = Field(description="GPUs that the user's sessions hold")
    sessions: int
    running: int = Field(description="jobs that hold GPUs")
    train_gpus: float = Field(description="GPUs that the user's jobs hold")
    waiting: int = Field(description="jobs in the queue")
    last_activity: float | None = None


class GroupView(Wire):
    """A group with a build quota or with users."""

    name: str
    build_quota: float | None = Field(description="build quota of each of its users; null: none")
    users: int


class UserList(Wire):
    """Sorted by name; `next` is `after` of the page that follows, null where there is none. `hub_problem` says why the
    hub did not tell its users."""

    users: list[UserView]
    groups: list[GroupView]
    default_build_quota: float
    total: int = Field(description="users on all pages")
    hub_problem: str | None = None
    next: str | None = None
