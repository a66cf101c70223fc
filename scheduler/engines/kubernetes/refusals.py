"""Why the API server refuses a pod: a sentence for people, and whose fault it is. Pure."""

from __future__ import annotations

import re

from scheduler.engines.kubernetes.api import ApiError
from scheduler.model import Fault

_QUOTA = re.compile(r"exceeded quota: (?P<quota>[^,]+), (?P<what>.*)")


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
