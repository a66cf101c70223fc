"""The tokens of jobs that may submit: one for each attempt.

What must hold:
- A token is valid while its attempt runs, and grants no more than its owner has at that time.
- With it a job may submit jobs, and read and cancel these; nothing else of its owner's.
- No token is stored by the service: it carries an HMAC of its job and attempt, so a restart yields the same ones.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tornado.web import RequestHandler

from scheduler.api.access import Caller, Scope
from scheduler.api.auth import Authenticator, same, token_of
from scheduler.api.directory import Directory
from scheduler.model import Job, JobId, UserName

_TOKEN = re.compile(r"job\.([A-Za-z0-9][A-Za-z0-9_-]{0,127})\.([1-9][0-9]{0,8})\.([0-9a-f]{64})")


class JobTokens:
    """The tokens made with one key."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()

    def of(self, job: JobId, attempt: int) -> str:
        named = f"job.{job}.{attempt}"
        return f"{named}.{hmac.new(self._key, named.encode(), hashlib.sha256).hexdigest()}"

    def attempt(self, token: str) -> tuple[JobId, int] | None:
        """The job and the attempt of a token; `None` if its signature is invalid."""
        found = _TOKEN.fullmatch(token)
        if found is None:
            return None
        job, attempt = JobId(found[1]), int(found[2])
        return (job, attempt) if same(token, self.of(job, attempt)) else None


class WithJobs(Authenticator):
    """Identifies jobs by their tokens, and everybody else as `others` does. `running` are the unfinished jobs."""

    def __init__(self, others: Authenticator, tokens: JobTokens, running: Callable[[JobId], Job | None]) -> None:
        self._others = others
        self._tokens = tokens
        self._running = running

    @property
    def directory(self) -> Directory | None:
        return self._others.directory

    async def identify(self, handler: RequestHandler) -> Caller | None:
        token = token_of(handler.request)
        if token is not None and (attempt := self._tokens.attempt(token)):
            return await self._job(*attempt)
        return await self._others.identify(handler)

    async def user(self, name: UserName) -> Caller | None:
        return await self._others.user(name)

    def remember(self, handler: RequestHandler) -> Callable[[], Awaitable[Caller | None]]:
        token = token_of(handler.request)
        if token is not None and (attempt := self._tokens.attempt(token)):
            return partial(self._job, *attempt)
        return self._others.remember(handler)

    def pages(self, base_url: str) -> Sequence[tuple[Any, ...]]:
        return self._others.pages(base_url)

    async def _job(self, id: JobId, attempt: int) -> Caller | None:
        """The job, on behalf of its owner, while this attempt runs."""
        job = self._running(id)
        runs = job is not None and job.state.holds_gpus and job.attempts[-1].number == attempt
        if job is None or not runs or not job.program.may_submit:
            return None
        owner = await self.user(job.user)
        return None if owner is None else replace(Caller.of(job.user, frozenset({Scope.SUBMIT}), owner.groups), job=id)
