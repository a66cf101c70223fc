"""Reading a trace: a CSV table of jobs (plain or gzip), strictly.

Columns: `submit_time` (seconds, or a date and time), `duration` (seconds), `gpus` (the whole gang) and `project` are
required. Optional are `job_id`, `user`, `workers`, `min_workers`, `priority`, `preemptible` (true/false) and
`expected_duration` (what was declared). Others are refused unless they are to be ignored, and every error names its
place (`trace.csv:17: gpus`).
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from scheduler.errors import Invalid
from scheduler.model import ONE, Milli, ProjectName, RelativeThroughputs, UserName, WorkloadId, gpu_count


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace. `gpus` is the whole gang's; `expected` is what the owner declared, if anything.

    `throughputs` is how fast it runs on which type of GPU: `duration` is what it takes on the fastest.
    """

    id: WorkloadId
    submitted: float
    duration: float
    gpus: Milli
    project: ProjectName
    user: UserName | None = None
    workers: int | None = None
    min_workers: int | None = None
    priority: int = 50
    preemptible: bool = True
    expected: float | None = None
    throughputs: RelativeThroughputs = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """The jobs of a trace in order of submission, and the SHA-256 of the file they came from."""

    jobs: tuple[TraceJob, ...]
    digest: str

    @property
    def projects(self) -> tuple[ProjectName, ...]:
        return tuple(sorted({job.project for job in self.jobs}))

    @property
    def by_project(self) -> Mapping[ProjectName, list[TraceJob]]:
        """The jobs of each project, projects by their names."""
        found: dict[ProjectName, list[TraceJob]] = {project: [] for project in self.projects}
        for job in self.jobs:
            found[job.project].append(job)
        return found

    @property
    def gpu_seconds(self) -> float:
        return sum(job.gpus * job.duration for job in self.jobs) / ONE

    def window(self, start: float, end: float) -> Trace:
        """The jobs submitted in `[start, end)`."""
        return Trace(tuple(j for j in self.jobs if start <= j.submitted < end), self.digest)


NEWLINE = b"\n"
REQUIRED = ("submit_time", "duration", "gpus", "project")


MOST_SECONDS = 1e10
MOST_GPUS = 1_000_000
"""Beyond these a number is a mistake: three hundred years, and more GPUs than any pool."""

MOST_BYTES = 256 * 1024**2
MOST_JOBS, MOST_PROJECTS, MOST_WORKERS = 1_000_000, 10_000, 4096
"""The largest trace that is read. A job may have as many workers as a submission."""


MONDAY = datetime(1970, 1, 5, tzinfo=UTC)
"""Time 0 of a trace is a Monday, 0 h; times with a date are counted from this one."""


def _time(text: str) -> float:
    """Seconds, or a date and time as ISO 8601 has them (UTC, where no offset is said)."""
    try:
        return _seconds(text)
    except ValueError:
        if "-" not in text[1:] or ":" not in text:
            raise
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError("is neither a number of seconds nor a date and time such as 2017-10-03 14:05:00") from None
    return _seconds(str((at.replace(tzinfo=at.tzinfo or UTC) - MONDAY).total_seconds()))


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= MOST_SECONDS:
        raise ValueError(f"is not a number of seconds from 0 to {MOST_SECONDS:.0e}")
    return value


def _gpus(text: str) -> Milli:
    if not 0 < float(text) <= MOST_GPUS:
        raise ValueError(f"is not a number of GPUs above 0 and up to {MOST_GPUS:,}")
    milli = round(float(text) * ONE)
    if milli <= 0 or abs(milli - float(text) * ONE) > 1e-6:
        raise ValueError("is not a number of GPUs above 0 in steps of 0.001")
    if milli > ONE and milli % ONE:
        raise ValueError("is more than one GPU and not whole")
    return milli


def _whole(text: str) -> int:
    value = float(text)  # tables with empty cells write 4 as 4.0
    if not value.is_integer():
        raise ValueError("is not a whole number")
    return int(value)


def _count(text: str) -> int:
    value = _whole(text)
    if not 1 <= value <= MOST_WORKERS:
        raise ValueError(f"is not a whole number from 1 to {MOST_WORKERS:,}")
    return value


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("is neither true nor false")
    return text.lower() == "true"


def _text(text: str) -> str:
    if not text:
        raise ValueError("is empty")
    return text


_COLUMNS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "job_id": ("id", _text),
    "submit_time": ("submitted", _time),
    "duration": ("duration", _seconds),
    "gpus": ("gpus", _gpus),
    "project": ("project", _text),
    "user": ("user", _text),
    "workers": ("workers", _count),
    "min_workers": ("min_workers", _count),
    "priority": ("priority", _whole),
    "preemptible": ("preemptible", _flag),
    "expected_duration": ("expected", _seconds),
}


def read_trace(path: Path, ignore: Collection[str] = ()) -> Trace:
    """Read `path` whole, but for the columns to `ignore`. Raises `Invalid`, naming line and column, for anything
    else."""
    try:
        with path.open("rb") as file:
            raw = _bounded(file, path)
        data = _bounded(gzip.GzipFile(fileobj=io.BytesIO(raw)), path) if raw[:2] == b"\x1f\x8b" else raw
        lines = max(data.count(NEWLINE), data.count(b"\r"))
        if lines > MOST_JOBS + 1:  # the first one names the columns
            raise Invalid(
                f"{path.name} has {lines:,} lines; a trace has {MOST_JOBS:,} jobs at most, one on each line.",
                field=path.name,
            )
        text = data.decode("utf-8-sig")
    except FileNotFoundError:
        raise Invalid(f"There is no trace {path}.", field=str(path)) from None
    except UnicodeDecodeError as error:
        place = f"{path.name}:{data.count(NEWLINE, 0, error.start) + 1}"
        raise Invalid(f"{place}: is not UTF-8; save the table as UTF-8.", field=place) from None
    except (OSError, EOFError, zlib.error) as error:
        raise Invalid(f"{path} can't be read as a CSV table: {error}.", field=str(path)) from None
    jobs = sorted(_rows(text, path.name, ignore), key=lambda job: job.submitted)
    if not jobs:
        raise Invalid(f"{path.name} has no jobs.", field=path.name)
    projects = len({job.project for job in jobs})
    if projects > MOST_PROJECTS:
        raise Invalid(
            f"The jobs of {path.name} are of {projects:,} projects; {MOST_PROJECTS:,} are simulated at most.",
            field="project",
        )
    return Trace(tuple(jobs), hashlib.sha256(raw).hexdigest())


def _bounded(file: IO[bytes] | gzip.GzipFile, path: Path) -> bytes:
    """The whole file. Raises `Invalid` for one that is too large, and reads no more of it than that takes."""
    data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise Invalid(
            f"{path.name} is too large to simulate; a trace takes {MOST_BYTES // 1024**2} MiB at most, unpacked.",
            field=path.name,
        )
    return data


def _rows(text: str, name: str, ignore: Collection[str]) -> Iterator[TraceJob]:
    table = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    rows = _lines(table, name)
    header = next((row for row in rows if row), [])
    top = f"{name}:{table.line_num or 1}"
    for column in header:
        if column not in _COLUMNS and column not in ignore:
            known = ", ".join(_COLUMNS)
            advice = (
                f"ignore it with --ignore {column}"
                if column.replace("_", "").isalnum()
                else "separate values with commas"
            )
            raise Invalid(f"{top}: unknown column “{column}”; known are {known}; {advice}.", field=top)
    for column in REQUIRED:
        if column not in header or column in ignore:
            raise Invalid(f"{top}: the column “{column}” is missing; the first line names the columns.", field=top)
    if len(set(header)) < len(header):
        raise Invalid(f"{top}: a column appears twice.", field=top)
    columns = [(number, column, *_COLUMNS[column]) for number, column in enumerate(header) if column not in ignore]
    seen: set[str] = set()
    for row in rows:
        if not row:
            continue
        place = f"{name}:{table.line_num}"
        if len(row) != len(header):
            raise Invalid(f"{place}: {len(row)} values for {len(header)} columns.", field=place)
        values: dict[str, object] = {"id": f"line-{table.line_num}"}
        for number, column, attribute, parse in columns:
            cell = row[number]
            if cell == "" and column not in REQUIRED:
                continue
            try:
                if "_" in cell and parse is not _text:
                    raise ValueError("is not a number")  # Python would take 1_000
                values[attribute] = parse(cell)
            except ValueError as error:
                why = str(error) if str(error).startswith("is ") else "is not a number"
                raise Invalid(f"{place}: {column}: “{cell}” {why}.", field=f"{place}: {column}") from None
        job = TraceJob(**values)  # type: ignore[arg-type]
        if job.id in seen:
            raise Invalid(f"{place}: job_id: “{job.id}” appears twice.", field=f"{place}: job_id")
        seen.add(job.id)
        each, rest = divmod(job.gpus, job.workers or 1)
        if rest or (each > ONE and each % ONE):
            raise Invalid(
                f"{place}: workers: {gpu_count(job.gpus)} cannot be divided equally among {job.workers} workers.",
                field=f"{place}: workers",
            )
        if (job.min_workers or 1) > (job.workers or 1):
            raise Invalid(
                f"{place}: min_workers: {job.min_workers} is more than its {job.workers or 1} workers.",
                field=f"{place}: min_workers",
            )
        yield job


def _lines(table: Any, name: str) -> Iterator[list[str]]:
    try:
        yield from table
    except csv.Error as error:
        place = f"{name}:{table.line_num}"
        raise Invalid(f"{place}: this is not a line of a CSV table: {error}.", field=place) from None
