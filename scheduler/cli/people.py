"""`jupyter runai user`, `group`, `session`: who may hold how many GPUs for building, and who does."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from scheduler.cli.connect import connect
from scheduler.cli.text import Screen, ago, amount, clean, gpus, took

if TYPE_CHECKING:
    from scheduler.client import Client
    from scheduler.schema import SessionView, UserList, UserView


def users(options: argparse.Namespace) -> int:
    with connect() as client:
        pages = list(_pages(client, options.find))
    found = [user for page in pages for user in page.users]
    if options.output:
        from scheduler.cli.formats import emit

        emit(found, options.output)
        return 0
    screen = Screen()
    _tell_problem(pages[0])
    if not found:
        screen.line("No users.")
        return 0
    now = time.time()
    screen.table(
        ["USER", "BUILD", "QUOTA", "FROM", "SESSIONS", "RUNNING", "WAITING", "LAST SEEN", "GROUPS"],
        [
            (
                user.name,
                amount(user.build_gpus),
                amount(user.build_quota),
                _source(user),
                user.sessions or "",
                user.running or "",
                user.waiting or "",
                "" if user.last_activity is None else ago(user.last_activity, now),
                ", ".join(user.groups),
            )
            for user in found
        ],
        right=["BUILD", "QUOTA", "SESSIONS", "RUNNING", "WAITING"],
    )
    return 0


def _pages(client: Client, find: str | None) -> Iterator[UserList]:
    after: str | None = None
    while True:
        page = client.users(find=find, limit=1000, after=after)
        yield page
        after = page.next
        if after is None:
            return


def _tell_problem(page: UserList) -> None:
    if page.hub_problem:
        print(f"Users whom only the hub knows are missing: {page.hub_problem}", file=sys.stderr)


def _source(user: UserView) -> str:
    return f"group {user.build_quota_group}" if user.build_quota_source == "group" else user.build_quota_source


def set_user(options: argparse.Namespace) -> int:
    with connect() as client:
        client.set_user_quota(options.name, options.build_quota)
    if options.build_quota is None:
        print(clean(f"User {options.name} has no build quota of their own any more."))
    else:
        print(clean(f"User {options.name} may hold {gpus(options.build_quota)} for building."))
    return 0


def groups(options: argparse.Namespace) -> int:
    with connect() as client:
        page = client.users(limit=1)
    if options.output:
        from scheduler.cli.formats import emit

        emit(page.groups, options.output)
        return 0
    screen = Screen()
    _tell_problem(page)
    if not page.groups:
        screen.line("No groups.")
        return 0
    screen.table(
        ["GROUP", "BUILD QUOTA", "USERS"],
        [(group.name, amount(group.build_quota), group.users) for group in page.groups],
        right=["BUILD QUOTA", "USERS"],
    )
    return 0


def set_group(options: argparse.Namespace) -> int:
    with connect() as client:
        client.set_group_quota(options.name, options.build_quota)
    if options.build_quota is None:
        print(clean(f"Group {options.name} has no build quota any more."))
    else:
        print(clean(f"Each user of group {options.name} may hold {gpus(options.build_quota)} for building."))
    return 0


def sessions(options: argparse.Namespace) -> int:
    with connect() as client:
        listed = client.session_list()
    found, line = listed.sessions, listed.line
    if options.output:
        from scheduler.cli.formats import emit

        emit([*found, *line], options.output)
        return 0
    screen = Screen()
    if not found and not line:
        screen.line("No sessions.")
        return 0
    now = time.time()
    if found:
        _leased(screen, found, now)
    if line:
        screen.table(
            ["WAITS", "USER", "SERVER", "GPUS", "IN LINE", "SINCE", "LIKELY IN"],
            [
                (
                    session.id,
                    session.user,
                    session.server,
                    amount(session.gpus),
                    str(session.position),
                    ago(session.requested, now),
                    "" if session.estimated_start is None else took(max(0.0, session.estimated_start - now)),
                )
                for session in line
            ],
            right=["GPUS", "IN LINE"],
        )
    return 0


def _leased(screen: Screen, found: list[SessionView], now: float) -> None:
    screen.table(
        ["SESSION", "USER", "SERVER", "GPUS", "WHERE", "STARTED", "IDLE FOR", "STOPS IN"],
        [
            (
                session.id,
                session.user,
                session.server,
                amount(session.gpus),
                _where(session),
                ago(session.started or session.requested, now),
                _idle(session, now),
                "" if session.stops_at is None else took(max(0.0, session.stops_at - now)),
            )
            for session in found
        ],
        right=["GPUS"],
    )


def _idle(session: SessionView, now: float) -> str:
    idle = "" if session.idle_since is None else took(max(0.0, now - session.idle_since))
    if session.recalled_since is not None:
        return "gets its GPUs back"
    if session.lent_since is not None:
        return f"{idle}, GPUs lent".removeprefix(", ")
    return f"{idle}, GPUs taken back".removeprefix(", ") if session.taken_since is not None else idle


def _where(session: SessionView) -> str:
    workers = [*session.workers, *session.lent]
    placed = (f"{worker.node} GPU {', '.join(map(str, worker.gpus))}" for worker in workers if worker.gpus)
    return ", ".join(placed)


def stop(options: argparse.Namespace) -> int:
    with connect() as client:
        for session in options.sessions:
            client.stop_session(session)
            print(clean(f"The server of session {session} is stopped."))
    return 0
