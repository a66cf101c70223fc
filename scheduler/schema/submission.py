"""What is submitted: jobs, arrays and sessions. Units as in `schema.wire`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from scheduler.model import Framework, JobKind
from scheduler.schema.wire import AfterId, Digest, Name, Parameters, Wire


class FileSubmit(Wire):
    """A large file of the working directory, made of blobs, so that the parts that have not changed are put once."""

    path: str = Field(min_length=1, max_length=4096, description="below the working directory, with `/`")
    blobs: list[Digest] = Field(max_length=2000)
    executable: bool = False


class GroupSubmit(Wire):
    """Some workers of a gang, of one shape of their own: a launcher, say, or parameter servers."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")]
    workers: int = Field(1, ge=1, le=4096)
    gpus: float = Field(1, ge=0, le=1024, description="per worker; a fraction is at most one GPU")
    gpu_memory_gib: float | None = Field(None, gt=0, description="instead of gpus: memory on one GPU")
    cpus: float | None = Field(None, gt=0)
    memory_gib: float | None = Field(None, gt=0)
    leader: bool = Field(
        False,
        description="when its workers have ended well the job has succeeded, and the others are stopped",
    )


class JobSubmit(Wire):
    """What is sent to `POST /jobs`. The owner is who sends it, never a field."""

    name: Name | None = None
    project: str | None = Field(None, description="absent: the first project that takes the caller's jobs")
    kind: JobKind = JobKind.COMMAND
    command: list[str] = Field(min_length=1, max_length=1000, description="argv; no shell is involved")
    bundle: Digest | None = Field(
        None, description="a tar.gz put under /blobs; unpacked as the working directory"
    )
    files: list[FileSubmit] = Field(
        default_factory=list,
        max_length=5000,
        description="what the working directory holds beside the bundle",
    )
    env: dict[str, str] = Field(default_factory=dict, max_length=500)
    outputs: list[str] = Field(
        default_factory=list, max_length=100, description="variables a cell brings back"
    )
    gpus: float = Field(1, ge=0, le=1024, description="per worker; a fraction is at most one GPU")
    gpu_memory_gib: float | None = Field(None, gt=0, description="instead of gpus: memory on one GPU")
    gpu_types: list[str] | None = None
    cpus: float | None = Field(None, gt=0)
    memory_gib: float | None = Field(None, gt=0)
    workers: int = Field(1, ge=1, le=4096)
    min_workers: int | None = Field(None, ge=1, description="the gang; absent: workers")
    framework: Framework = Field(Framework.NONE, description="how its workers are told of each other")
    groups: list[GroupSubmit] = Field(
        default_factory=list,
        max_length=16,
        description="instead of workers and what each gets: workers of several shapes, which start together",
    )
    node_pools: list[str] | None = Field(None, description="in order of preference")
    priority: int = Field(50, ge=0, le=1000)
    preemptible: bool = True
    require: str | None = None
    prefer: str | None = None
    min_runtime: float = Field(0, ge=0)
    max_runtime: float | None = Field(None, gt=0, description="an attempt is stopped after so long")
    idle_timeout: float | None = Field(
        None,
        ge=60,
        description="it is stopped when its GPUs have been idle for so long, where that can be measured",
    )
    expected_runtime: float | None = Field(
        None, gt=0, description="how long it will run; an estimate: nobody is stopped for it"
    )
    grace: float = Field(30, ge=0, le=3600)
    retries: int = Field(0, ge=0, le=100)
    after: list[AfterId] = Field(
        default_factory=list, max_length=100, description="start when these have succeeded"
    )
    parameters: Parameters = Field(default_factory=dict)


class ArrayMember(Wire):
    """What one job of an array has for itself; absent: what `job` says."""

    index: int = Field(ge=0, le=999_999, description="its RUNAI_ARRAY_INDEX")
    command: list[str] | None = Field(None, min_length=1, max_length=1000)
    parameters: Parameters | None = None


class ArraySubmit(Wire):
    """Many jobs as one, all kept or none: `job`, once for each of `members`."""

    job: JobSubmit
    members: list[ArrayMember] = Field(min_length=1, max_length=1000)
    max_parallel: int | None = Field(
        None, ge=1, description="so many may hold GPUs at the same time; absent: all"
    )
    at_once: int | None = Field(None, ge=1, description="the former name of `max_parallel`")


class SessionOpen(Wire):
    """What a spawner sends: a lease for `user`'s server. Asked again for the same user and server it gives the same lease."""

    user: str
    server: str = ""
    gpus: float = Field(1, ge=0, le=1024)
    gpu_memory_gib: float | None = Field(None, gt=0)
