"""The GPUs of a node: what they report now, and how they were used over time."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel, ConfigDict, Field

from scheduler.api.access import Access, Scope
from scheduler.api.base import ApiHandler
from scheduler.api.convert import from_mib
from scheduler.api.endpoint import endpoint
from scheduler.api.usage import LAST
from scheduler.controller.gpuowners import owner_of
from scheduler.errors import Invalid, NotFound
from scheduler.model import GpuKey, Job, Node, Session
from scheduler.schema import GpuHistory, GpuMeasures, GpuPoint, GpuProcessView, NodeGpus
from scheduler.telemetry import GpuProcess, GpuSample, Mean, Span, Throttle

MOST = 1_000
"""The most points of an answer."""

USUAL = 3600.0
"""The length of a history whose start is not given, in seconds."""


class HistoryQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    since: float | None = Field(None, ge=0, lt=LAST, description="default: an hour before `until`")
    until: float | None = Field(None, ge=0, lt=LAST, description="default: now")
    points: int = Field(360, ge=1, le=MOST, description="about how many points the answer has at most")


class GpusBase(ApiHandler):
    def node(self, name: str) -> Node:
        found = next((node for node in self.api.book.nodes if node.name == name), None)
        if found is None:
            raise NotFound(f"There is no node {name!r}.")
        return found

    def owner(self, process: GpuProcess, gpu: GpuKey) -> Job | Session | None:
        return owner_of(process, gpu, self.api.book, picks=self.api.traits.picks_gpus)


class NodeGpusHandler(GpusBase):
    @endpoint(
        "What the GPUs of a node report, and the processes that use them",
        Scope.READ,
        answer=NodeGpus,
        refuses=(NotFound,),
    )
    async def get(self, node: str) -> None:
        found = self.node(node)
        samples = self.api.inventory.samples((found,))
        failures, access = dict(found.failing), self.access
        declared = found.declared and bool(samples)
        gpus = []
        for gpu in range(found.gpus):
            key = GpuKey((found.name, gpu))
            sample = samples.get(key, GpuSample())
            owners = [self.owner(each, key) for each in sample.processes]
            processes = [process_view(*each, access) for each in zip(sample.processes, owners, strict=True)]
            gpus.append(measures(gpu, sample, failures.get(gpu), processes))
        measured = bool(samples) and not declared
        self.answer(
            NodeGpus(node=found.name, measured=measured, declared=declared, isolation=found.isolation, gpus=gpus)
        )


class GpuHistoryHandler(GpusBase):
    @endpoint(
        "The use of a GPU over time, for up to 13 months",
        Scope.READ,
        query=HistoryQuery,
        answer=GpuHistory,
        refuses=(NotFound,),
    )
    async def get(self, node: str, gpu: str) -> None:
        found, query = self.node(node), self.query(HistoryQuery)
        if not gpu.isdecimal() or int(gpu) >= found.gpus:
            raise NotFound(f"Node {node} has no GPU {gpu}.")
        index = int(gpu)
        until = self.api.clock() if query.until is None else query.until
        since = max(0.0, until - USUAL) if query.since is None else query.since
        if since >= until:
            raise Invalid("since: the span ends before it begins; give a `since` before `until`.", field="since")
        history = None
        if (device := self.api.inventory.device(found, index)) is not None:
            read = self.api.inventory.history
            history = await asyncio.to_thread(read, device, since, until, query.points)
        self.answer(
            GpuHistory(
                node=found.name,
                gpu=index,
                measured=history is not None and not found.declared,
                declared=history is not None and found.declared,
                since=since,
                until=until,
                step=0 if history is None else history.step,
                points=[] if history is None else list(map(point, history.spans)),
            )
        )


def measures(index: int, sample: GpuSample, failure: str | None, processes: list[GpuProcessView]) -> GpuMeasures:
    return GpuMeasures(
        index=index,
        failure=failure,
        utilisation=sample.utilisation,
        memory_gib=from_mib(sample.memory),
        used_memory_gib=from_mib(sample.used),
        power_watts=sample.power,
        temperature=sample.temperature,
        throttle_reasons=[] if sample.throttle is None else reasons(sample.throttle),
        corrected_errors=sample.corrected,
        uncorrected_errors=sample.uncorrected,
        processes=processes,
    )


def point(span: Span) -> GpuPoint:
    return GpuPoint(
        start=span.start,
        utilisation=_mean(span.utilisation, 3),
        most_utilisation=_most(span.utilisation),
        used_memory_gib=None if not span.used.count else round(span.used.mean / 1024, 3),
        power_watts=_mean(span.power, 1),
        temperature=_mean(span.temperature, 1),
        most_temperature=_most(span.temperature),
        slowed=_mean(span.slowed, 3),
        throttle_reasons=reasons(span.reasons),
        corrected_errors=span.corrected,
        uncorrected_errors=span.uncorrected,
        xid=span.xid,
    )


def _mean(values: Mean, digits: int) -> float | None:
    return round(values.mean, digits) if values.count else None


def _most(values: Mean) -> float | None:
    return values.most if values.count else None


def reasons(throttle: Throttle) -> list[str]:
    """The known reasons by name; a newer driver may have others."""
    return [reason.name.lower() for reason in Throttle if throttle & reason and reason.name]


# -- processes ------------------------------------------------------------------------------------------


def process_view(process: GpuProcess, owner: Job | Session | None, access: Access) -> GpuProcessView:
    visible = access.caller.admin if owner is None else _sees(owner, access)
    return GpuProcessView(
        pid=process.pid if visible else None,
        memory_gib=from_mib(process.memory),
        kind=None if owner is None else "job" if isinstance(owner, Job) else "session",
        id=owner.id if visible and owner is not None else None,
        user=owner.user if visible and owner is not None else None,
    )


def _sees(owner: Job | Session, access: Access) -> bool:
    return access.sees_job(owner) if isinstance(owner, Job) else access.sees_session(owner)
