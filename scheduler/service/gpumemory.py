"""Warns the users of jobs and notebook servers that use more memory of a shared GPU than their part of it, and then
ends the job, or the largest process of the server.

The decision is `controller.gpumemory`; here are the clock, the samples and the processes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from scheduler.controller.gpumemory import WATCHED, Excess, Key, asked_to_end, excesses, uses
from scheduler.errors import RunaiError
from scheduler.model import GpuKey, JobId, SessionId, UserName
from scheduler.telemetry import GpuSample, Inventory

if TYPE_CHECKING:
    from scheduler.api.context import Context

EVERY = 5.0
"""Seconds between two looks: those between two samples."""

TOLD = 600.0
"""Seconds for which a user is told of a process that was ended."""

log = logging.getLogger(__name__)


class GpuMemoryWatcher:
    """Runs beside the service."""

    def __init__(self, api: Context, inventory: Inventory) -> None:
        self._api = api
        self._inventory = inventory
        self._excesses: Mapping[Key, Excess] = {}
        self._seen: Mapping[GpuKey, GpuSample] = {}
        self._ended: dict[SessionId, tuple[str, float]] = {}

    async def forever(self) -> None:
        while True:
            try:
                await self.look(monotonic())
            except RunaiError as error:
                log.warning("The memory of shared GPUs could not be watched: %s", error.sentence)
            except Exception:
                log.exception("The memory of shared GPUs could not be watched; trying again.")
            await asyncio.sleep(EVERY)

    async def look(self, now: float) -> None:
        """Warn, withdraw warnings, and end those that were warned for long enough, by the samples that are new."""
        book = self._api.book
        samples = self._inventory.samples([node for node in book.nodes if node.isolation in WATCHED])
        new = {gpu: sample for gpu, sample in samples.items() if sample is not self._seen.get(gpu)}
        users = {job.user for job in book.holding.values()} | {session.user for session in book.sessions.values()}
        used = uses(book, new, await asyncio.to_thread(_accounts, users) if new else {})
        found = excesses(self._excesses, used, samples.keys() - new.keys(), now)
        before, self._excesses, self._seen = self._excesses, found.all, samples
        for excess in found.due:
            await self._end(excess, now)
        self._tell_jobs(before)
        await self._tell_sessions(now)

    async def _end(self, excess: Excess, now: float) -> None:
        id, attempt, _ = excess.key
        if attempt:
            log.info("Job %s is ended. %s", id, excess.now.in_words("It used"))
            self._api.controller.exceeded(id, attempt, excess.now.in_words("Used"))
            return
        process = excess.now.largest
        if await asyncio.to_thread(self._inventory.end, process, force=excess.asked):
            words = " ".join([f"Process {process.pid} was ended.", excess.now.in_words("The server's kernels used")])
            log.info("Session %s: %s", id, words)
            self._ended[SessionId(id)] = words, now + TOLD
        elif not excess.asked:
            log.warning("Process %d of session %s could not be ended.", process.pid, id)
        self._excesses = {**self._excesses, excess.key: asked_to_end(excess, now)}

    def _tell_jobs(self, before: Mapping[Key, Excess]) -> None:
        now = self._excesses
        for key in now.keys() ^ before.keys():
            job = self._api.book.holding.get(JobId(key[0]))
            if job is not None and len(job.attempts) == key[1]:
                words = now[key].warning(session=False) if key in now else ""
                self._api.controller.announce(job, words, kind="memory {}/{}".format(*key[2]))

    async def _tell_sessions(self, now: float) -> None:
        book = self._api.book
        self._ended = {id: told for id, told in self._ended.items() if told[1] > now and id in book.sessions}
        warnings = {id: words for id, (words, _) in self._ended.items()}
        warnings |= {
            SessionId(key[0]): each.warning(session=True)
            for key, each in self._excesses.items()
            if not key[1] and not each.asked
        }
        if warnings != book.memory_warnings:
            before, book.memory_warnings = book.memory_warnings, warnings
            try:
                await self._api.controller.warn_sessions(warnings, "memory")
            except RunaiError:
                book.memory_warnings = before  # the new ones reached nobody
                raise


def _accounts(users: Iterable[UserName]) -> Mapping[UserName, Collection[int]]:
    """The system users that the processes of each user may run as: their own, and the scheduler's."""
    found = {user: {os.geteuid()} for user in users}
    for user, accounts in found.items():
        with suppress(KeyError):
            accounts.add(pwd.getpwnam(user).pw_uid)
    return found
