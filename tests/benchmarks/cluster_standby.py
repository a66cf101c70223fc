"""The time from a `kill -9` of the leader of two schedulers on a cluster until the standby is ready.

Requires `make kubernetes` and PostgreSQL; without them, prints a message and no figures.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import httpx

from hub_spawner.ports import any_free
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.kwok import Kwok
from tests.kubernetes.load import figure, run
from tests.kubernetes.programs import eventually
from tests.store.conftest import running_postgresql

ROUNDS = 3


class Replica:
    """One of the schedulers."""

    def __init__(self, folder: Path, cluster: Cluster, namespace: str, db_url: str) -> None:
        self.url = f"http://127.0.0.1:{(port := any_free())}/"
        own = {"kubeconfig": cluster.kubeconfig, "namespace": namespace, "image": "any", "url": self.url}
        options = [
            "--engine=kubernetes",
            "--RunaiService.standby=True",
            f"--port={port}",
            f"--state-dir={folder / 'state'}",
        ]
        options += [f"--db-url={db_url}", *(f"--Kubernetes.{name}={value}" for name, value in own.items())]
        log = folder / f"log-{port}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "scheduler.service.app", *options],
            stdout=log.open("wb"),
            stderr=subprocess.STDOUT,
            env={**os.environ, "RUNAI_AUTH": "token"},
        )

    def status(self) -> int:
        try:
            return httpx.get(f"{self.url}readyz", timeout=1).status_code
        except httpx.TransportError:
            return 0


async def main(folder: Path, cluster: Cluster, kwok: Kwok, namespace: str) -> None:
    with running_postgresql() as address:
        replicas = [Replica(folder, cluster, namespace, address.format("postgres"))]
        try:
            eventually("the first leads", lambda: replicas[-1].status() == 200)
            took = []
            for _ in range(ROUNDS):
                leader = replicas[-1]
                standby = Replica(folder, cluster, namespace, address.format("postgres"))
                replicas.append(standby)
                eventually("the second stands by", lambda standby=standby: standby.status() == 503)  # type: ignore[misc]
                await asyncio.sleep(1)
                leader.process.kill()
                begun = time.perf_counter()
                while standby.status() != 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                took.append(time.perf_counter() - begun)
            figure("the leader is killed → the standby is ready, median", statistics.median(took), "s")
        finally:
            for replica in replicas:
                replica.process.kill()
                replica.process.wait()


if __name__ == "__main__":
    run(main)
