"""Submissions: jobs, arrays and sessions. Units as in `schema.wire`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from scheduler.model import Framework, JobKind
from scheduler.schema.wire import AfterId, Digest, Name, Parameters, Wire

HIGHEST_PRIORITY = 1000


class FileSubmit(Wire):
    """A large file of the working directory, made of blobs, so that unchanged parts are uploaded only once."""

    path: str = Field(
        min_length=1, max_length=4096, description="path relative to the working directory, with `/` as separator"
    )
    blobs: list[Digest] = Field(max_length=2000)
    executable: bool = False


class GitSubmit(Wire):
    """The Git repository that a job is submitted from."""

    commit: str = Field(pattern=r"^[0-9a-f]{40,64}$")
    branch: str = Field("", max_length=255, description="empty where no branch is checked out")
    changed: int = Field(0, ge=0, description="number of its files that differ from the commit")


class NotebookCellSubmit(Wire):
    """The cell that a job is submitted from."""

    notebook: str = Field(
        min_length=1, max_length=4096, description="path below the root folder of the notebook server, with `/`"
    )
    id: str = Field(min_length=1, max_length=256)


class GroupSubmit(Wire):
    """Workers of one shape in a gang, such as a launcher or parameter servers."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")]
    workers: int = Field(1, ge=1, le=4096)
    gpus: float = Field(1, ge=0, le=1024, description="GPUs for each worker, or a fraction of one GPU")
    gpu_memory_gib: float | None = Field(None, gt=0, description="memory on one GPU for each worker, instead of `gpus`")
    cpus: float | None = Field(None, gt=0)
    memory_gib: float | None = Field(None, gt=0)
    leader: bool = Field(
        False,
        description="the job has succeeded when the workers of this group have succeeded; the others are then stopped",
    )


class JobSubmit(Wire):
    """The body of `POST /jobs`. The owner of the job is the caller."""

    name: Name | None = Field(None, description="name of the job")
    project: str | None = Field(None, description="project of the job")
    kind: JobKind = JobKind.COMMAND
    command: list[str] = Field(min_length=1, max_length=1000, description="argv; no shell is involved")
    bundle: Digest | None = Field(
        None, description="a tar.gz uploaded to /blobs, which is unpacked as the working directory"
    )
    files: list[FileSubmit] = Field(
        default_factory=list,
        max_length=5000,
        description="files of the working directory that are not in the bundle",
    )
    env: dict[str, str] = Field(
        default_factory=dict, max_length=500, description="set an environment variable of the job"
    )
    outputs: list[str] = Field(default_factory=list, max_length=100, description="variables that the cell returns")
    gpus: float = Field(1, ge=0, le=1024, description="GPUs for each worker, or a fraction of one GPU")
    gpu_memory_gib: float | None = Field(
        None, gt=0, description="memory on one GPU for each worker, instead of a number of GPUs"
    )
    gpu_types: list[str] | None = Field(None, description="types of GPU that the job accepts")
    cpus: float | None = Field(None, gt=0, description="CPUs for each worker")
    memory_gib: float | None = Field(None, gt=0, description="memory for each worker")
    workers: int = Field(1, ge=1, le=4096, description="number of workers")
    min_workers: int | None = Field(
        None, ge=1, description="start with this many workers, and add more as GPUs become free"
    )
    framework: Framework = Field(Framework.NONE, description="conventions by which the workers find each other")
    groups: list[GroupSubmit] = Field(
        default_factory=list,
        max_length=16,
        description="workers of several shapes, which start together, instead of equal workers",
    )
    node_pools: list[str] | None = Field(None, description="node pools that the job may use, in order of preference")
    image: str | None = Field(
        None, min_length=1, max_length=1000, description="on Kubernetes, the container image that the workers run in"
    )
    priority: int = Field(
        50, ge=0, le=HIGHEST_PRIORITY, description="priority within the project; the highest starts first"
    )
    preemptible: bool = Field(
        True, description="false: never stop it for other jobs; it must fit into the project's guarantee"
    )
    require: str | None = Field(
        None, description="place all workers within one node, rack or other level of the topology"
    )
    prefer: str | None = Field(
        None, description="place all workers within one node, rack or other level where that is possible"
    )
    min_runtime: float = Field(0, ge=0, description="do not preempt an attempt before it has run for this time")
    max_runtime: float | None = Field(None, gt=0, description="stop an attempt after this time")
    idle_timeout: float | None = Field(
        None, ge=60, description="stop the job when its GPUs have been idle for this time"
    )
    expected_runtime: float | None = Field(
        None, gt=0, description="estimate of the run time, from which start times are predicted"
    )
    grace: float = Field(30, ge=0, le=3600, description="time between SIGTERM and SIGKILL when an attempt is stopped")
    retries: int = Field(0, ge=0, le=100, description="number of times to try again after a failure")
    after: list[AfterId] = Field(
        default_factory=list,
        max_length=100,
        description="start when these jobs or arrays have succeeded, or, with :any after an id, when they have ended",
    )
    parameters: Parameters = Field(default_factory=dict)
    git: GitSubmit | None = Field(None, description="where the files are from")
    cell: NotebookCellSubmit | None = Field(None, description="where the job is submitted from")
    may_submit: bool = Field(
        False,
        description="the job gets a token, in RUNAI_TOKEN, with which it may submit jobs, and read and cancel these",
    )


class ArrayMember(Wire):
    """The values of one job of an array; those that are absent are taken from `job`."""

    index: int = Field(ge=0, le=999_999, description="value of RUNAI_ARRAY_INDEX")
    command: list[str] | None = Field(None, min_length=1, max_length=1000)
    parameters: Parameters | None = None


class ArraySubmit(Wire):
    """An array of jobs: `job` is submitted once for each of `members`; either all are accepted or none."""

    job: JobSubmit
    members: list[ArrayMember] = Field(min_length=1, max_length=1000)
    max_parallel: int | None = Field(
        None, ge=1, description="number of jobs that may hold GPUs at the same time; absent: all"
    )
    at_once: int | None = Field(None, ge=1, description="former name of `max_parallel`")


class SessionOpen(Wire):
    """A spawner's request to lease GPUs for a user's server. Repeating it for the same user and server returns the same
    lease.

    With `wait`, the server stands in line where no GPUs are free. The answer then comes within about 10 s, with the
    state `requested` and the position, and the request is repeated at once: after 45 s without one, the server has left
    the line.
    """

    user: str
    server: str = ""
    gpus: float = Field(1, ge=0, le=1024)
    gpu_memory_gib: float | None = Field(None, gt=0)
    groups: list[str] | None = Field(
        None, max_length=1000, description="the user's groups in JupyterHub; only an administrator may set them"
    )
    wait: bool = False
    since: float | None = Field(
        None, description="when the server first asked, which keeps its place; only an administrator may set it"
    )


class SessionActivity(Wire):
    """What a notebook server tells of itself once a minute."""

    server: str = ""
    busy: bool = Field(description="whether a kernel runs something")
    quiet_seconds: float | None = Field(
        None, ge=0, description="since a kernel or a person was active; null: not since the server started"
    )
    released: bool = Field(False, description="it has shut down its kernels, as `SessionOrders.release` asked")


class SessionOrders(Wire):
    """What an idle notebook server is to do."""

    release: bool = Field(
        description="shut down its kernels and start new ones without GPUs, unless it is used; then report `released`"
    )
