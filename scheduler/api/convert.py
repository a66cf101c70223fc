"""Converts the units of people (numbers of GPUs, GiB) to those of the scheduler (thousandths, MiB), and back.

An amount is converted exactly or refused: 0.25 GPU is 250, 0.0001 is an error with a sentence, never a rounding.
The pool file has the same rule in `scheduler.pool.file`.
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from decimal import Decimal
from keyword import iskeyword
from pathlib import PurePosixPath
from typing import Any

from scheduler.errors import Invalid
from scheduler.model import (
    ONE,
    After,
    ArrayId,
    ArrayPlace,
    Container,
    Defaults,
    Environment,
    Framework,
    GitState,
    GpuType,
    Job,
    JobId,
    JobKind,
    LargeFile,
    MiB,
    Milli,
    NodePoolName,
    NotebookCell,
    Program,
    ProjectName,
    Request,
    Session,
    SessionId,
    Shape,
    UserName,
    WorkerGroup,
    session_request,
    size_of,
)
from scheduler.policy import Decision
from scheduler.pool.rules import Rules
from scheduler.schema import ArraySubmit, FileSubmit, GitSubmit, GroupSubmit, JobSubmit, NotebookCellSubmit, SessionOpen
from scheduler.schema.reading import milli

MAX_ENV_BYTES = 256 * 1024
MAX_COMMAND_BYTES = 256 * 1024

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = ("RUNAI_", "CUDA_VISIBLE_DEVICES")
_ID_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id(kind: str) -> str:
    """`j-…` or `s-…` with 60 random bits: safe in a path, hard to misread."""
    bits = secrets.randbits(60)
    return f"{kind}-" + "".join(_ID_LETTERS[bits >> shift & 31] for shift in range(0, 60, 5))


# -- amounts ------------------------------------------------------------------------------------------------


def from_milli(amount: Milli) -> float:
    return amount / 1000


def optional_milli(amount: float | None, field: str) -> Milli | None:
    return None if amount is None else milli(amount, field)


def to_mib(gib: float | None) -> MiB | None:
    """GiB in whole MiB, rounded up."""
    return None if gib is None else math.ceil(Decimal(repr(gib)) * 1024)


def from_mib(amount: MiB | None) -> float | None:
    return None if amount is None else round(amount / 1024, 3)


def gpus_per_worker(amount: float) -> Milli:
    gpus = milli(amount, "gpus")
    if gpus > ONE and gpus % ONE:
        raise Invalid(
            f"gpus: a worker gets whole GPUs or a part of one, not {amount:g}. "
            f"Ask for {math.floor(amount)} or {math.ceil(amount)}.",
            field="gpus",
        )
    return gpus


def shape_of(gpus: Milli, sent: JobSubmit | GroupSubmit | SessionOpen) -> Shape:
    if sent.gpu_memory_gib is not None and "gpus" in sent.model_fields_set:
        raise Invalid("gpu_memory_gib: give either gpus or gpu_memory_gib, not both.", field="gpu_memory_gib")
    return Shape(gpus=gpus, gpu_memory=to_mib(sent.gpu_memory_gib))


# -- jobs and sessions --------------------------------------------------------------------------------------


def with_defaults(sent: JobSubmit, rules: Rules) -> JobSubmit:
    """`sent`, completed by the rules of its project."""
    given: dict[str, Any] = {}
    for name in (each.name for each in fields(Defaults)):
        is_open = name not in sent.model_fields_set or getattr(sent, name) is None
        if is_open and not _said_otherwise(sent, name):
            value = rules.open(name)
            given[name] = value / ONE if name == "gpus" else list(value) if isinstance(value, tuple) else value
    longest = given.get("max_runtime")
    if sent.expected_runtime is not None and longest is not None and sent.expected_runtime > longest:
        raise Invalid(
            f"expected_runtime: {sent.expected_runtime:g} s is longer than {longest:g} s, the limit of a job without "
            f"max_runtime ({rules.source_of('max_runtime')}); lower it, or set max_runtime if that is "
            f"allowed.",
            field="expected_runtime",
        )
    return sent.model_copy(update=given)


def _said_otherwise(sent: JobSubmit, name: str) -> bool:
    """Whether a job gives its workers' resources in another way: by groups, or by memory on a GPU."""
    if sent.groups:
        return name in ("gpus", "cpus", "memory_gib")
    return name == "gpus" and sent.gpu_memory_gib is not None


def job_of(sent: JobSubmit, *, user: UserName, project: ProjectName, now: float, idempotency_key: str | None) -> Job:
    """The job that `user` sends, queued at `now`."""
    groups = _groups(sent)
    shape = max((group.shape for group in groups), key=size_of, default=None) or _shape_of_worker(sent)
    workers = sum(group.workers for group in groups) or sent.workers
    gang = workers if sent.min_workers is None else sent.min_workers
    if gang > workers:
        raise Invalid(f"min_workers: {gang} is more than workers, which is {workers}.", field="min_workers")
    if sent.expected_runtime is not None and sent.max_runtime is not None:
        _check_times(sent.expected_runtime, sent.max_runtime)
    _check_command(sent.command)
    _check_framework(sent)
    _check_env(sent.env)
    _check_outputs(sent.kind, sent.outputs)
    _check_files(sent.files)
    return Job(
        id=JobId(new_id("j")),
        name=sent.name or _name_of(sent),
        request=Request(
            project=project,
            user=user,
            environment=Environment.TRAIN,
            shape=shape,
            workers=workers,
            min_workers=gang,
            priority=sent.priority,
            preemptible=sent.preemptible,
            gpu_types=tuple(map(GpuType, sent.gpu_types)) if sent.gpu_types else None,
            node_pools=tuple(map(NodePoolName, sent.node_pools)) if sent.node_pools else None,
            require=sent.require,
            prefer=sent.prefer,
            min_runtime=sent.min_runtime,
            expected_runtime=sent.expected_runtime,
            after=tuple(dict.fromkeys(_after(each) for each in sent.after)),
            groups=groups,
        ),
        program=Program(
            kind=sent.kind,
            command=tuple(sent.command),
            bundle=sent.bundle,
            files=tuple(LargeFile(f.path, tuple(f.blobs), f.executable) for f in sent.files),
            env=dict(sent.env),
            outputs=tuple(sent.outputs),
            grace=sent.grace,
            max_runtime=sent.max_runtime,
            idle_timeout=sent.idle_timeout,
            retries=sent.retries,
            parameters=dict(sent.parameters),
            framework=sent.framework,
            container=Container(image=sent.image),
            git=None if sent.git is None else GitState(sent.git.commit, sent.git.branch, sent.git.changed),
            cell=None if sent.cell is None else NotebookCell(sent.cell.notebook, sent.cell.id),
            may_submit=sent.may_submit,
        ),
        submitted=now,
        queued=now,
        idempotency_key=idempotency_key,
    )


def _groups(sent: JobSubmit) -> tuple[WorkerGroup, ...]:
    if not sent.groups:
        return ()
    for name in ("workers", "min_workers", "gpus", "gpu_memory_gib", "cpus", "memory_gib"):
        if name in sent.model_fields_set:
            raise Invalid(f"{name}: a job with groups sets it in each group.", field=name)
    names = [group.name for group in sent.groups]
    for n, name in enumerate(names):
        if name in names[:n]:
            raise Invalid(f"groups[{n}].name: {name!r} is given twice.", field=f"groups[{n}].name")
    return tuple(WorkerGroup(group.name, group.workers, _shape_of_worker(group), group.leader) for group in sent.groups)


def _shape_of_worker(sent: JobSubmit | GroupSubmit) -> Shape:
    return replace(
        shape_of(gpus_per_worker(sent.gpus), sent),
        cpus=optional_milli(sent.cpus, "cpus"),
        memory=to_mib(sent.memory_gib),
    )


def jobs_of(
    sent: ArraySubmit, *, user: UserName, project: ProjectName, now: float, idempotency_key: str | None
) -> list[Job]:
    """The jobs of an array, called `<array>-<index>`; the first one has the key for all of them."""
    array = new_id("a")
    indices = [member.index for member in sent.members]
    if len(set(indices)) != len(indices):
        raise Invalid("members: an index is given twice.", field="members")
    for at, member in enumerate(sent.members):
        if member.command is not None:
            _check_command(member.command, f"members[{at}].command")
    job = job_of(sent.job, user=user, project=project, now=now, idempotency_key=None)
    bound = sent.at_once if sent.max_parallel is None else sent.max_parallel
    return [
        replace(
            job,
            id=JobId(f"{array}-{member.index}"),
            name=f"{job.name[:120]}-{member.index}",
            request=replace(job.request, array=ArrayPlace(ArrayId(array), member.index, len(indices), bound)),
            program=replace(
                job.program,
                command=job.program.command if member.command is None else tuple(member.command),
                parameters=job.program.parameters if member.parameters is None else member.parameters,
            ),
            idempotency_key=None if at else idempotency_key,
        )
        for at, member in enumerate(sent.members)
    ]


def submission_of(job: Job) -> JobSubmit:
    """What gives another job like this one; its place in an array is left out."""
    request, program = job.request, job.program
    given: dict[str, Any] = {
        "name": job.name,
        "project": request.project,
        "kind": program.kind,
        "command": list(program.command),
        "bundle": program.bundle,
        "files": [FileSubmit(path=f.path, blobs=list(f.blobs), executable=f.executable) for f in program.files],
        "env": dict(program.env),
        "outputs": list(program.outputs),
        "gpu_types": request.gpu_types and list(request.gpu_types),
        "node_pools": request.node_pools and list(request.node_pools),
        "image": program.container.image,
        "framework": program.framework,
        "priority": request.priority,
        "preemptible": request.preemptible,
        "require": request.require,
        "prefer": request.prefer,
        "min_runtime": request.min_runtime,
        "max_runtime": program.max_runtime,
        "idle_timeout": program.idle_timeout,
        "expected_runtime": request.expected_runtime,
        "grace": program.grace,
        "retries": program.retries,
        "after": [f"{each.job}:any" if each.afterany else each.job for each in request.after],
        "parameters": dict(program.parameters),
        "git": program.git and GitSubmit(**asdict(program.git)),
        "cell": program.cell and NotebookCellSubmit(**asdict(program.cell)),
        "may_submit": program.may_submit,
    }
    if request.groups:
        given["groups"] = [
            GroupSubmit(name=each.name, workers=each.workers, leader=each.leader, **_shape_as_sent(each.shape))
            for each in request.groups
        ]
    else:
        given |= {"workers": request.workers, "min_workers": request.min_workers, **_shape_as_sent(request.shape)}
    return JobSubmit(**{name: value for name, value in given.items() if value is not None})


def _shape_as_sent(shape: Shape) -> dict[str, float]:
    """Exactly: what it gives is the same number of thousandths and MiB again."""
    sent = {"gpus": from_milli(shape.gpus)} if shape.gpu_memory is None else {"gpu_memory_gib": shape.gpu_memory / 1024}
    if shape.cpus is not None:
        sent["cpus"] = from_milli(shape.cpus)
    if shape.memory is not None:
        sent["memory_gib"] = shape.memory / 1024
    return sent


def _after(given: str) -> After:
    job, _, condition = given.partition(":")
    return After(JobId(job), afterany=condition == "any")


def session_of(sent: SessionOpen, *, now: float) -> Session:
    return Session(
        id=SessionId(new_id("s")),
        server=sent.server,
        request=session_request(UserName(sent.user), shape_of(gpus_per_worker(sent.gpus), sent)),
        requested=now if sent.since is None else min(now, sent.since),
    )


def _name_of(sent: JobSubmit) -> str:
    """The default name of a job: its script or program, or its kind."""
    if sent.kind is JobKind.CELL:
        return "cell"
    words = [PurePosixPath(word).name for word in sent.command if not word.startswith("-")]
    named = next((word for word in words if word.endswith((".py", ".ipynb", ".sh"))), words[0] if words else "")
    return re.sub(r"[^A-Za-z0-9._-]+", "-", named).strip("._-")[:128] or sent.kind.value


def _check_times(expected: float, longest: float) -> None:
    if expected > longest:
        raise Invalid(
            f"expected_runtime: {expected:g} s is longer than max_runtime ({longest:g} s); "
            "lower one or raise the other.",
            field="expected_runtime",
        )


def _check_command(command: list[str], field: str = "command") -> None:
    if not command[0]:
        raise Invalid(f"{field}: the first word is the program and must not be empty.", field=f"{field}[0]")
    for index, word in enumerate(command):
        if "\0" in word:
            raise Invalid(f"{field}: a word must not contain a NUL character.", field=f"{field}[{index}]")
    if sum(len(word.encode()) for word in command) > MAX_COMMAND_BYTES:
        raise Invalid(f"{field}: longer than 256 KiB; put the data into a file of the bundle.", field=field)


def _check_framework(sent: JobSubmit) -> None:
    launcher = PurePosixPath(sent.command[0]).name
    if sent.framework is Framework.MPI and launcher in ("mpirun", "mpiexec"):
        raise Invalid(
            f"command: leave {launcher} and its options out; framework mpi starts one rank in each worker.",
            field="command[0]",
        )


def _check_env(env: Mapping[str, str]) -> None:
    for name, value in env.items():
        if not _ENV_NAME.fullmatch(name):
            raise Invalid(
                f"env: {name!r} is not a valid variable name; use letters, digits and _, not starting with a digit.",
                field=f"env.{name}",
            )
        if name.startswith(_RESERVED):
            raise Invalid(f"env: {name} is set by the scheduler; choose another name.", field=f"env.{name}")
        if "\0" in value:
            raise Invalid(f"env: the value of {name} contains a NUL character.", field=f"env.{name}")
    if sum(len(name.encode()) + len(value.encode()) for name, value in env.items()) > MAX_ENV_BYTES:
        raise Invalid("env: larger than 256 KiB; put the data into a file of the bundle.", field="env")


def _check_files(files: list[FileSubmit]) -> None:
    for index, file in enumerate(files):
        path = PurePosixPath(file.path)
        if path.is_absolute() or ".." in path.parts or "\0" in file.path or str(path) in (".", ""):
            raise Invalid(
                f"files: {file.path!r} is not a path below the working directory.",
                field=f"files[{index}].path",
            )
    if len({file.path for file in files}) != len(files):
        raise Invalid("files: a path is given twice.", field="files")


def _check_outputs(kind: JobKind, outputs: list[str]) -> None:
    if outputs and kind is not JobKind.CELL:
        raise Invalid(
            f"outputs: only a cell returns variables; a {kind.value} writes files to $RUNAI_OUTPUT_DIR.",
            field="outputs",
        )
    for index, name in enumerate(outputs):
        if not name.isidentifier() or iskeyword(name):
            raise Invalid(f"outputs: {name!r} is not a valid name of a Python variable.", field=f"outputs[{index}]")
    if len(set(outputs)) != len(outputs):
        raise Invalid("outputs: a name is given twice.", field="outputs")


def start_range(expected: Decision | None) -> dict[str, float]:
    """The range in which a waiting job is likely to start, where it is known."""
    if expected is None or expected.start_range is None:
        return {}
    earliest, latest = expected.start_range
    return {"earliest_start": earliest, "latest_start": latest}
