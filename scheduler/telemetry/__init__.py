"""The GPUs that exist, their utilisation, its history, and which of them fail."""

from scheduler.telemetry.history import HistoryFiles
from scheduler.telemetry.inventory import GpuUsage, History, Inventory
from scheduler.telemetry.isolation import CGROUP, GpuIsolation, Part
from scheduler.telemetry.local import LocalInventory
from scheduler.telemetry.machine_gpus import DECLARED
from scheduler.telemetry.records import Mean, Span, span_of
from scheduler.telemetry.reported import Reading, ReportedGpus
from scheduler.telemetry.sample import SLOWING, GpuProcess, GpuSample, Throttle

__all__ = [
    "CGROUP",
    "DECLARED",
    "SLOWING",
    "GpuIsolation",
    "GpuProcess",
    "GpuSample",
    "GpuUsage",
    "History",
    "HistoryFiles",
    "Inventory",
    "LocalInventory",
    "Mean",
    "Part",
    "Reading",
    "ReportedGpus",
    "Span",
    "Throttle",
    "span_of",
]
