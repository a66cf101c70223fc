"""Starts that a quota has refused are announced when they fit, on a real API server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from fractions import Fraction
from pathlib import Path

import pytest

from scheduler.engines.kubernetes.api import Api
from scheduler.engines.kubernetes.quotas import Quotas
from scheduler.engines.kubernetes.refusals import Exceeded
from scheduler.model import JobId
from tests.engines.workplace import eventually
from tests.kubernetes.cluster import NOBODY, Cluster

GPUS = "requests.nvidia.com/gpu"


class Refusing:
    """The quota `team`, which allows one GPU. `told` are the announced jobs, of which those of `gone` do not wait."""

    def __init__(self, cluster: Cluster, namespace: str, kubeconfig: Path) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.path = f"/api/v1/namespaces/{namespace}/resourcequotas"
        self.api = Api(str(kubeconfig))
        self.quotas = Quotas(self.api, namespace)
        self.quotas.may_start = self.may_start
        self.told: list[str] = []
        self.gone: set[str] = set()

    async def open(self) -> None:
        self.cluster.create(self.path, {"metadata": {"name": "team"}, "spec": {"hard": {GPUS: "1"}}})
        await eventually(lambda: GPUS in self.cluster.api.get(f"{self.path}/team").json()["status"].get("hard", {}))
        await self.api.open()
        await self.quotas.open()

    async def close(self) -> None:
        await self.quotas.close()
        await self.api.close()

    def may_start(self, job: JobId, attempt: int) -> bool:
        self.told.append(job)
        return job not in self.gone

    def refuse(self, job: str, gpus: int, growths: int | None = None) -> None:
        needs = Exceeded("team", {GPUS: Fraction(gpus)})
        self.quotas.refuse(JobId(job), 1, needs, self.quotas.growths if growths is None else growths)

    async def allow(self, gpus: int) -> None:
        """Raise the quota."""
        growths, spec = self.quotas.growths, {"spec": {"hard": {GPUS: str(gpus)}}}
        self.cluster.kubectl("patch", "quota", "team", "-n", self.namespace, "-p", json.dumps(spec))
        await eventually(lambda: self.quotas.growths > growths)


@pytest.fixture
async def team(cluster: Cluster, namespace: str) -> AsyncIterator[Refusing]:
    refusing = Refusing(cluster, namespace, cluster.kubeconfig)
    await refusing.open()
    try:
        yield refusing
    finally:
        await refusing.close()


async def test_as_many_as_fit_together_are_announced_once(team: Refusing) -> None:
    team.gone.add("cancelled")
    for job, gpus in (("cancelled", 3), ("large", 8), ("a", 2), ("b", 1), ("c", 1)):
        team.refuse(job, gpus)
    await team.allow(3)
    assert team.told == ["cancelled", "a", "b"], "one that does not wait any more takes nothing"
    await team.allow(4)
    assert team.told == ["cancelled", "a", "b", "c"]
    team.quotas.forget(JobId("large"))
    await team.allow(8)
    assert team.told == ["cancelled", "a", "b", "c"]


async def test_a_quota_that_grew_while_it_refused_is_looked_at_again(team: Refusing) -> None:
    before = team.quotas.growths
    await team.allow(2)
    team.refuse("a", 2, growths=before)
    team.refuse("b", 2)
    assert team.told == ["a"]


async def test_a_deleted_quota_refuses_nothing(team: Refusing) -> None:
    team.refuse("a", 8)
    team.cluster.api.delete(f"{team.path}/team")
    await eventually(lambda: team.told == ["a"])


async def test_without_the_right_to_read_quotas_nothing_is_announced(
    cluster: Cluster, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    refusing = Refusing(cluster, namespace, cluster.write_kubeconfig("nobody", {"token": NOBODY}))
    await refusing.open()
    assert "Quotas cannot be read; starts that they refuse are retried after pauses" in caplog.text
    refusing.refuse("a", 1)
    assert refusing.told == []
    await refusing.close()
