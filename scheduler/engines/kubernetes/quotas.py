"""The resource quotas of the pods' namespace: which starts that they refused may succeed now.

What must hold: a refused start is announced at most once, after its quota has grown, and only where it fits beside
those announced before it. So when a pod ends, only as many starts are tried again as can succeed, however many wait.
Where the scheduler may not read quotas, nothing is announced, and the starts are retried after their pauses.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from scheduler.engines.kubernetes.api import Api, ApiError
from scheduler.engines.kubernetes.mirror import Mirror
from scheduler.engines.kubernetes.podviews import Object
from scheduler.engines.kubernetes.quantities import quantity
from scheduler.engines.kubernetes.refusals import Exceeded
from scheduler.engines.kubernetes.retrying import with_retries
from scheduler.model import JobId

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QuotaView:
    """`left` is what a quota still allows, by resource."""

    name: str
    left: Mapping[str, Fraction] = field(default_factory=dict)


def quota_view(quota: Object) -> QuotaView:
    """The part of a ResourceQuota that is kept."""
    status = quota.get("status", {})
    used = status.get("used") or {}
    hard = (status.get("hard") or {}).items()
    left = {resource: quantity(most) - quantity(used.get(resource, 0)) for resource, most in hard}
    return QuotaView(quota["metadata"]["name"], left)


class Quotas:
    """`may_start(job, attempt)` is called for a refused start that fits now. It returns whether the job waits for it.

    `growths` counts how often a quota has grown.
    """

    def __init__(self, api: Api, namespace: str) -> None:
        self.may_start: Callable[[JobId, int], bool] = lambda job, attempt: False
        self.growths = 0
        self._refused: dict[JobId, tuple[int, Exceeded]] = {}
        self._mirror = Mirror(api, f"/api/v1/namespaces/{namespace}/resourcequotas", quota_view, self._see)

    async def open(self) -> None:
        try:
            await with_retries(self._mirror.open)
        except ApiError as error:
            log.info("Quotas cannot be read; starts that they refuse are retried after pauses: %s", error)

    async def close(self) -> None:
        await self._mirror.close()

    def refuse(self, job: JobId, attempt: int, exceeded: Exceeded, growths: int) -> None:
        """A quota has refused a start that was tried when there had been `growths`; `exceeded` is what all of its pods
        need."""
        self._refused[job] = (attempt, exceeded)
        if self.growths != growths:
            self._announce(exceeded.quota)

    def forget(self, job: JobId) -> None:
        """The job is tried again."""
        self._refused.pop(job, None)

    def _see(self, before: QuotaView | None, after: QuotaView | None) -> None:
        quota = before or after
        if quota is not None and before is not None and (after is None or _has_grown(before, after)):
            self.growths += 1
            self._announce(quota.name)

    def _announce(self, name: str) -> None:
        """Announce the starts that fit together; those that were refused first come first."""
        views = (view for view in self._mirror.items.values() if view.name == name)
        left = dict(next((view.left for view in views), {}))  # a quota that is gone does not limit anything
        for job, (attempt, exceeded) in list(self._refused.items()):
            needs = exceeded.amounts
            if exceeded.quota != name or any(amount > left.get(resource, amount) for resource, amount in needs.items()):
                continue
            del self._refused[job]
            if self.may_start(job, attempt):
                left = {resource: amount - needs.get(resource, 0) for resource, amount in left.items()}


def _has_grown(before: QuotaView, after: QuotaView) -> bool:
    return any(resource not in after.left or after.left[resource] > amount for resource, amount in before.left.items())
