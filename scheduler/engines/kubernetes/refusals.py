"""Why the API server refuses a pod: a sentence for people, and whose fault it is. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from scheduler.engines.kubernetes.api import ApiError
from scheduler.engines.kubernetes.quantities import quantity
from scheduler.model import Fault

_QUOTA = re.compile(r"exceeded quota: (?P<quota>[^,]+), (?P<what>.*)")
_REQUESTED = re.compile(r"requested: (?P<amounts>.*?), used: ")


@dataclass(frozen=True, slots=True)
class Exceeded:
    """A quota that refused a pod, and what the pod requests of the resources that do not suffice."""

    quota: str
    amounts: Mapping[str, Fraction]

    def times(self, pods: int) -> Exceeded:
        return Exceeded(self.quota, {resource: amount * pods for resource, amount in self.amounts.items()})


def exceeded(error: ApiError) -> Exceeded | None:
    """The quota that does not allow a call; `None` where it failed for another reason."""
    found = _QUOTA.search(error.message)
    requested = found and _REQUESTED.search(found["what"])
    if not found or not requested:
        return None
    amounts = (each.split("=", 1) for each in requested["amounts"].split(","))
    return Exceeded(found["quota"], {resource: quantity(amount) for resource, amount in amounts})


def refusal(error: ApiError) -> tuple[str, Fault]:
    """The sentence and the fault of a call that an immediate retry will not help."""
    said = " ".join(error.message.split())
    if found := _QUOTA.search(said):
        return f"the quota {found['quota']} of its namespace does not allow its pod now: {found['what']}.", Fault.ENGINE
    if "is being terminated" in said:
        return "the namespace of its pods is being deleted.", Fault.ENGINE
    if error.status == 404 and "namespaces" in said:
        return "the namespace of its pods does not exist.", Fault.ENGINE
    if "violates PodSecurity" in said:
        return f"the namespace does not admit its pod (pod security): {said}.", Fault.ENGINE
    if error.status in (401, 403):
        return f"the cluster does not allow it: {said}.", Fault.ENGINE
    if error.status in (400, 422):
        return f"its pod is not valid: {said}.", Fault.JOB
    if error.status == 404:
        return "its pod was deleted before it could be bound to its node.", Fault.ENGINE
    if error.status == 409:
        return f"its pod could not be bound to its node: {said}.", Fault.PLACE
    return f"the cluster refused it: {error}.", Fault.ENGINE
