"""An attempt as its pods: built from a launch, stored with the attempt, and reloaded after a restart."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.engines.agents.tokens import Worker
from scheduler.engines.base import Launch
from scheduler.engines.kubernetes.manifests import PodPlan, address
from scheduler.engines.kubernetes.names import PREFIX, PROJECT
from scheduler.engines.kubernetes.podviews import Part
from scheduler.engines.rendezvous import Rendezvous, needs
from scheduler.model import Container, JobId, Shape, WorkerPlacement

PORT = 29400
"""The port of a pod's worker: each pod has its own ports."""


@dataclass(slots=True)
class Gang:
    """`stopped`: it must end, and no more of it is started. `bound`: all of its pods were bound."""

    job: JobId
    attempt: int
    plans: tuple[PodPlan, ...]
    grace: float
    about: Mapping[str, str]
    container: Container
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    bound: bool = False

    @property
    def alike(self) -> bool:
        """Whether all pods request the same resources."""
        return len({(plan.gpus, plan.shape, plan.part) for plan in self.plans}) == 1

    @classmethod
    def of(cls, job: JobId, attempt: int, kept: Mapping[str, Any]) -> Gang:
        """The gang that `kept_of` stored."""
        plans = tuple(
            PodPlan(Worker(job, attempt, rank), node, gpus, Shape(cpus=cpus, memory=memory), Part(*part))
            for rank, (node, gpus, cpus, memory, *part) in enumerate(kept["pods"])
        )
        image, volumes, mounts, *owner = kept.get("container", (None, (), ()))
        container = Container(image, tuple(volumes), tuple(mounts), *owner)
        return cls(job, attempt, plans, kept["grace"], kept["about"], container)


def gang_of(launch: Launch, part: Callable[[WorkerPlacement], Part]) -> Gang:
    """The pods of an attempt; `part` returns what a worker with part of a GPU requests."""
    shapes = launch.shapes or (Shape(),) * len(launch.workers)
    plans = tuple(
        PodPlan(Worker(launch.job, launch.attempt, rank), worker.node, len(worker.gpus), shape, part(worker))
        for rank, (worker, shape) in enumerate(zip(launch.workers, shapes, strict=True))
    )
    about = {
        f"{PREFIX}/user": launch.user,
        f"{PREFIX}/name": launch.env.get("RUNAI_JOB_NAME", ""),
        PROJECT: launch.env.get("RUNAI_PROJECT", ""),
    }
    return Gang(launch.job, launch.attempt, plans, launch.program.grace, about, launch.program.container)


def kept_of(gang: Gang) -> Mapping[str, Any]:
    """The data to rebuild the same pods."""
    pods = ((plan, plan.shape or Shape(), plan.part) for plan in gang.plans)
    return {
        "pods": [
            (plan.node, plan.gpus, shape.cpus, shape.memory, part.resource, part.memory_limit)
            for plan, shape, part in pods
        ],
        "grace": gang.grace,
        "about": dict(gang.about),
        "container": (gang.container.image, gang.container.volumes, gang.container.mounts, gang.container.owner),
    }


def rendezvous_of(launch: Launch, namespace: str) -> Rendezvous:
    """The rendezvous of an attempt: the DNS names of its pods, or localhost for a single worker."""
    framework, size = launch.program.framework, len(launch.workers)
    addresses = tuple(address(Worker(launch.job, launch.attempt, rank), namespace) for rank in range(size))
    if size == 1:
        addresses = ("127.0.0.1",)
    ports = (PORT,) * needs(framework, size)
    return Rendezvous(framework, launch.workers, addresses, ports, secrets.token_urlsafe())
