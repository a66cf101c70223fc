"""Who may see, change and own what; each case both ways."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.api.access import Access, Caller, Scope
from scheduler.errors import Forbidden, NotFound
from scheduler.model import (
    GroupName,
    Job,
    JobId,
    JobKind,
    Pool,
    Program,
    Project,
    ProjectName,
    Request,
    Session,
    SessionId,
    UserName,
)

POOL = Pool(
    projects=(
        Project(ProjectName("lab"), members=frozenset({UserName("head")})),
        Project(
            ProjectName("vision"), parent=ProjectName("lab"), members=frozenset({UserName("ann"), UserName("ben")})
        ),
        Project(ProjectName("speech"), parent=ProjectName("lab"), groups=frozenset({GroupName("speakers")})),
        Project(ProjectName("open"), members=frozenset({UserName("*")})),
    )
)
JOB = Job(
    JobId("j-1"),
    "train",
    Request(ProjectName("vision"), user=UserName("ann")),
    Program(JobKind.COMMAND, ("true",)),
    submitted=1.0,
)
SESSION = Session(SessionId("s-1"), "", Request(ProjectName(""), user=UserName("ann")), requested=1.0)


def access(name: str, *scopes: Scope, groups: frozenset[GroupName] = frozenset()) -> Access:
    return Access(Caller.of(UserName(name), frozenset(scopes or {Scope.SUBMIT}), groups), POOL)


def test_a_scope_includes_those_before_it() -> None:
    assert Caller.of(UserName("a"), frozenset({Scope.ADMIN})).scopes == {Scope.READ, Scope.SUBMIT, Scope.ADMIN}
    assert Caller.of(UserName("a"), frozenset({Scope.SUBMIT})).scopes == {Scope.READ, Scope.SUBMIT}
    assert Caller.of(UserName("a"), frozenset({Scope.READ})).scopes == {Scope.READ}
    assert Caller.of(UserName("a"), frozenset()).scopes == frozenset()
    assert Caller.of(UserName("a"), frozenset({Scope.WORKER})).scopes == frozenset()


def test_projects_take_the_jobs_of_their_members_and_groups_in_the_pools_order() -> None:
    assert access("ann").projects == ("vision", "open")
    assert access("zoe").projects == ("open",)
    assert access("zoe", groups=frozenset({GroupName("speakers")})).projects == ("speech", "open")


def test_a_project_with_others_below_it_takes_no_jobs_and_membership_is_not_inherited() -> None:
    assert access("head").projects == ("open",)
    assert not access("head").sees_job(JOB)


@pytest.mark.parametrize(
    ("name", "scope", "sees"),
    [
        ("ann", Scope.READ, True),
        ("ben", Scope.READ, True),
        ("zoe", Scope.SUBMIT, False),
        ("root", Scope.ADMIN, True),
    ],
)
def test_jobs_are_seen_by_their_project_and_administrators(name: str, scope: Scope, sees: bool) -> None:
    assert access(name, scope).sees_job(JOB) is sees


def test_an_owner_still_sees_a_job_of_a_project_they_have_left() -> None:
    assert access("zoe").sees_job(replace(JOB, request=Request(ProjectName("vision"), user=UserName("zoe"))))


def test_a_job_that_may_not_be_seen_is_not_found() -> None:
    for ask in (access("zoe").visible_job, access("zoe").controlled_job, access("zoe").owned_job):
        with pytest.raises(NotFound) as hidden:
            ask(JOB, "j-1")
        with pytest.raises(NotFound) as absent:
            ask(None, "j-1")
        assert hidden.value.sentence == absent.value.sentence


def test_only_the_owner_and_administrators_change_a_job() -> None:
    assert access("ann").controlled_job(JOB, "j-1") is JOB
    assert access("root", Scope.ADMIN).controlled_job(JOB, "j-1") is JOB
    with pytest.raises(Forbidden, match="belongs to ann"):
        access("ben").controlled_job(JOB, "j-1")


def test_only_the_owner_reads_logs_and_outputs() -> None:
    assert access("ann").owned_job(JOB, "j-1") is JOB
    for other in (access("ben"), access("root", Scope.ADMIN)):
        with pytest.raises(Forbidden, match="only its owner may read"):
            other.owned_job(JOB, "j-1")


def test_sessions_are_seen_by_their_user_and_administrators() -> None:
    assert access("ann").own_session(SESSION, "s-1") is SESSION
    assert access("root", Scope.ADMIN).own_session(SESSION, "s-1") is SESSION
    with pytest.raises(NotFound):
        access("ben").own_session(SESSION, "s-1")


def test_a_service_is_not_the_user_of_its_name() -> None:
    assert not access("service/ann").sees_job(JOB)


@pytest.mark.parametrize(
    ("name", "asked", "gets"), [("ann", None, "vision"), ("ann", "open", "open"), ("zoe", None, "open")]
)
def test_a_job_goes_to_the_named_project_or_the_callers_default(name: str, asked: str | None, gets: str) -> None:
    assert access(name).project_for(asked) == gets


def test_a_project_that_does_not_take_the_callers_jobs_is_refused_with_those_that_do() -> None:
    with pytest.raises(Forbidden, match="yours are open") as refused:
        access("zoe").project_for("vision")
    assert refused.value.field == "project"


def test_an_administrator_may_submit_to_any_project() -> None:
    assert access("root", Scope.ADMIN).project_for("vision") == "vision"


def test_a_caller_without_a_project_is_told_whom_to_ask() -> None:
    pool = Pool(projects=(Project(ProjectName("vision"), members=frozenset({UserName("ann")})),))
    with pytest.raises(Forbidden, match="Ask an administrator"):
        Access(Caller.of(UserName("zoe"), frozenset({Scope.SUBMIT})), pool).project_for(None)
