"""The record of jobs for a what-if simulation, as a document: the pool as it is, and the jobs that ran on it.

What must hold: read back, each job has the request with which it was submitted. What cannot be simulated on the pool as
it is now (projects or node pools that are gone) is left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pydantic import Field

from scheduler.model import ONE, Job, Pool, Workload, held_by
from scheduler.policy import Snapshot
from scheduler.pool.file import file_of
from scheduler.scenario.entries import Amount, Count, Scenario, Time
from scheduler.scenario.writing import scenario_of, without_defaults
from scheduler.schema import PoolFile, Wire


class SpanEntry(Wire):
    """A time in which workers of a job held GPUs, in seconds since 1970."""

    start: Time
    end: Time
    gpus: Amount
    workers: Count


class RunEntry(Wire):
    submitted: Time
    spans: list[SpanEntry] = Field(min_length=1)


class Record(Wire):
    """`runs` has an entry for each job of the scenario. The rest counts jobs: `unfinished` ones, which count as ended
    at `until`, and those left out: they `never_ran`, or their project or node pool is `gone`.
    """

    since: Time
    until: Time
    pool: PoolFile
    scenario: Scenario
    runs: dict[str, RunEntry]
    unfinished: int = 0
    never_ran: int = 0
    gone: int = 0


def record_of(snapshot: Snapshot, pool: Pool, jobs: Iterable[Job], since: float, until: float) -> dict[str, Any]:
    """The document of these jobs on the pool that is declared and has the nodes of the snapshot."""
    runs: dict[str, RunEntry] = {}
    workloads: list[Workload] = []
    never_ran = gone = unfinished = 0
    for job in jobs:
        spans = [
            SpanEntry(
                start=attempt.created,
                end=max(attempt.created, min(until, until if attempt.ended is None else attempt.ended)),
                gpus=held_by(attempt.placement) / ONE,
                workers=len(attempt.placement),
            )
            for attempt in job.attempts
            if attempt.placement and attempt.created < until
        ]
        if not spans:
            never_ran += 1
        elif not _known(job, snapshot.pool):
            gone += 1
        else:
            unfinished += job.ended is None or job.ended > until
            runs[job.id] = RunEntry(submitted=job.submitted, spans=spans)
            workloads.append(Workload(job.id, job.request, job.submitted))
    scenario = scenario_of(replace(snapshot, workloads=tuple(workloads)))
    return {
        "since": since,
        "until": until,
        "pool": file_of(pool).model_dump(mode="json", by_alias=True),
        "scenario": without_defaults(scenario),
        "runs": {name: run.model_dump(mode="json") for name, run in runs.items()},
        "unfinished": unfinished,
        "never_ran": never_ran,
        "gone": gone,
    }


def _known(job: Job, pool: Pool) -> bool:
    request = job.request
    return (
        request.project in {project.name for project in pool.projects}
        and request.project not in {project.parent for project in pool.projects}
        and set(request.node_pools or ()) <= {node_pool.name for node_pool in pool.node_pools}
        and request.require in (None, "node", *pool.topology)
    )
