"""The API's views of jobs, their output, and the reasons why they wait. Units as in `schema.wire`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from scheduler.model import Ending, JobKind, JobState, Parameter
from scheduler.schema.submission import HIGHEST_PRIORITY, GroupSubmit
from scheduler.schema.wire import Digest, Wire


class WorkerView(Wire):
    rank: int
    node: str
    gpus: list[int]
    share: float


class AttemptView(Wire):
    number: int
    created: float
    started: float | None
    stopping: float | None = Field(None, description="since when its workers are being stopped; null: they were not")
    ended: float | None
    workers: list[WorkerView]
    exit_codes: list[int | None]
    reason: str
    ending: Ending | None = Field(
        None,
        description="why it ended or is ending; after `resized` and `moved` the next attempt starts immediately",
    )


class JobView(Wire):
    """A job as its owner, a member of its project or an administrator sees it.

    `mine` is true for the owner; only the owner may read logs and outputs. `position` is the position in the project's
    queue, from 1.
    """

    id: str
    name: str
    project: str
    user: str
    mine: bool
    kind: JobKind
    state: JobState
    reason: str
    notice: str = Field(
        "",
        description="for a running job, what is going to happen to it, such as that it will be paused; for a job that "
        "is paused for another job of its project, whose job that is and for how long",
    )
    isolation: str = Field("", description="how a job on a part of a GPU is isolated from others on the same GPU")
    blocked_by: dict[str, Any] | None = None
    position: int | None = None
    estimated_start: float | None = None
    submitted: float
    started: float | None
    ended: float | None
    gpus: float
    workers: int
    min_workers: int
    groups: list[GroupSubmit]
    total_gpus: float
    priority: int
    preemptible: bool
    over_quota: bool
    attempts: list[AttemptView]
    outputs: list[str]
    exit_code: int | None
    after: list[str] = Field(
        default_factory=list, description="jobs and arrays that it starts after; only its owner sees them"
    )
    array: str | None = Field(None, description="id of its array")
    index: int | None = None
    array_size: int | None = Field(None, description="number of jobs that were submitted as that array")
    parameters: dict[str, Parameter] = Field(default_factory=dict)
    schedule: str | None = Field(None, description="id of the schedule that it is a run of; only its owner sees it")
    checkpointed: float | None = Field(None, description="when it last saved a checkpoint; null: not yet")
    earliest_start: float | None = Field(None, description="start of the range in which it is likely to start, …")
    latest_start: float | None = Field(
        None, description="… and its end, from the accuracy of earlier estimates; null: too few of them"
    )

    def ran(self, now: float) -> float | None:
        """The total run time of its attempts in seconds; `None` before the first attempt."""
        spans = [(a.ended or now) - a.started for a in self.attempts if a.started is not None]
        return sum(spans) if spans else None


ATTEMPT_LINE = "\n--- attempt {} ---\n"
"""Separates the output of two attempts in a log that is followed across attempts."""


class DisplayLine(Wire):
    """One output message of a job, in the format of nbformat, or an `update_display_data` or `clear_output`.

    `log` and `display` are the position after it: pass them with `attempt` to continue there.
    """

    attempt: int
    log: int
    display: int
    output: dict[str, Any]


class JobChange(Wire):
    """What can change of a job that has not ended."""

    priority: int = Field(
        ge=0, le=HIGHEST_PRIORITY, description="priority within the project; the highest starts first"
    )


class JobPage(Wire):
    jobs: list[JobView]
    next: str | None = Field(None, description="pass as `after` for the next page")


class ArrayView(Wire):
    """The jobs of an array, ordered by index."""

    id: str
    jobs: list[JobView]


class HolderJob(Wire):
    """A job that holds GPUs. `expected_end` is null if its run time is unknown."""

    id: str
    name: str
    user: str
    gpus: float
    over_quota: bool
    expected_end: float | None


class Holder(Wire):
    """The GPUs that a job waits for and that one project (null: the sessions) holds.

    `jobs` are those that the caller may see, in the order in which they would be stopped for other projects.
    """

    project: str | None
    gpus: float
    over_quota: float
    jobs: list[HolderJob]


class SpeedView(Wire):
    """How fast similar jobs ran on a type of GPU: `relative` to the fastest type (1), measured in this many `runs`."""

    gpu_type: str
    relative: float
    spread: float | None = Field(description="the same over several nodes; null: not measured")
    per_second: float
    unit: Literal["steps", "runs"] = Field(
        description="what `per_second` counts: the steps that jobs report, or whole runs"
    )
    runs: int


class RemedyAction(Wire):
    """What the caller can do with a job: `resume` it, raise its `priority`, `cancel` it, or `clone` it, which is to
    submit it again with these `options`."""

    kind: Literal["resume", "priority", "cancel", "clone"]
    job: str
    name: str = Field(description="of the job")
    options: dict[str, str] = Field(description="the texts of options in the form; an empty text leaves the option out")


class Remedy(Wire):
    """What would help a job to start, and how the caller can bring it about; null: it is not in the caller's hands."""

    sentence: str
    action: RemedyAction | None


class Explanation(Wire):
    """Why a job is in its state, according to the latest plan. `reason` is for people, `blocked_by` for programs.

    While it waits, it is number `position` of the `waiting` jobs of its project, `holders` hold the GPUs that it waits
    for, `free` of these GPUs are free, and any one of `remedies` would help it to start earlier.
    """

    id: str
    name: str
    project: str
    state: JobState
    action: str | None = Field(description="what the latest plan does with it; null before the first plan")
    reason: str
    notice: str = Field("", description="for a job that is paused for another job of its project: whose, and how long")
    blocked_by: dict[str, Any] | None
    position: int | None
    waiting: int
    estimated_start: float | None
    not_before: float | None = Field(description="the time until which the forecast has seen no start")
    estimate: str = Field(description="what the estimated start is based on, or why there is none")
    expected_runtime: float | None
    runtime_source: Literal["declared", "learned", "limit"] | None = Field(
        description="declared by the owner, learned from similar jobs, or the maximum run time"
    )
    speeds: list[SpeedView] = Field(description="how fast similar jobs ran on each type of GPU, the fastest first")
    speed: str = Field(description="the same as a sentence, if there is something to compare")
    recent_use: str = Field("", description="how the recent use of its project counts, if it does")
    earliest_start: float | None = Field(None, description="start of the range in which it is likely to start, …")
    latest_start: float | None = Field(
        None, description="… and its end, from the accuracy of earlier estimates; null: too few of them"
    )
    shortest_runtime: float | None = Field(None, description="nine out of ten similar jobs ran longer …")
    longest_runtime: float | None = Field(
        None, description="… and nine out of ten shorter, measured in this many `similar_runs`"
    )
    similar_runs: int = 0
    size: str = Field(description="for a running elastic job: its size, and when it may grow")
    after: int = Field(description="number of other jobs that must stop or shrink first")
    free: float
    holders: list[Holder]
    remedies: list[Remedy] = Field(default_factory=list)
    would_help: list[str] = Field(description="the sentences of `remedies`")


class DryRunView(Wire):
    """What would happen to a job if it were submitted now. If it would wait, `reason` says why. If it would start on
    GPUs that others hold, `after` is the number of jobs that must stop or shrink first."""

    starts: bool
    after: int
    over_quota: bool = Field(
        description="its project would hold more than its guarantee, and its GPUs could be reclaimed"
    )
    reason: str
    estimated_start: float | None
    earliest_start: float | None = Field(None, description="start of the range in which it is likely to start, …")
    latest_start: float | None = Field(
        None, description="… and its end, from the accuracy of earlier estimates; null: too few of them"
    )
    not_before: float | None = Field(description="the time until which the forecast has seen no start")


class OutputFile(Wire):
    path: str
    size: int
    modified: float


class OutputList(Wire):
    files: list[OutputFile]


class MetricsPage(Wire):
    """The metrics that a job has reported. Each point has a `time`, `attempt`, `rank` and the reported values."""

    points: list[dict[str, Any]]
    next: int = Field(description="pass as `offset` to read later points")


class LogTimes(Wire):
    """When a worker's log had which length: `times` are pairs of bytes and seconds since the epoch, both ascending and
    precise to about a second. A line was written by the first of these times at which the log had its last byte."""

    times: list[tuple[int, float]]


class LatestReport(Wire):
    """The latest value of each metric that a job's first worker has reported, and its latest step."""

    job: str
    point: dict[str, Any]


class LatestReports(Wire):
    """In the order of the request, without the jobs that have reported nothing."""

    reports: list[LatestReport]


class BlobView(Wire):
    digest: Digest
    size: int
