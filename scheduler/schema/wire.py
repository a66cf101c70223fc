"""The common base of all types on the wire and in files.

Units at this interface: GPUs and CPUs are numbers (0.25 is a quarter of a GPU), memory is GiB, times are seconds since
the epoch, durations are seconds. Unknown keys are refused.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from scheduler.model import Parameter

NAME = r"[A-Za-z0-9]([A-Za-z0-9._@ /-]{0,126}[A-Za-z0-9])?"

Name = Annotated[str, StringConstraints(pattern=f"^{NAME}$")]
"""A name of a project, node pool or job: 1 to 128 letters, digits and `. _ @ / -`, with a letter or digit at both
ends."""

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""SHA-256 of a bundle, in hexadecimal."""


class Wire(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


AfterId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}(:any)?$")]
"""A dependency: the id of a job or an array, or a name, which means the caller's newest job of that name. With `:any`,
the dependency may also fail."""

Parameters = Annotated[dict[Annotated[str, StringConstraints(max_length=200)], Parameter], Field(max_length=100)]
"""Values by name, which a job receives as JSON in `RUNAI_PARAMETERS`."""
