"""The names and ids of the pool, each a type of its own, so that none stands where another is meant.

They are made where text comes in (requests, files, rows, what an engine reports) and travel as they are from there.
"""

from __future__ import annotations

from typing import NewType

NodeName = NewType("NodeName", str)

ProjectName = NewType("ProjectName", str)

UserName = NewType("UserName", str)

JobId = NewType("JobId", str)

SessionId = NewType("SessionId", str)

WorkloadId = JobId | SessionId
"""A job or a session: the policy treats both alike."""

AttemptKey = NewType("AttemptKey", tuple[JobId, int])
"""One attempt: its job, and its number."""

GpuKey = NewType("GpuKey", tuple[NodeName, int])
"""One GPU: the name of its node, and its number there."""
