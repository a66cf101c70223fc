"""The tokens of agents: one for each worker of an attempt, with access to that worker alone.

A token names its worker and carries an HMAC, so no token is stored and a restart yields the same ones. The key is
generated once and stays in the state folder. `Agents` decides whether a token is still valid.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass

from scheduler.discovery.statefolder import StateFolder
from scheduler.model import JobId

_TOKEN = re.compile(r"([A-Za-z0-9][A-Za-z0-9_-]{0,127})\.([1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker of an attempt of a job, by its rank."""

    job: JobId
    attempt: int
    rank: int

    def __str__(self) -> str:
        return f"{self.job}.{self.attempt}.{self.rank}"


class Tokens:
    """The tokens of one state folder."""

    def __init__(self, folder: StateFolder) -> None:
        self._key = folder.secret("agent-key").encode()

    def of(self, worker: Worker) -> str:
        """The token of a worker."""
        return f"{worker}.{self._proof(worker)}"

    def worker(self, token: str) -> Worker | None:
        """The worker of a token; `None` if its signature is invalid."""
        found = _TOKEN.fullmatch(token)
        if found is None:
            return None
        worker = Worker(JobId(found[1]), int(found[2]), int(found[3]))
        return worker if hmac.compare_digest(found[4], self._proof(worker)) else None

    def _proof(self, worker: Worker) -> str:
        return hmac.new(self._key, str(worker).encode(), hashlib.sha256).hexdigest()
