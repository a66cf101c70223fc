"""What the API says of jobs, of what they leave and why they wait. Units as in `schema.wire`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from scheduler.model import Ending, JobKind, JobState, Parameter
from scheduler.schema.submission import GroupSubmit
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
    ended: float | None
    workers: list[WorkerView]
    exit_codes: list[int | None]
    reason: str
    ending: Ending | None = Field(
        None,
        description="why it ended, or is ending; after `resized` and `moved` the next attempt begins at once",
    )


class JobView(Wire):
    """A job as its owner, a member of its project or an administrator sees it.

    `mine` is true for the owner, who alone may read logs and outputs. `position` counts from 1 in the project's queue.
    """

    id: str
    name: str
    project: str
    user: str
    mine: bool
    kind: JobKind
    state: JobState
    reason: str
    notice: str = Field("", description="what a running job is told is going to happen to it: that it will be paused")
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
    after: list[str] = Field(default_factory=list, description="what its owner sent it to come after; others see none")
    array: str | None = Field(None, description="the array that it is one of")
    index: int | None = None
    parameters: dict[str, Parameter] = Field(default_factory=dict)
    earliest_start: float | None = Field(None, description="the range in which it is likely to start, by how good …")
    latest_start: float | None = Field(None, description="… such estimates have been; null: too few to say")

    def ran(self, now: float) -> float | None:
        """How long it has run, its attempts together, in seconds; `None` before the first."""
        spans = [(a.ended or now) - a.started for a in self.attempts if a.started is not None]
        return sum(spans) if spans else None


ATTEMPT_LINE = "\n--- attempt {} ---\n"
"""Stands between the output of one attempt and that of the next where a log is followed over both."""


class DisplayLine(Wire):
    """One output message of a job, as nbformat has it; also `update_display_data` and `clear_output`.

    `log` and `display` are how far the reader has come with it: passed on with `attempt`, they go on after it.
    """

    attempt: int
    log: int
    display: int
    output: dict[str, Any]


class JobPage(Wire):
    jobs: list[JobView]
    next: str | None = Field(None, description="pass as `after` for the next page")


class ArrayView(Wire):
    """The jobs of an array, by their indices."""

    id: str
    jobs: list[JobView]


class HolderJob(Wire):
    """A job that holds GPUs. `expected_end` is null where nobody knows how long it runs."""

    id: str
    name: str
    user: str
    gpus: float
    over_quota: bool
    expected_end: float | None


class Holder(Wire):
    """What one project (null: the sessions) holds of the GPUs that a job waits for.

    `jobs` are those that the caller may see, in the order in which they would be stopped for other projects.
    """

    project: str | None
    gpus: float
    over_quota: float
    jobs: list[HolderJob]


class SpeedView(Wire):
    """How fast jobs like this one ran on a type of GPU: `relative` to the fastest (1), by so many of their `runs`."""

    gpu_type: str
    relative: float
    spread: float | None = Field(description="the same over several nodes, where that was measured, too")
    per_second: float
    unit: Literal["steps", "runs"] = Field(description="what is counted: steps as they report them, or whole runs")
    runs: int


class Explanation(Wire):
    """Why a job is in its state, by the latest plan. `reason` is for people, `blocked_by` the same for programs.

    While it waits: it is number `position` of the `waiting` jobs of its project; `holders` hold the GPUs that it waits
    for, of which `free` are free; any one of `would_help` would bring it nearer to its start.
    """

    id: str
    name: str
    project: str
    state: JobState
    action: str | None = Field(description="what the plan does with it; null before the first plan")
    reason: str
    blocked_by: dict[str, Any] | None
    position: int | None
    waiting: int
    estimated_start: float | None
    not_before: float | None = Field(description="where the look ahead has seen so far, and no start until then")
    estimate: str = Field(description="what the estimated start rests on, or why there is none")
    expected_runtime: float | None
    runtime_source: Literal["declared", "learned", "limit"] | None = Field(
        description="by the owner's word, from earlier jobs like it, or the longest that it may run"
    )
    speeds: list[SpeedView] = Field(description="how fast jobs like it ran on which type of GPU, the fastest first")
    speed: str = Field(description="the same in a sentence, where there is something to compare")
    recent_use: str = Field("", description="how its project's recent use counts, where it does")
    earliest_start: float | None = Field(None, description="the range in which it is likely to start, by how good …")
    latest_start: float | None = Field(None, description="… such estimates have been; null: too few to say")
    shortest_runtime: float | None = Field(None, description="all but a tenth of similar jobs ran longer …")
    longest_runtime: float | None = Field(None, description="… and all but a tenth shorter, by so many `similar_runs`")
    similar_runs: int = 0
    size: str = Field(description="of an elastic job that runs: how large it is, and when it may grow")
    after: int = Field(description="how many others have to stop or shrink first")
    free: float
    holders: list[Holder]
    would_help: list[str]


class DryRunView(Wire):
    """What would happen to a job if it were submitted now. Where it would wait, `reason` says why; where it starts in
    GPUs that others hold, `after` is how many have to stop or shrink first."""

    starts: bool
    after: int
    over_quota: bool = Field(description="its project would hold more than its guarantee: others may get its GPUs back")
    reason: str
    estimated_start: float | None
    earliest_start: float | None = Field(None, description="the range in which it is likely to start, by how good …")
    latest_start: float | None = Field(None, description="… such estimates have been; null: too few to say")
    not_before: float | None = Field(description="where the look ahead has seen so far, and no start until then")


class OutputFile(Wire):
    path: str
    size: int
    modified: float


class OutputList(Wire):
    files: list[OutputFile]


class MetricsPage(Wire):
    """What a job has reported: each point has its `time`, `attempt` and `rank`, and what `job.report()` was given."""

    points: list[dict[str, Any]]
    next: int = Field(description="pass as `offset` for what comes later")


class BlobView(Wire):
    digest: Digest
    size: int
