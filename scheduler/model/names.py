"""The names and ids of the pool, each with its own type, so that they cannot be confused.

They are created where text enters (requests, files, rows, reports of engines) and passed on unchanged.
"""

from __future__ import annotations

from typing import NewType

NodeName = NewType("NodeName", str)

NodePoolName = NewType("NodePoolName", str)

GpuType = NewType("GpuType", str)
"""A model of GPU, as named by the driver or by an administrator."""

UNKNOWN_TYPE = GpuType("")

ProjectName = NewType("ProjectName", str)

UserName = NewType("UserName", str)

GroupName = NewType("GroupName", str)
"""A group of users, as JupyterHub has it."""

JobId = NewType("JobId", str)

ArrayId = NewType("ArrayId", str)

SessionId = NewType("SessionId", str)

ScheduleId = NewType("ScheduleId", str)

WorkloadId = JobId | SessionId
"""A job or a session: the policy treats both alike."""

AttemptKey = NewType("AttemptKey", tuple[JobId, int])
"""One attempt: its job, and its number."""

GpuKey = NewType("GpuKey", tuple[NodeName, int])
"""One GPU: the name of its node, and its number there."""
