"""An attempt as its pods: made of a launch, kept with the attempt, and read again after a restart."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.engines.agents.tokens import Worker
from scheduler.engines.base import Launch
from scheduler.engines.kubernetes.manifests import PodPlan, address
from scheduler.engines.kubernetes.names import PREFIX
from scheduler.engines.rendezvous import Rendezvous, needs
from scheduler.model import Container, JobId, Shape

PORT = 29400
"""Where a pod's worker listens: each pod has all ports to itself."""


@dataclass(slots=True)
class Gang:
    """`stopped`: it is to end, and nothing more of it is started. `bound`: all of it was bound, or found so."""

    job: JobId
    attempt: int
    plans: tuple[PodPlan, ...]
    grace: float
    about: Mapping[str, str]
    container: Container
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    bound: bool = False

    @classmethod
    def of(cls, job: JobId, attempt: int, kept: Mapping[str, Any]) -> Gang:
        """That of `kept_of`."""
        plans = tuple(
            PodPlan(Worker(job, attempt, rank), node, gpus, Shape(cpus=cpus, memory=memory))
            for rank, (node, gpus, cpus, memory) in enumerate(kept["pods"])
        )
        image, volumes, mounts = kept.get("container", (None, (), ()))
        container = Container(image, tuple(volumes), tuple(mounts))
        return cls(job, attempt, plans, kept["grace"], kept["about"], container)


def gang_of(launch: Launch) -> Gang:
    """The pods of an attempt."""
    shapes = launch.shapes or (Shape(),) * len(launch.workers)
    plans = tuple(
        PodPlan(Worker(launch.job, launch.attempt, rank), worker.node, len(worker.gpus), shape)
        for rank, (worker, shape) in enumerate(zip(launch.workers, shapes, strict=True))
    )
    about = {
        f"{PREFIX}/user": launch.user,
        f"{PREFIX}/name": launch.env.get("RUNAI_JOB_NAME", ""),
        f"{PREFIX}/project": launch.env.get("RUNAI_PROJECT", ""),
    }
    return Gang(launch.job, launch.attempt, plans, launch.program.grace, about, launch.program.container)


def kept_of(gang: Gang) -> Mapping[str, Any]:
    """What is needed to make the same pods again."""
    return {
        "pods": [
            (plan.node, plan.gpus, plan.shape and plan.shape.cpus, plan.shape and plan.shape.memory)
            for plan in gang.plans
        ],
        "grace": gang.grace,
        "about": dict(gang.about),
        "container": (gang.container.image, gang.container.volumes, gang.container.mounts),
    }


def rendezvous_of(launch: Launch, namespace: str) -> Rendezvous:
    """Where the workers of an attempt meet: by the names of their pods, or at home where there is one only."""
    framework, size = launch.program.framework, len(launch.workers)
    addresses = tuple(address(Worker(launch.job, launch.attempt, rank), namespace) for rank in range(size))
    if size == 1:
        addresses = ("127.0.0.1",)
    ports = (PORT,) * needs(framework, size)
    return Rendezvous(framework, launch.workers, addresses, ports, secrets.token_urlsafe())
