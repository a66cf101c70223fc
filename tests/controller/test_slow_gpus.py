"""A GPU slower than others of its type, through the controller: found by reports of jobs, shown, and used last."""

from __future__ import annotations

import io
import time
from dataclasses import replace
from pathlib import Path

from scheduler.api.access import Access, Caller, Scope
from scheduler.api.explain import explanation
from scheduler.api.views import pool_view
from scheduler.cli.status import show_nodes
from scheduler.cli.text import Screen
from scheduler.model import GpuType, Job, JobState, Node, NodeName, UserName
from scheduler.policy import decide
from tests.controller.stage import Bench, World, make_job, opened

NODES = tuple(Node(NodeName(name), gpus=1, gpu_type=GpuType("V100")) for name in ("n1", "n2", "n3"))


async def started(bench: Bench, name: str) -> Job:
    job = await bench.controller.submit(replace(make_job(), name=name))
    return await bench.reaches(job, JobState.RUNNING)


async def round_of(bench: Bench, name: str) -> None:
    """Three similar jobs, one on each node; n1 is 2.2 times as slow."""
    jobs = [await started(bench, name) for _ in NODES]
    assert sorted(job.placement[0].node for job in jobs) == ["n1", "n2", "n3"], "none waits for a faster one"
    for job in jobs:
        bench.engine.end(job.id, 1, 0, 0, throughput=10.0 if job.placement[0].node == "n1" else 22.0)
        await bench.reaches(job, JobState.SUCCEEDED)


async def test_a_slow_gpu_is_shown_and_used_last_also_after_a_restart(tmp_path: Path, world: World) -> None:
    async with opened(tmp_path, world, *NODES, decide=decide) as bench:
        for _ in range(4):
            await round_of(bench, "bert")
        assert not any(node.slowness for node in bench.controller.book.nodes), "one kind may be slow for its own reason"
        for _ in range(4):
            await round_of(bench, "gpt")
    async with opened(tmp_path, world, *NODES, pool=None, decide=decide) as bench:
        book = bench.controller.book
        ((gpu, slowness),) = book.nodes[0].slowness
        assert gpu == 0
        assert 1700 < slowness < 2200, "2.2, shrunk a little"
        jobs = [await started(bench, "other") for _ in NODES]
        assert [job.placement[0].node for job in jobs] == ["n2", "n3", "n1"]
        access = Access(Caller.of(UserName("ana"), frozenset({Scope.READ})), book.pool)
        said = explanation(jobs[2], book, access, time.time()).speed
        times = f"{slowness / 1000:.1f} ×"
        assert (
            said == f"n1 (GPU 0) runs {times} slower than GPUs of its type, measured on 8 attempts of 2 kinds of jobs."
        )
        found = pool_view(book, {}, access)
        assert [gpu.slowness for node in found.nodes for gpu in node.gpus] == [slowness / 1000, 1, 1]
        screen = io.StringIO()
        show_nodes(Screen(screen), found)
        assert f"{times} slower than GPUs of its type" in screen.getvalue()
        assert explanation(jobs[0], book, access, time.time()).speed == ""
