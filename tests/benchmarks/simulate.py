"""The simulator's CPU seconds and memory for 100,000 jobs on 3,000 GPUs with the policy.

The jobs are drawn from the real trace of the simulator's tests, with each team split in four and shifted in time, at a
load of 90 %.
"""

from __future__ import annotations

import json
import random
import resource
import time
from dataclasses import replace
from pathlib import Path

from scheduler.model import JobId, ProjectName
from scheduler.simulation.study import OURS, prepare
from scheduler.simulation.trace import Trace, read_trace

TRACE = Path(__file__).parents[1] / "simulation" / "data" / "philly_2017_10.csv.gz"
JOBS, NODES, LOAD, PARTS = 100_000, 375, 0.9, 4


def drawn() -> Trace:
    draw = random.Random(5)
    real = read_trace(TRACE)
    jobs = draw.choices(real.jobs, k=JOBS)
    work = sum(job.gpus / 1000 * job.duration for job in jobs)
    span = work / (LOAD * NODES * 8)
    times = sorted(draw.uniform(0.0, span) for _ in jobs)
    made = (
        replace(job, id=JobId(f"j{n:06}"), submitted=at, project=ProjectName(f"{job.project}-{draw.randrange(PARTS)}"))
        for n, (job, at) in enumerate(zip(jobs, times, strict=True))
    )
    return Trace(tuple(made), "")


def main() -> None:
    study = prepare(drawn(), nodes=NODES)
    begun = time.process_time()
    (result,) = study.play([OURS])
    seconds = time.process_time() - begun
    assert result.figures.held > 0.5, "The pool was not in use."
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for figure, value, unit in (
        ("simulate: 100,000 jobs on 3,000 GPUs", seconds, "s"),
        ("simulate: the memory for it", memory, "MiB"),
    ):
        print(json.dumps({"figure": figure, "value": round(value, 3), "unit": unit}), flush=True)


if __name__ == "__main__":
    main()
