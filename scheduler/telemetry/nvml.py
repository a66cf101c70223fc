"""GPUs as NVIDIA's driver tells of them, through nvidia-ml-py (the module `pynvml`).

NVML counts every GPU of the machine; where CUDA_VISIBLE_DEVICES is set for the scheduler, the pool has only those that
it names. Measurements are taken by a thread, when somebody asks: a driver may take its time.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import pynvml  # type: ignore[import-untyped]

from scheduler.errors import Unavailable
from scheduler.model import GpuKey, Node
from scheduler.telemetry.inventory import GpuUsage
from scheduler.telemetry.machine import Gpu, Machine, cpus, host, memory
from scheduler.telemetry.machine_gpus import MachineGpus

FRESH = 1.0
"""For how many seconds a measurement is told again before another is taken."""

_NO_GPUS = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)


@dataclass(frozen=True, slots=True)
class Found:
    """The GPUs of this machine that can be used, NVML's handles of them, and what is to be said of the others."""

    machine: Machine
    handles: Mapping[str, Any]
    notes: tuple[str, ...]


def find() -> Found | None:
    """Ask NVML; None where there are no GPUs. Raises `Unavailable` where they are there and cannot be used."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value in _NO_GPUS:
            return None
        raise _broken(error) from error
    found = None
    try:
        found = _find()
    except pynvml.NVMLError as error:
        raise _broken(error) from error
    finally:
        if found is None:
            pynvml.nvmlShutdown()
    return found


def _broken(error: pynvml.NVMLError) -> Unavailable:
    why = str(error).rstrip(".")
    return Unavailable(
        f"NVIDIA's driver does not answer ({why}); check nvidia-smi, or declare GPUs instead with --declared-gpus."
    )


def _find() -> Found | None:
    count = pynvml.nvmlDeviceGetCount()
    if count == 0:
        return None
    gpus: list[Gpu] = []
    handles: dict[str, Any] = {}
    notes: list[str] = []
    devices = [_ask(_handle_and_uuid, index) for index in range(count)]
    for index in visible(os.environ.get("CUDA_VISIBLE_DEVICES"), [device and device[1] for device in devices]):
        device = devices[index]
        if device is None:
            notes.append(f"GPU {index} does not respond and is left out of the pool; check nvidia-smi.")
            continue
        handle, uuid = device
        name = pynvml.nvmlDeviceGetName(handle)
        mig = _ask(pynvml.nvmlDeviceGetMigMode, handle)
        if mig is not None and mig[0] == pynvml.NVML_DEVICE_MIG_ENABLE:
            notes.append(
                f"GPU {index} ({name}) is in MIG mode and is left out of the pool; "
                f"`nvidia-smi -i {index} -mig 0` turns MIG off."
            )
            continue
        space = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
        gpus.append(Gpu(uuid, short_name(name), None if space is None else space.total // 2**20))
        handles[uuid] = handle
    if not gpus:
        why = " ".join(notes) or "CUDA_VISIBLE_DEVICES names no GPU of this machine; unset it."
        raise Unavailable(f"No GPU of this machine can be used. {why}")
    machine = Machine(host(), tuple(gpus), _links(list(handles.values())), cpus(), memory())
    return Found(machine, handles, tuple(notes))


def _handle_and_uuid(index: int) -> tuple[Any, str]:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    return handle, pynvml.nvmlDeviceGetUUID(handle)


def _ask(question: Callable[..., Any], *about: Any) -> Any:
    """What the driver says, or None where this GPU or driver does not know."""
    try:
        return question(*about)
    except pynvml.NVMLError:
        return None


def visible(setting: str | None, uuids: Sequence[str | None]) -> list[int]:
    """The GPUs that CUDA_VISIBLE_DEVICES names, as CUDA reads it: numbers or the beginnings of UUIDs, up to one
    unknown.

    Numbers are NVML's, which are CUDA's where GPUs are alike (or CUDA_DEVICE_ORDER=PCI_BUS_ID).
    """
    if setting is None:
        return list(range(len(uuids)))
    named: list[int] = []
    for word in (part.strip() for part in setting.split(",")):
        if word.isdigit():
            matching = [int(word)] if int(word) < len(uuids) else []
        else:
            matching = [i for i, uuid in enumerate(uuids) if word and uuid and uuid.startswith(word)]
        if len(matching) != 1 or matching[0] in named:
            break
        named += matching
    return named


_BRANDS = frozenset({"nvidia", "tesla", "geforce", "quadro", "grid", "graphics", "device", "generation"})
_MAKE = re.compile(r"\d+GB|HBM\d\w*|SXM\d*|PCIe|NVL\d*|Laptop|GPU|Max-Q|MIG|vGPU", re.IGNORECASE)


def short_name(name: str) -> str:
    """What people call a GPU: `A100` for "NVIDIA A100-SXM4-80GB", `RTX-4090` for "NVIDIA GeForce RTX 4090"."""
    words = re.sub(r"[\s_-]+", " ", name).split()
    kept = [word for word in words if word.lower() not in _BRANDS and not _MAKE.fullmatch(word)]
    return "-".join(kept) or name


def _links(handles: list[Any]) -> tuple[tuple[int, ...], ...]:
    """Groups of GPUs joined by NVLink; where there is none, those behind the same PCIe switches."""
    return _groups(len(handles), lambda a, b: _nvlink(handles[a], handles[b])) or _groups(
        len(handles), lambda a, b: _near(handles[a], handles[b])
    )


def _nvlink(one: Any, other: Any) -> bool:
    status = _ask(pynvml.nvmlDeviceGetP2PStatus, one, other, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
    return bool(status == pynvml.NVML_P2P_STATUS_OK)


def _near(one: Any, other: Any) -> bool:
    level = _ask(pynvml.nvmlDeviceGetTopologyCommonAncestor, one, other)
    return bool(level is not None and level <= pynvml.NVML_TOPOLOGY_MULTIPLE)


def _groups(count: int, joined: Callable[[int, int], bool]) -> tuple[tuple[int, ...], ...]:
    """The sets of two and more that are joined, directly or through one another."""
    group = list(range(count))
    for a, b in combinations(range(count), 2):
        if group[a] != group[b] and joined(a, b):
            group = [group[a] if each == group[b] else each for each in group]
    members = (tuple(i for i in range(count) if group[i] == each) for each in sorted(set(group)))
    return tuple(sorted(each for each in members if len(each) > 1))


class NvmlGpus(MachineGpus):
    """The GPUs that NVML has found."""

    def __init__(self, found: Found) -> None:
        super().__init__(found.machine, found.notes)
        self._handles = found.handles
        self._latest = self._measure()
        self._measured = time.monotonic()
        self._measuring: threading.Thread | None = None

    def usage(self, nodes: Iterable[Node]) -> Mapping[GpuKey, GpuUsage]:
        self._refresh()
        latest = self._latest
        return {
            GpuKey((node.name, index)): latest[device]
            for node in nodes
            for index, device in enumerate(node.devices)
            if device in latest
        }

    def close(self) -> None:
        if self._measuring is not None:
            self._measuring.join()
        pynvml.nvmlShutdown()

    def _refresh(self) -> None:
        """Have a new measurement taken where the latest is old, and go on."""
        under_way = self._measuring is not None and self._measuring.is_alive()
        if time.monotonic() - self._measured > FRESH and not under_way:
            self._measuring = threading.Thread(target=self._take, name="gpu-usage", daemon=True)
            self._measuring.start()

    def _take(self) -> None:
        self._latest = self._measure()
        self._measured = time.monotonic()

    def _measure(self) -> Mapping[str, GpuUsage]:
        """By device; one that has stopped to answer is left out."""
        latest = {}
        for device, handle in self._handles.items():
            space = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
            busy = _ask(pynvml.nvmlDeviceGetUtilizationRates, handle)
            if space is not None:
                utilisation = None if busy is None else busy.gpu / 100
                latest[device] = GpuUsage(utilisation, space.used // 2**20, space.total // 2**20)
        return latest
