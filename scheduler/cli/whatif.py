"""What if the pool had had more GPUs, or other guarantees: the record of its jobs, simulated on both pools.

As a program it reads a request in JSON from standard input and writes the answer to standard output, within a number of
seconds and GiB; the service runs it as a process of its own.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from scheduler.errors import Invalid, RunaiError
from scheduler.model import ONE, ForeignUse, Node, NodeName, Pool, Request
from scheduler.pool.file import pool_of
from scheduler.scenario.record import Record
from scheduler.scenario.snapshot import snapshot_of
from scheduler.schema import PoolFile
from scheduler.schema.reading import validate
from scheduler.schema.whatif import MOST_GPUS
from scheduler.simulation.baselines import Run
from scheduler.simulation.recorded import RecordedSpan, recorded_run, replay, train_nodes


def what_if(record: Record, *, gpus: int = 0, guaranteed: Mapping[str, float] | None = None) -> dict[str, Any]:
    """Both simulations and the record, side by side, for JSON. Raises `Invalid` for an impossible change, and for a
    record without jobs."""
    snapshot = snapshot_of(record.scenario)
    pool = pool_of(record.pool, Pool(), 0.0)
    changed = pool_of(_guaranteed(record.pool, guaranteed or {}), Pool(), 0.0)
    if not record.runs:
        raise Invalid("No job that ran in this span can be simulated; give a longer one.", field="since")
    jobs: list[tuple[Request, Run]] = []
    for workload in snapshot.workloads:
        entry = record.runs[workload.id]
        spans = [RecordedSpan(s.start, s.end, round(s.gpus * ONE), s.workers) for s in entry.spans]
        jobs.append((workload.request, recorded_run(workload.id, workload.request, entry.submitted, spans)))
    found = replay(
        jobs,
        (pool, snapshot.nodes),
        (changed, (*snapshot.nodes, *_added(train_nodes(pool, snapshot.nodes), gpus))),
        since=record.since,
        until=record.until,
    )
    counts = {name: getattr(record, name) for name in ("since", "until", "unfinished", "never_ran", "gone")}
    return {**counts, **asdict(found)}


def _guaranteed(file: PoolFile, wanted: Mapping[str, float]) -> PoolFile:
    known = {entry.name for entry in file.projects}
    for name in wanted:
        if name not in known:
            raise Invalid(f"There is no project “{name}” in the pool.", field="guaranteed")
    projects = [
        entry.model_copy(update={"guaranteed": wanted[entry.name]}) if entry.name in wanted else entry
        for entry in file.projects
    ]
    return file.model_copy(update={"projects": projects})


def _added(nodes: Sequence[Node], gpus: int) -> tuple[Node, ...]:
    """Nodes with so many GPUs more, like the node that the pool has most GPUs of."""
    if not gpus:
        return ()
    if gpus > MOST_GPUS:
        raise Invalid(f"{gpus:,} more GPUs are too many to simulate; the most are {MOST_GPUS:,}.", field="gpus")
    if not any(node.gpus for node in nodes):
        raise Invalid("The pool has no GPUs for training, so it is unknown which ones to add.", field="gpus")
    sums: dict[tuple[object, ...], int] = {}
    for node in nodes:
        sums[_kind(node)] = sums.get(_kind(node), 0) + node.gpus
    like = max(nodes, key=lambda node: (sums[_kind(node)], node.gpus))
    whole, rest = divmod(gpus, like.gpus)
    return tuple(
        replace(like, name=NodeName(f"added-{number}"), gpus=size, gpu_links=(), foreign=ForeignUse())
        for number, size in enumerate([like.gpus] * whole + [rest] * bool(rest))
    )


def _kind(node: Node) -> tuple[object, ...]:
    return (node.node_pool, node.gpu_type, node.gpus, node.gpu_parts)


def main() -> int:
    seconds, gib = map(int, sys.argv[1:])
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (gib * 1024**3, gib * 1024**3))
    try:
        asked = json.load(sys.stdin)
        answer = what_if(validate(Record, asked["record"]), **asked["change"])
    except RunaiError as error:
        answer = {"refused": error.sentence, "field": getattr(error, "field", None)}
    json.dump(answer, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
