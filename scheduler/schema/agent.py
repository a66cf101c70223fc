"""What a worker's agent and the scheduler tell each other."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from scheduler.schema.wire import Digest, Wire

Sentence = Annotated[str, StringConstraints(max_length=1000)]


class AgentFile(Wire):
    """A large file of the working directory: the bytes of `blobs`, one after the other."""

    path: str
    blobs: list[Digest]
    executable: bool


class AgentWrapper(Wire):
    """A tool that stands before the command, with its arguments."""

    file: str
    arguments: list[str]


class AgentSpec(Wire):
    """What a worker runs. `env` is over what the machine has, `own` over all.

    `tools` are files that stand beside the command; `python_path` is the folder of one that comes first in
    `PYTHONPATH`. `streams` are files of the output folder that only grow, by name. `grace` is in seconds, `log_limit`
    in bytes.
    """

    command: list[str]
    env: dict[str, str]
    own: dict[str, str]
    wrapper: AgentWrapper | None
    python_path: str | None
    tools: list[str]
    bundle: Digest | None
    files: list[AgentFile]
    streams: dict[str, str]
    grace: float
    log_limit: int


class AgentState(Wire):
    """How a worker stands, as its agent says. `agent` tells it from any other that has the same token.

    `started` and `at`, the end, are seconds since the epoch; `exit_code` is negative for a signal. `stopped` says of
    one that has exited whether it was told to before, by whoever.
    """

    agent: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    state: Literal["pulling", "running", "exited", "lost"]
    started: float | None = Field(None, ge=0)
    at: float = Field(0.0, ge=0)
    exit_code: int | None = Field(None, gt=-256, lt=256)
    reason: Sentence = ""
    stopped: bool | None = None


class AgentOrders(Wire):
    """`stop`: seconds in which the worker has to have ended, if it has to; `number` is that of the newest order."""

    number: int
    stop: float | None


class AgentReceived(Wire):
    """How many bytes the scheduler has, from where the agent goes on."""

    size: int


class AgentFileInfo(Wire):
    path: str
    size: int
    modified: float


class AgentFileList(Wire):
    files: list[AgentFileInfo]
