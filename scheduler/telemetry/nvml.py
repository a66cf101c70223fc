"""GPUs as NVIDIA's driver reports them, through nvidia-ml-py (the module `pynvml`).

NVML lists every GPU of the machine; where CUDA_VISIBLE_DEVICES is set for the scheduler, the pool has only those that
it names. Samples are taken by a thread (`sampler`): a driver may be slow.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pynvml  # type: ignore[import-untyped]

from scheduler.errors import Unavailable
from scheduler.model import GpuKey, GpuType, MiB, Node
from scheduler.telemetry.inventory import GpuUsage
from scheduler.telemetry.machine import Gpu, Machine, cpus, host, memory
from scheduler.telemetry.machine_gpus import MachineGpus
from scheduler.telemetry.processes import process, runs
from scheduler.telemetry.sample import GpuProcess, GpuSample, Throttle

STALE = 60.0
"""After how many seconds a sample no longer says how busy a GPU is: a driver may stop answering."""

MANY_EVENTS = 1_000
"""The most events that are read with one sample."""

_NO_GPUS = (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED)


@dataclass(frozen=True, slots=True)
class Found:
    """The usable GPUs of this machine, their NVML handles and numbers, and notes on the others. `divided` are the
    handles of the GPUs that MIG instances are parts of, by the instances' devices."""

    machine: Machine
    handles: Mapping[str, Any]
    numbers: Mapping[str, int]
    notes: tuple[str, ...]
    divided: Mapping[str, Any]


def find(*, instances: bool = True) -> Found | None:
    """Query NVML; None where there are no GPUs. Without `instances`, those in MIG mode are left out. Raises
    `Unavailable` where there are some that cannot be used."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value in _NO_GPUS:
            return None
        raise _broken(error) from error
    found = None
    try:
        found = _find(instances)
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


def _find(with_instances: bool) -> Found | None:
    count = pynvml.nvmlDeviceGetCount()
    if count == 0:
        return None
    gpus: list[Gpu] = []
    handles: dict[str, Any] = {}
    numbers: dict[str, int] = {}
    notes: list[str] = []
    divided: dict[str, Any] = {}
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
            instances = dict(_instances(handle)) if with_instances else {}
            if not instances:
                none = ", has no instances" if with_instances else ""
                notes.append(
                    f"GPU {index} ({name}) is in MIG mode{none} and is left out of the pool; "
                    f"`nvidia-smi -i {index} -mig 0` turns MIG off."
                )
            divided |= dict.fromkeys(instances, handle)
        else:
            instances = {uuid: handle}
        gpus += [_gpu(each, of_it, mig=each in divided) for each, of_it in instances.items()]
        handles |= instances
        numbers |= dict.fromkeys(instances, index)
    if not gpus:
        why = " ".join(notes) or "CUDA_VISIBLE_DEVICES names no GPU of this machine; unset it."
        raise Unavailable(f"No GPU of this machine can be used. {why}")
    machine = Machine(host(), tuple(gpus), _links(list(handles.values())), cpus(), memory())
    return Found(machine, handles, numbers, tuple(notes), divided)


def _handle_and_uuid(index: int) -> tuple[Any, str]:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    return handle, pynvml.nvmlDeviceGetUUID(handle)


def _instances(handle: Any) -> Iterable[tuple[str, Any]]:
    """The MIG instances of a GPU: their UUIDs, by which CUDA_VISIBLE_DEVICES names them, and their handles."""
    for index in range(_ask(pynvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        instance = _ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
        if instance is not None:
            yield pynvml.nvmlDeviceGetUUID(instance), instance


def _gpu(device: str, handle: Any, *, mig: bool) -> Gpu:
    """The name of an instance contains its profile: "NVIDIA A100-SXM4-40GB MIG 1g.5gb"."""
    space = _ask(pynvml.nvmlDeviceGetMemoryInfo, handle)
    memory = None if space is None else space.total // 2**20
    return Gpu(device, GpuType(short_name(pynvml.nvmlDeviceGetName(handle))), memory, mig)


def _ask(question: Callable[..., Any], *about: Any) -> Any:
    """The driver's answer, or None where this GPU or driver does not support the query."""
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
    """The common name of a GPU: `A100` for "NVIDIA A100-SXM4-80GB", `RTX-4090` for "NVIDIA GeForce RTX 4090", and
    `A100-1g.10gb` for a MIG instance of that profile."""
    words = re.sub(r"[\s_-]+", " ", name).split()
    kept = [word for word in words if word.lower() not in _BRANDS and not _MAKE.fullmatch(word)]
    return "-".join(kept) or name


def _links(handles: list[Any]) -> tuple[tuple[int, ...], ...]:
    """Groups of GPUs joined by NVLink; without NVLink, those behind the same PCIe switches."""
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
    """The connected groups of two or more."""
    group = list(range(count))
    for a, b in combinations(range(count), 2):
        if group[a] != group[b] and joined(a, b):
            group = [group[a] if each == group[b] else each for each in group]
    members = (tuple(i for i in range(count) if group[i] == each) for each in sorted(set(group)))
    return tuple(sorted(each for each in members if len(each) > 1))


class NvmlGpus(MachineGpus):
    """The GPUs that NVML has found."""

    def __init__(self, found: Found, identify: Callable[[int, MiB | None], GpuProcess] = process) -> None:
        super().__init__(found.machine, found.notes)
        self._identify = identify
        self._handles = found.handles
        self.numbers = found.numbers
        self._gpus = {**found.handles, **found.divided}
        self._devices: dict[int | None, list[str]] = {}
        for device, gpu in self._gpus.items():
            self._devices.setdefault(_address(gpu), []).append(device)
        self._events = _events({_address(gpu): gpu for gpu in self._gpus.values()}.values())
        self._known: Mapping[int, GpuProcess] = {}
        self.sample()

    def usage(self, nodes: Iterable[Node]) -> Mapping[GpuKey, GpuUsage]:
        if time.monotonic() - self._sampled > STALE:
            return {}
        latest = self._latest
        return {
            GpuKey((node.name, index)): GpuUsage(sample.utilisation, sample.used, sample.memory)
            for node in nodes
            for index, device in enumerate(node.devices)
            if (sample := latest.get(device)) is not None and sample.used is not None and sample.memory is not None
        }

    def limit_memory(self, device: str, cgroup: Path, limit: MiB | None) -> None:
        limits = pynvml.c_nvmlSetMemoryLimits_v1_t(
            nameSpace=os.fsencode(cgroup),
            softLimit=0 if limit is None else limit * 2**20,
            hardLimit=pynvml.NVML_DEVICE_MEMORY_LIMIT_MAX if limit is None else limit * 2**20,
        )
        try:
            pynvml.nvmlDeviceSetMemoryLimits_v1(self._handles[device], limits)
        except pynvml.NVMLError as error:
            raise Unavailable(f"{error}.".replace("..", ".")) from error

    def close(self) -> None:
        pynvml.nvmlShutdown()

    def sample(self) -> Mapping[str, GpuSample]:
        xids = self._xids()
        latest: dict[str, GpuSample] = {}
        for device, handle in self._handles.items():
            sample = self._sample(handle, self._gpus[device], tuple(xids.get(device, ())))
            if sample is not None:
                latest[device] = sample
        self._known = {each.pid: each for sample in latest.values() for each in sample.processes}
        self._latest = latest
        self._sampled = time.monotonic()
        return latest

    def _sample(self, handle: Any, gpu: Any, xids: tuple[int, ...]) -> GpuSample | None:
        """What a GPU reports, or an instance of `gpu`, which reports no power and nothing of its own about the state of
        the hardware; `None` where it is lost."""
        try:
            space = _ask_present(pynvml.nvmlDeviceGetMemoryInfo, handle)
            busy = _ask_present(pynvml.nvmlDeviceGetUtilizationRates, handle)
        except _Lost:
            return None
        power = _ask(pynvml.nvmlDeviceGetPowerUsage, handle)
        throttle = _ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, gpu)
        corrected, uncorrected = (
            _ask(pynvml.nvmlDeviceGetTotalEccErrors, gpu, kind, pynvml.NVML_VOLATILE_ECC)
            for kind in (pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)
        )
        return GpuSample(
            utilisation=None if busy is None else busy.gpu / 100,
            used=None if space is None else space.used // 2**20,
            memory=None if space is None else space.total // 2**20,
            power=None if power is None else power / 1000,
            temperature=_ask(pynvml.nvmlDeviceGetTemperature, gpu, pynvml.NVML_TEMPERATURE_GPU),
            throttle=None if throttle is None else Throttle(throttle),
            corrected=corrected,
            uncorrected=uncorrected,
            xids=xids,
            reset_required=_reset_required(gpu),
            processes=tuple(self._processes(handle)),
        )

    def _processes(self, handle: Any) -> Iterable[GpuProcess]:
        plain = _ask(pynvml.nvmlDeviceGetComputeRunningProcesses, handle) or ()
        of_mps = _ask(pynvml.nvmlDeviceGetMPSComputeRunningProcesses, handle) or ()
        for pid, each in {each.pid: each for each in (*of_mps, *plain)}.items():
            used = None if each.usedGpuMemory is None else each.usedGpuMemory // 2**20
            known = self._known.get(pid)
            yield replace(known, memory=used) if known is not None and runs(known) else self._identify(pid, used)

    def _xids(self) -> Mapping[str, list[int]]:
        """The errors that the driver has reported since they were last read, by device."""
        found: dict[str, list[int]] = {}
        if self._events is None:
            return found
        for _ in range(MANY_EVENTS):
            event = _ask(pynvml.nvmlEventSetWait_v2, self._events, 0)
            if event is None:
                break
            if event.eventType == pynvml.nvmlEventTypeXidCriticalError:
                for device in self._devices.get(_address(event.device), ()):
                    found.setdefault(device, []).append(event.eventData)
        return found


class _Lost(Exception):
    """The GPU does not respond."""


def _ask_present(question: Callable[..., Any], *about: Any) -> Any:
    """The answer, as `_ask`. Raises `_Lost` where the GPU does not respond."""
    try:
        return question(*about)
    except pynvml.NVMLError as error:
        if error.value == pynvml.NVML_ERROR_GPU_IS_LOST:
            raise _Lost from error
        return None


def _reset_required(handle: Any) -> bool:
    """Whether the driver (r560 and later) asks for a reset of this GPU, or a reboot."""
    found = _ask(pynvml.nvmlDeviceGetFieldValues, handle, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    if found is None or found[0].nvmlReturn != pynvml.NVML_SUCCESS:
        return False
    return found[0].value.uiVal in _RESETS


_RESETS = (
    pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET,
    pynvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT,
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET,
)


def _events(handles: Iterable[Any]) -> Any:
    """The driver's reports of errors (Xid) of these GPUs; `None` where it makes none."""
    events = _ask(pynvml.nvmlEventSetCreate)
    for handle in () if events is None else handles:
        _ask(pynvml.nvmlDeviceRegisterEvents, handle, pynvml.nvmlEventTypeXidCriticalError, events)
    return events


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
