"""`jupyter runai gpus`: what the GPUs of a node report, and how one of them was used over time."""

from __future__ import annotations

import argparse
from datetime import datetime

from scheduler.cli.connect import connect
from scheduler.cli.text import Screen
from scheduler.model import Isolation
from scheduler.schema import GpuHistory, GpuMeasures, GpuPoint, GpuProcessView, NodeGpus

POINTS = 30
"""About how many lines of a history are printed."""


def run(options: argparse.Namespace) -> int:
    with connect() as client:
        found: NodeGpus | GpuHistory
        if options.gpu is None:
            found = client.node_gpus(options.node)
        else:
            span = {"since": options.since, "until": options.until}
            found = client.gpu_history(options.node, options.gpu, points=None if options.output else POINTS, **span)
    if options.output:
        from scheduler.cli.formats import emit

        emit(found, options.output)
    elif not (found.measured or found.declared):
        Screen().line("The use of these GPUs is not measured.")
    elif found.declared:
        Screen().line("Declared load, nothing is measured:")
        _show(found)
    else:
        _show(found)
    return 0


def _show(found: NodeGpus | GpuHistory) -> None:
    if isinstance(found, NodeGpus):
        _show_now(found, Screen())
    else:
        _show_history(found, Screen())


def _show_now(found: NodeGpus, screen: Screen) -> None:
    screen.table(
        ["GPU", "BUSY", "MEMORY", "POWER", "TEMPERATURE", "SLOWED BY", "ERRORS", "PROCESSES", "STATE"],
        [
            (
                gpu.index,
                _percent(gpu.utilisation),
                _of(gpu.used_memory_gib, gpu.memory_gib),
                _with_unit(gpu.power_watts, "W"),
                _with_unit(gpu.temperature, "°C"),
                _words(gpu.throttle_reasons),
                _errors(gpu),
                ", ".join(map(_process, gpu.processes)),
                gpu.failure or "works",
            )
            for gpu in found.gpus
        ],
        right=["GPU", "BUSY", "POWER", "TEMPERATURE"],
    )
    if found.isolation in SHARING:
        screen.line(f"GPU sharing: {SHARING[found.isolation]}")


SHARING = {
    Isolation.MIG: "MIG instances have their own memory and processors.",
    Isolation.MEMORY_LIMIT: "the driver limits the GPU memory of each part.",
    Isolation.MPS: "MPS limits the GPU memory of each process; an error in one can end the others.",
    Isolation.WATCHER: "work that uses more GPU memory than its part is warned and then ended.",
    Isolation.TIME_SLICING: "nothing limits the GPU memory of a part.",
}


def _show_history(found: GpuHistory, screen: Screen) -> None:
    if not found.points:
        screen.line("Nothing was measured in this time.")
        return
    screen.table(
        ["BEGINS", "BUSY", "MOST", "MEMORY", "POWER", "TEMPERATURE", "SLOWED", "SLOWED BY", "ERRORS"],
        [
            (
                datetime.fromtimestamp(point.start).astimezone().strftime("%Y-%m-%d %H:%M:%S"),
                _percent(point.utilisation),
                _percent(point.most_utilisation),
                _with_unit(point.used_memory_gib, "GiB", 1),
                _with_unit(point.power_watts, "W"),
                _with_unit(point.temperature, "°C"),
                _percent(point.slowed),
                _words(point.throttle_reasons),
                _errors(point),
            )
            for point in found.points
        ],
        right=["BUSY", "MOST", "MEMORY", "POWER", "TEMPERATURE", "SLOWED"],
    )


def _percent(part: float | None) -> str:
    return "" if part is None else f"{part:.0%}"


def _with_unit(value: float | None, unit: str, digits: int = 0) -> str:
    return "" if value is None else f"{value:.{digits}f} {unit}"


def _of(used: float | None, memory: float | None) -> str:
    return "" if used is None or memory is None else f"{used:.1f} of {memory:.0f} GiB"


def _words(reasons: list[str]) -> str:
    return ", ".join(reason.replace("_", " ") for reason in reasons if reason != "idle")


def _errors(gpu: GpuMeasures | GpuPoint) -> str:
    counts = ((gpu.uncorrected_errors, "uncorrectable"), (gpu.corrected_errors, "corrected"))
    xid = [f"Xid {gpu.xid}"] if isinstance(gpu, GpuPoint) and gpu.xid is not None else []
    return ", ".join([*xid, *(f"{count} {kind}" for count, kind in counts if count)])


def _process(process: GpuProcessView) -> str:
    if process.kind is None:
        return "process outside the pool" if process.pid is None else f"process {process.pid} outside the pool"
    if process.id is None:
        return "another user's job" if process.kind == "job" else "another user's notebook"
    return f"job {process.id} of {process.user}" if process.kind == "job" else f"notebook of {process.user}"
