"""Users and groups, and how many GPUs each may hold for building: `/users`, `/groups`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from scheduler.api.access import Scope
from scheduler.api.base import ApiHandler
from scheduler.api.convert import from_milli
from scheduler.api.directory import HubUser
from scheduler.api.endpoint import endpoint
from scheduler.errors import Conflict, Invalid, NotFound, Unavailable
from scheduler.model import GroupName, Milli, Pool, UserName, held_by
from scheduler.pool.buildquotas import with_group_quota, with_user_quota
from scheduler.schema import BuildQuotaEntry, GroupView, UserList, UserView

if TYPE_CHECKING:
    from scheduler.controller.book import Book

EVERYBODY = UserName("*")


class UsersQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    find: str = Field("", description="only users whose name, or the name of one of whose groups, contains this")
    limit: int = Field(200, ge=1, le=1000)
    after: str = Field("", description="`next` of the previous page")


class UsersHandler(ApiHandler):
    @endpoint(
        "The users known to the hub and to the pool, with their build quotas and what they hold",
        Scope.ADMIN,
        query=UsersQuery,
        answer=UserList,
    )
    async def get(self) -> None:
        query = self.query(UsersQuery)
        directory, problem = self.api.authenticator.directory, None
        in_hub: Sequence[HubUser] = ()
        try:
            in_hub = await directory.users() if directory else ()
        except Unavailable as error:
            problem = error.sentence
        book = self.api.book
        users = Users(book, in_hub)
        found = [name for name in users.names if users.matches(name, query.find)]
        rest = [name for name in found if name > query.after]
        page = rest[: query.limit]
        self.answer(
            UserList(
                users=[users.view(name) for name in page],
                groups=users.groups(),
                default_build_quota=from_milli(book.pool.default_build_quota),
                total=len(found),
                hub_problem=problem,
                next=page[-1] if len(rest) > len(page) else None,
            )
        )


class Users:
    """Makes the views of users; reads the book once."""

    def __init__(self, book: Book, in_hub: Sequence[HubUser]) -> None:
        self._pool = book.pool
        self._hub = {user.name: user for user in in_hub}
        self._sessions: Counter[UserName] = Counter()
        self._build: dict[UserName, Milli] = defaultdict(int)
        self._train: dict[UserName, Milli] = defaultdict(int)
        for session in book.sessions.values():
            self._sessions[session.user] += 1
            self._build[session.user] += session.counted
        for job in book.holding.values():
            self._train[job.user] += held_by(job.placement)
        self._running = Counter(job.user for job in book.holding.values())
        unfinished = Counter(job.user for job in book.jobs.values())
        self._waiting = unfinished - self._running
        members = {member for project in book.pool.projects for member in project.members}
        declared = {user.name for user in book.pool.users}
        self.names = sorted({*self._hub, *members, *declared, *self._sessions, *unfinished} - {EVERYBODY, UserName("")})

    def matches(self, name: UserName, find: str) -> bool:
        find = find.lower()
        return find in name.lower() or any(find in group.lower() for group in self._groups(name))

    def _groups(self, name: UserName) -> frozenset[GroupName]:
        known = self._hub.get(name)
        return known.groups if known else frozenset()

    def view(self, name: UserName) -> UserView:
        groups, known = self._groups(name), self._hub.get(name)
        quota = self._pool.build_quota(name, groups)
        return UserView(
            name=name,
            groups=sorted(groups),
            build_quota=from_milli(quota.gpus),
            build_quota_source=quota.source,
            build_quota_group=quota.group,
            build_gpus=from_milli(self._build[name]),
            sessions=self._sessions[name],
            running=self._running[name],
            train_gpus=from_milli(self._train[name]),
            waiting=self._waiting[name],
            last_activity=known and known.last_activity,
        )

    def groups(self) -> list[GroupView]:
        """Those of the hub, of projects and those with a build quota."""
        users = Counter(group for user in self._hub.values() for group in user.groups)
        quotas = {group.name: from_milli(group.build_quota) for group in self._pool.groups}
        named = {group for project in self._pool.projects for group in project.groups}
        return [
            GroupView(name=name, build_quota=quotas.get(name), users=users[name])
            for name in sorted({*users, *quotas, *named})
        ]


class QuotaHandler(ApiHandler):
    """Sets a quota, and removes it; what of is said below."""

    with_quota: Callable[[Pool, str, BuildQuotaEntry | None], Pool]
    what: str

    async def _change(self, name: str, entry: BuildQuotaEntry | None) -> None:
        async with self.api.changing:
            before = self.api.book.pool
            after = type(self).with_quota(before, name, entry)
            if entry is None and after == before:
                raise NotFound(f"The {self.what} {name!r} has no build quota of its own.")
            await self.api.controller.apply(after, self.caller.name)
        self.set_status(204)
        self.finish()


class UserQuotaHandler(QuotaHandler):
    with_quota = staticmethod(with_user_quota)
    what = "user"

    @endpoint(
        "Give a user a build quota of their own",
        Scope.ADMIN,
        body=BuildQuotaEntry,
        status=204,
        refuses=(Invalid, Conflict),
    )
    async def put(self, name: str) -> None:
        await self._change(name, self.body(BuildQuotaEntry))

    @endpoint(
        "Remove a user's own build quota; that of their groups, or the default one, applies again",
        Scope.ADMIN,
        status=204,
        refuses=(NotFound, Conflict),
    )
    async def delete(self, name: str) -> None:
        await self._change(name, None)


class GroupQuotaHandler(QuotaHandler):
    with_quota = staticmethod(with_group_quota)
    what = "group"

    @endpoint(
        "Give each user of a group a build quota; of several groups the largest applies",
        Scope.ADMIN,
        body=BuildQuotaEntry,
        status=204,
        refuses=(Invalid, Conflict),
    )
    async def put(self, name: str) -> None:
        await self._change(name, self.body(BuildQuotaEntry))

    @endpoint("Remove the build quota of a group", Scope.ADMIN, status=204, refuses=(NotFound, Conflict))
    async def delete(self, name: str) -> None:
        await self._change(name, None)
