"""The workloads of a snapshot as the policy handles them: what runs, what waits, and what is asked for.

`Ask` is everything about a request that matters to the decision, without who sent it; equal asks are one object.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.model import Milli, Request, WorkerPlacement, Workload
from scheduler.policy.accounts import Account
from scheduler.policy.needs import Need, held_by


@dataclass(eq=False, slots=True)
class Ask:
    """What a job asks for. `each` is what one worker counts against quotas, `least` what the gang does.

    `masks` are the rooms that qualify at all, by preference; `qualifies` is their union.
    """

    need: Need
    workers: int
    gang: int
    each: Milli
    preemptible: bool
    priority: int
    require: str | None
    prefer: str | None
    masks: tuple[int, ...]
    spread: bool
    qualifies: int
    request: Request

    @property
    def least(self) -> Milli:
        return self.each * self.gang


class Work:
    """One workload. `placement` is where it stands (later), `leaves` whether it is on its way out.

    A session has no account: it counts against its user's quota, not against a project.
    """

    __slots__ = ("account", "amount", "ask", "id", "leaves", "need", "placement", "urgency", "workload")

    def __init__(self, workload: Workload, account: Account | None, ask: Ask) -> None:
        self.workload = workload
        self.id = workload.id
        self.account = account
        self.ask = ask
        self.need = ask.need
        self.placement: tuple[WorkerPlacement, ...] = workload.placement
        self.amount = held_by(workload.placement) if workload.placement else 0
        self.leaves = workload.stopping
        self.urgency = (-workload.request.priority, workload.submitted, workload.id)

    def stands_at(self, placement: tuple[WorkerPlacement, ...]) -> None:
        self.placement = placement
        self.amount = held_by(placement)

    @property
    def preemptible(self) -> bool:
        return self.workload.request.preemptible

    def protected_until(self) -> float:
        """Until when it may not be preempted."""
        started, least = self.workload.started, self.workload.request.min_runtime
        return float("-inf") if started is None or least <= 0 else started + least

    def loss(self, now: float) -> float:
        """The work that stopping it loses: GPU-seconds since it last saved its state, or since its start."""
        since = self.workload.checkpointed
        if since is None:
            since = self.workload.started
        return 0.0 if since is None else max(0.0, now - since) * self.amount
