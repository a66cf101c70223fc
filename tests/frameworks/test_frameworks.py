"""The unmodified scripts of the how-to page on real frameworks: two processes connect using only the job's
environment."""

from __future__ import annotations

import re

import pytest

from scheduler.errors import Invalid
from scheduler.model import Framework
from tests.frameworks.conftest import Sender, eventually

SAID = re.compile(r"rank (\d+) of (\d+): weights (-?\d+\.\d+)")


def trained(logs: list[str]) -> list[tuple[int, int, str]]:
    """Checks the ranks' output, and that they have the same weights."""
    said = sorted((int(rank), int(size), weights) for log in logs for rank, size, weights in SAID.findall(log))
    assert len({weights for _, _, weights in said}) == 1, logs
    assert float(said[0][2]) > 1, "The model has not learned."
    return said


@pytest.mark.parametrize(
    ("framework", "script"),
    [
        (Framework.TORCH, "train_torch.py"),
        (Framework.TENSORFLOW, "train_tensorflow.py"),
        (Framework.JAX, "train_jax.py"),
        (Framework.MPI, "train_mpi.py"),
    ],
)
def test_a_script_finds_the_other_workers(sender: Sender, framework: Framework, script: str) -> None:
    logs = sender.logs(sender.send(framework, "python", script))
    assert [(rank, size) for rank, size, _ in trained(logs)] == [(0, 2), (1, 2)]
    assert [SAID.findall(log)[0][0] for log in logs] == ["0", "1"], "Each rank has its worker's log."


@pytest.mark.parametrize("workers", [1, 2])
def test_torchrun_starts_a_process_for_each_gpu_of_a_worker(sender: Sender, workers: int) -> None:
    logs = sender.logs(sender.send(Framework.TORCH, "torchrun", "train_torch.py", workers=workers, gpus=2 // workers))
    assert [(rank, size) for rank, size, _ in trained(logs)] == [(0, 2), (1, 2)]


def test_a_single_worker_is_a_world_of_its_own(sender: Sender) -> None:
    jobs = [
        sender.send(Framework.TORCH, "python", "train_torch.py", workers=1),
        sender.send(Framework.MPI, "python", "train_mpi.py", workers=1),
    ]
    for job in jobs:
        assert [(rank, size) for rank, size, _ in trained(sender.logs(job))] == [(0, 1)]


def test_jobs_at_the_same_time_do_not_meet_each_other(sender: Sender) -> None:
    jobs = [sender.send(Framework.TORCH, "python", "train_torch.py") for _ in range(2)]
    for job in jobs:
        assert [(rank, size) for rank, size, _ in trained(sender.logs(job))] == [(0, 2), (1, 2)]


def test_a_nested_mpirun_is_refused_with_advice(sender: Sender) -> None:
    with pytest.raises(Invalid, match="leave mpirun and its options out"):
        sender.send(Framework.MPI, "mpirun", "-n", "2", "python", "train_mpi.py")


def test_mpi_ranks_have_the_gpus_and_the_end_of_their_own_worker(sender: Sender) -> None:
    failing = b"""
import os
from mpi4py import MPI
rank = MPI.COMM_WORLD.rank
print(rank, os.environ["RUNAI_RANK"], os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
MPI.COMM_WORLD.barrier()
if rank == 1:
    raise ValueError("rank 1 has had enough")
MPI.COMM_WORLD.recv(source=1)
"""
    job = sender.send(Framework.MPI, "python", "-m", "mpi4py", "failing.py", failing=failing)
    ended = sender.ended(job)
    assert ended.reason == "Worker 2 of 2 (rank 1) ended with exit code 1: ValueError: rank 1 has had enough"
    seen = [sender.log(job, rank).split()[:3] for rank in (0, 1)]
    assert [(rank, worker) for rank, worker, _ in seen] == [("0", "0"), ("1", "1")]
    assert len({gpus for _, _, gpus in seen}) == 2


def test_the_first_failed_rank_is_named_with_its_error(sender: Sender) -> None:
    failing = b"""
import sys, traceback, torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
if dist.get_rank() == 1:
    try:
        raise ValueError("loss is nan")
    except ValueError:
        traceback.print_exc()
        sys.exit(1)
dist.barrier()
"""
    plain = sender.send(Framework.TORCH, "python", "failing.py", failing=failing)
    below_torchrun = sender.send(Framework.TORCH, "torchrun", "failing.py", failing=failing)
    for job in (plain, below_torchrun):
        assert sender.ended(job).reason == "Worker 2 of 2 (rank 1) ended with exit code 1: ValueError: loss is nan"


def test_every_attempt_has_a_new_rendezvous(sender: Sender) -> None:
    """The first attempt fails after the workers have met; the second must not find the first one's rendezvous."""
    again = b"""
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
sum = torch.ones(1)
dist.all_reduce(sum)
print("port", os.environ["MASTER_PORT"], "sum", int(sum), flush=True)
if os.environ["RUNAI_ATTEMPT"] == "1":
    sys.exit(1)
dist.barrier()
dist.destroy_process_group()
"""
    job = sender.send(Framework.TORCH, "python", "again.py", retries=1, again=again)
    assert sender.ended(job).state == "succeeded"
    said = [sender.log(job, attempt=attempt).split() for attempt in (1, 2)]
    assert [words[3] for words in said] == ["2", "2"]
    assert said[0][1] != said[1][1], "The second attempt has the first one's port."


def test_an_mpi_rank_gets_its_grace_period(sender: Sender) -> None:
    saving = b"""
import signal, time
from mpi4py import MPI
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
print("up", flush=True)
while not stopped:
    time.sleep(0.05)
time.sleep(3)  # longer than mpirun would wait
print("saved", MPI.COMM_WORLD.allreduce(1), flush=True)
"""
    job = sender.send(Framework.MPI, "python", "saving.py", saving=saving)
    eventually(lambda: all("up" in sender.log(job, rank) for rank in (0, 1)))
    sender.pool.client.cancel(job)
    ended = sender.ended(job)
    assert ended.attempts[0].exit_codes == [0, 0]
    assert [sender.log(job, rank).split() for rank in (0, 1)] == [["up", "saved", "2"]] * 2
