"""Who may see and do what: the table of scopes, as plain functions over values.

Everything here errs on the side of refusing: membership is what a project itself names, never inherited, and what a
caller may not see does not exist for that caller.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum

from scheduler.errors import Forbidden, NotFound
from scheduler.model import GroupName, Job, JobId, Pool, Project, ProjectName, Schedule, Session, UserName
from scheduler.store import EventRecord


class Scope(StrEnum):
    """Each of the first three includes the previous ones. Behind a hub they are called `custom:runai:<scope>`.

    `worker` is the scope of a worker's token, `node` that of the token of a node's agent. No other token has one of
    them, and such a token has no other scope.
    """

    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"
    WORKER = "worker"
    NODE = "node"


SPAWNER = UserName("service/runai")
"""The holder of the service's own token: this process, and the spawner of its hub."""

_INCLUDES = {
    Scope.READ: frozenset({Scope.READ}),
    Scope.SUBMIT: frozenset({Scope.READ, Scope.SUBMIT}),
    Scope.ADMIN: frozenset({Scope.READ, Scope.SUBMIT, Scope.ADMIN}),
    Scope.WORKER: frozenset(),
    Scope.NODE: frozenset(),
}


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request as verified by the authenticator, never as stated in a body or header. With a `job`, it
    is a job of that user, which may do less."""

    name: UserName
    scopes: frozenset[Scope]
    groups: frozenset[GroupName] = frozenset()
    job: JobId | None = None

    @classmethod
    def of(cls, name: UserName, scopes: frozenset[Scope], groups: frozenset[GroupName] = frozenset()) -> Caller:
        """A caller with `scopes` and all that these include."""
        return cls(name, frozenset().union(*(_INCLUDES[scope] for scope in scopes)), groups)

    @property
    def admin(self) -> bool:
        return Scope.ADMIN in self.scopes


def leaves(pool: Pool) -> tuple[Project, ...]:
    """The projects that take jobs, in the pool's order."""
    parents = {project.parent for project in pool.projects}
    return tuple(project for project in pool.projects if project.name not in parents)


class Members:
    """The members of a pool's projects, by users and groups: built once, looked up for many callers."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.leaves = frozenset(project.name for project in leaves(pool))
        self.without_guarantee = frozenset(project.name for project in pool.projects if project.all_guaranteed == 0)
        self._place = {project.name: place for place, project in enumerate(pool.projects)}
        self._users: dict[UserName, list[ProjectName]] = defaultdict(list)
        self._groups: dict[GroupName, list[ProjectName]] = defaultdict(list)
        for project in pool.projects:
            for user in project.members:
                self._users[user].append(project.name)
            for group in project.groups:
                self._groups[group].append(project.name)

    def projects_of(self, caller: Caller) -> list[ProjectName]:
        """In the pool's order."""
        found = {*self._users.get(UserName("*"), ()), *self._users.get(caller.name, ())}
        for group in caller.groups:
            found.update(self._groups.get(group, ()))
        return sorted(found, key=self._place.__getitem__)


class Access:
    """What one caller may see and do in one pool."""

    def __init__(self, caller: Caller, pool: Pool, members: Members | None = None) -> None:
        """`members` are the pool's, where they are already known."""
        members = members or Members(pool)
        belongs_to = members.projects_of(caller)
        self.caller = caller
        self.pool = pool
        self.projects = tuple(
            sorted((name for name in belongs_to if name in members.leaves), key=members.without_guarantee.__contains__)
        )
        """The projects that take the caller's jobs: those with a guarantee first, otherwise in the pool's order. The
        first is the default."""
        self.seen_projects = frozenset(belongs_to)
        """The projects whose members and jobs the caller may see (an administrator sees all)."""

    def sees_project(self, name: str | None) -> bool:
        """Whether the caller may see the jobs and the members of this project."""
        return name in self.seen_projects or self.caller.admin

    def sees_job(self, job: Job) -> bool:
        return self.owns(job) or (self.caller.job is None and self.sees_project(job.request.project))

    def sees_session(self, session: Session) -> bool:
        return self.owns(session) or self.caller.admin

    def sees_event(self, event: EventRecord) -> bool:
        """Whether the caller may see this event. Events of the pool and its projects are visible to everybody."""
        if event.kind.startswith("job."):
            return event.user == self.caller.name or self.sees_project(event.project)
        if event.kind.startswith(("session.", "schedule.")):
            return event.user == self.caller.name or self.caller.admin
        return True

    def owns(self, thing: Job | Session) -> bool:
        """Whether it is the caller's; a job that calls owns only the jobs that it has submitted."""
        if self.caller.job is None:
            return thing.user == self.caller.name
        return isinstance(thing, Job) and (thing.user, thing.program.submitter) == (self.caller.name, self.caller.job)

    def stranger_to(self, thing: Job | Session) -> UserName | None:
        """The caller, where that is not the owner; the hub's spawner acts for the owner of a server."""
        for_owner = isinstance(thing, Session) and self.caller.name == SPAWNER
        return None if for_owner or self.owns(thing) else self.caller.name

    def visible_job(self, job: Job | None, job_id: str) -> Job:
        if job is None or not self.sees_job(job):
            raise NotFound(f"There is no job {job_id} that you may see. `jupyter runai list` lists your jobs.")
        return job

    def controlled_job(self, job: Job | None, job_id: str) -> Job:
        """The job, if the caller may stop, pause and resume it."""
        job = self.visible_job(job, job_id)
        if not (self.owns(job) or self.caller.admin):
            raise Forbidden(f"Job {job_id} belongs to {job.user}: only its owner and administrators may change it.")
        return job

    def owned_job(self, job: Job | None, job_id: str) -> Job:
        """The job, if the caller may read its logs and outputs."""
        job = self.visible_job(job, job_id)
        if not self.owns(job):
            raise Forbidden(f"Job {job_id} belongs to {job.user}: only its owner may read its logs and outputs.")
        return job

    def own_schedule(self, schedule: Schedule | None, name: str) -> Schedule:
        """The schedule, if it is the caller's: nobody else sees it."""
        if schedule is None or schedule.user != self.caller.name:
            raise NotFound(f"You have no schedule {name}. `jupyter runai schedule list` lists your schedules.")
        return schedule

    def own_session(self, session: Session | None, session_id: str) -> Session:
        if session is None or not self.sees_session(session):
            raise NotFound(f"There is no session {session_id} that you may see.")
        return session

    def project_for(self, name: str | None) -> ProjectName:
        """The project of a job: the named one, if it takes the caller's jobs, or the caller's default."""
        if name is None:
            if not self.projects:
                raise Forbidden(
                    "You are not a member of any project yet. Ask an administrator to add you to one.",
                    field="project",
                )
            return self.projects[0]
        if name in self.projects:
            return ProjectName(name)
        if any(project.name == name for project in leaves(self.pool)) and not self.caller.admin:
            raise Forbidden(f"Project {name} does not take your jobs; {self._choices()}", field="project")
        return ProjectName(name)

    def _choices(self) -> str:
        if not self.projects:
            return "ask an administrator to add you to a project."
        return f"yours are {', '.join(self.projects)}."
