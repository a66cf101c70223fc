"""`jupyter runai plan`: scenarios in, plans out, one JSON object a line."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TextIO

from scheduler.errors import Invalid
from scheduler.model import WorkloadId
from scheduler.policy import Plan, Snapshot, decide, forecast
from scheduler.policy.play import carry_out
from scheduler.scenario.documents import documents
from scheduler.scenario.entries import Scenario
from scheduler.scenario.printing import plan_as_json
from scheduler.scenario.snapshot import snapshot_of
from scheduler.schema.reading import validate


def read(text: str, *, lines: bool = False) -> Iterator[Snapshot]:
    """The snapshots of a file: one JSON object, YAML documents, or with `lines` one JSON object a line."""
    for where, content in documents(text, lines):
        try:
            if not isinstance(content, dict):
                raise Invalid("A scenario must be a mapping (`nodes: …`).")
            yield snapshot_of(validate(Scenario, content))
        except Invalid as error:
            raise Invalid(f"{where}{error.sentence}", field=error.field) from None


def run_plan(
    path: str,
    *,
    lines: bool = False,
    cycles: int | None = None,
    timing: bool = False,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
) -> int:
    """`jupyter runai plan`: print the plan of every scenario in a file (`-`: standard input); the exit status."""
    out, err = stdout or sys.stdout, stderr or sys.stderr
    try:
        snapshots = list(read(_text(path), lines=lines))
    except Invalid as error:
        print(f"{'standard input' if path == '-' else path}: {error.sentence}", file=err)
        return 2
    for snapshot, plan, seconds in _plans(snapshots, cycles or 1):
        print(json.dumps(plan_as_json(plan, _starts(snapshot)), ensure_ascii=False), file=out)
        if timing:
            print(f"{seconds:.6f}", file=err)
    return 0


def _text(path: str) -> str:
    try:
        if path == "-":
            return sys.stdin.read()
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise Invalid(f"can't be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise Invalid("is not text in UTF-8.") from None


def _starts(snapshot: Snapshot) -> Mapping[WorkloadId, float]:
    """The estimated starts of waiting workloads, where run times are declared."""
    declared = any(workload.request.expected_runtime is not None for workload in snapshot.workloads)
    return forecast(snapshot).starts if declared else {}


def _plans(snapshots: Iterable[Snapshot], cycles: int) -> Iterator[tuple[Snapshot, Plan, float]]:
    """The last of `cycles` cycles of each snapshot: what was decided on, the plan, and the seconds that deciding
    took."""
    for snapshot in snapshots:
        seconds = 0.0
        for cycle in range(cycles):
            started = time.perf_counter()
            plan = decide(snapshot)
            for _ in plan.decisions.values():
                pass  # a decision is complete once its reason has been formatted
            seconds += time.perf_counter() - started
            if cycle + 1 < cycles:
                snapshot = carry_out(snapshot, plan)
        yield snapshot, plan, seconds
