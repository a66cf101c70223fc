"""An elastic job of real PyTorch processes under torchrun grows and shrinks, and its training continues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.model import Ending, Environment, Framework
from scheduler.schema import NodePoolEntry, PoolFile, ProjectEntry, SettingsEntry
from tests.frameworks.conftest import ROOT, Sender, eventually
from tests.jupyter_ext.pool import running_pool

ELASTIC = b"""
import os, torch, torch.distributed as dist
from jupyter_ext import job
from jupyter_ext.hooks.torch import resumable
dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in resumable(1_000_000, every=1, model=model, optimizer=optimizer):
    x = torch.randn(16, 8)
    loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if dist.get_rank() == 0:
        job.report(step=step, loss=loss.item(), world=dist.get_world_size())
    done = torch.tensor(float(os.path.exists(os.environ["DONE"])))
    dist.all_reduce(done)
    if done:
        break
dist.barrier()
dist.destroy_process_group()
"""

Point = dict[str, Any]

WAITING = b"""
import os, time
while not os.path.exists(os.environ["DONE"]):
    time.sleep(0.05)
"""


@pytest.fixture
def sender(tmp_path: Path, python: str) -> Iterator[Sender]:
    """Three GPUs to train on, two of them guaranteed to speech; jobs grow as soon as they have saved their state."""
    with running_pool(tmp_path / "state") as pool:
        pool.client.apply(
            PoolFile(
                node_pools=[
                    NodePoolEntry(name="build", environment=Environment.BUILD, gpus=1),
                    NodePoolEntry(name="train", environment=Environment.TRAIN),
                ],
                projects=[
                    ProjectEntry(name="default", members=["*"]),
                    ProjectEntry(name="speech", guaranteed=2, members=["*"]),
                ],
                settings=SettingsEntry(resize_interval=1),
            )
        )
        yield Sender(pool, python, {})


def test_ddp_below_torchrun_grows_and_shrinks(sender: Sender, tmp_path: Path) -> None:
    client = sender.pool.client
    first, due, last = (tmp_path / name for name in ("first", "due", "last"))
    read = 0

    line: list[Point] = []

    def points() -> list[Point]:
        nonlocal read
        while (page := client.metrics(job, offset=read)).next != read:
            line.extend(page.points)
            read = page.next
        return line

    def trains_with(workers: int) -> None:
        """It reaches further steps in a world of this size."""
        before = len(points())
        eventually(lambda: any(point["world"] == workers for point in points()[before:]))

    other = sender.send(
        Framework.NONE, "python", "waiting.py", project="default", waiting=WAITING, env={"DONE": str(first)}
    )
    eventually(lambda: client.job(other).state == "running")
    job = sender.send(
        Framework.TORCH, "torchrun", "elastic.py", workers=3, least=1, project="default", elastic=ELASTIC,
        env={"PYTHONPATH": str(ROOT), "DONE": str(last)},
    )  # fmt: skip
    trains_with(1)
    first.touch()
    trains_with(3)
    speech = sender.send(
        Framework.NONE, "python", "waiting.py", project="speech", waiting=WAITING, env={"DONE": str(due)}
    )
    trains_with(1)
    eventually(lambda: client.job(speech).state == "running")
    due.touch()
    trains_with(3)
    last.touch()
    ended = sender.ended(job)
    assert ended.state == "succeeded"
    resized = [(len(a.workers), a.reason) for a in ended.attempts if a.ending is Ending.RESIZED]
    assert [workers for workers, _ in resized] == [1, 3, 1]
    assert resized[0][1] == "Grew from 1 to 3 workers: GPUs were idle."
    assert resized[1][1].startswith("Released 2 of 3 workers: project speech reclaims GPUs")
    points()
    saved = {  # the step that each attempt continues from, by its first report
        attempt: next(point["step"] for point in line if point["attempt"] == attempt)
        for attempt in range(2, len(ended.attempts) + 1)
    }
    for attempt, step in saved.items():
        reached = max(point["step"] for point in line if point["attempt"] == attempt - 1)
        assert step <= reached + 1
        if ended.attempts[attempt - 2].ending is Ending.RESIZED:
            assert step == reached + 1, "It goes on after the very step before its stop."
