"""The messages between a worker's agent and the scheduler."""

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
    """A tool that starts the command, with the tool's arguments."""

    file: str
    arguments: list[str]


class AgentSpec(Wire):
    """What a worker runs. `env` overrides the environment of the machine, and `own` overrides both.

    `tools` are files that are provided along with the command; `python_path` is the folder of one of them that comes
    first in `PYTHONPATH`. `streams` are append-only files of the output folder, by name. `names` are host names of its
    gang that must resolve before it starts. `grace` is in seconds, `log_limit` in bytes.
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
    names: list[str] = Field([])
    grace: float
    log_limit: int


class AgentState(Wire):
    """The state of a worker, as its agent reports it. `agent` identifies the agent among those with the same token.

    `started` and `at`, the end, are seconds since the epoch; `exit_code` is negative for a signal. `stopped` says of a
    worker that has exited whether anyone had told it to stop before.
    """

    agent: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    state: Literal["pulling", "running", "exited", "lost"]
    started: float | None = Field(None, ge=0)
    at: float = Field(0.0, ge=0)
    exit_code: int | None = Field(None, gt=-256, lt=256)
    reason: Sentence = ""
    stopped: bool | None = None


class AgentOrders(Wire):
    """A worker's current orders. `stop` is the time in seconds in which it must end, or null; `begin` is true once
    its whole gang is ready; `number` is the number of the newest order. `save` is set if the worker was asked to save
    its state, and different for each request."""

    number: int
    stop: float | None
    begin: bool = True
    save: float | None = None


class AgentReceived(Wire):
    """The number of bytes that the scheduler has received; the agent continues from there."""

    size: int


class AgentFileInfo(Wire):
    path: str
    size: int
    modified: float


class AgentFileList(Wire):
    files: list[AgentFileInfo]
