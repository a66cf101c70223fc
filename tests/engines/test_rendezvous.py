"""The environment for each framework's scripts: the documented variables, and how workers meet."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import worker
from scheduler.engines.base import Launch, WorkerState
from scheduler.engines.errorexcerpt import error_excerpt_of, port_in_use
from scheduler.engines.files import log_file
from scheduler.engines.local.ports import Ports
from scheduler.engines.rendezvous import Rendezvous, needs, variables, wrapper
from scheduler.errors import Unavailable
from scheduler.model import Framework, JobId, NodeName, WorkerPlacement
from tests.engines.workplace import Command, Workplace, launch, python, shell

MEETING = Rendezvous(
    Framework.NONE,
    (WorkerPlacement(NodeName("a"), (0, 1)), WorkerPlacement(NodeName("b"), (2, 3))),
    ("10.0.0.1", "10.0.0.2"),
    (20001,),
    "secret",
)
TWO_PORTS = (20001, 20002)


def found(framework: Framework, rank: int) -> dict[str, str]:
    ports = TWO_PORTS if needs(framework, 2) == 2 else TWO_PORTS[: needs(framework, 2)]
    return dict(variables(replace(MEETING, framework=framework, ports=ports), rank))


def test_pytorch_finds_env_and_torchrun_its_options() -> None:
    assert found(Framework.TORCH, 1) == {
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "20001",
        "RANK": "1",
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "PET_NNODES": "2",
        "PET_NODE_RANK": "1",
        "PET_NPROC_PER_NODE": "2",
        "PET_MASTER_ADDR": "10.0.0.1",
        "PET_MASTER_PORT": "20001",
    }


def test_tensorflow_finds_its_cluster_with_a_port_for_each_worker() -> None:
    assert json.loads(found(Framework.TENSORFLOW, 1)["TF_CONFIG"]) == {
        "cluster": {"worker": ["10.0.0.1:20001", "10.0.0.2:20002"]},
        "task": {"type": "worker", "index": 1},
    }


def test_horovod_finds_what_horovodrun_sets() -> None:
    assert found(Framework.HOROVOD, 1) == {
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": "20001",
        "HOROVOD_HOSTNAME": "10.0.0.2",
        "HOROVOD_RANK": "1",
        "HOROVOD_SIZE": "2",
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_LOCAL_SIZE": "1",
        "HOROVOD_CROSS_RANK": "1",
        "HOROVOD_CROSS_SIZE": "2",
    }


def test_jax_finds_its_coordinator_and_the_gpus_of_its_worker() -> None:
    jax = found(Framework.JAX, 1)
    assert (jax["JAX_COORDINATOR_ADDRESS"], jax["JAX_NUM_PROCESSES"], jax["JAX_PROCESS_ID"]) == (
        "10.0.0.1:20001",
        "2",
        "1",
    )
    assert jax["JAX_LOCAL_DEVICE_IDS"] == "0,1"


@given(framework=st.sampled_from(Framework), size=st.integers(1, 8))
def test_the_workers_agree_and_none_is_another(framework: Framework, size: int) -> None:
    """Of every framework: as many different environments (or commands) as workers; all of them strings."""
    workers = tuple(WorkerPlacement(NodeName("n"), (gpu,)) for gpu in range(size))
    ports = tuple(range(20001, 20001 + needs(framework, size)))
    rendezvous = Rendezvous(framework, workers, ("127.0.0.1",) * size, ports, "secret")
    environments = [tuple(sorted(variables(rendezvous, rank).items())) for rank in range(size)]
    assert all(isinstance(text, str) for each in environments for pair in each for text in pair)
    if framework not in (Framework.NONE, Framework.MPI):  # of MPI the rank comes from mpirun
        assert len(set(environments)) == size
    for rank in range(size):
        before = wrapper(rendezvous, rank)
        assert before is None or (Path(worker.__file__).parent / before.file).is_file()


# -- with real processes ------------------------------------------------------------------------------------


def of(framework: Framework, job: str, run: Command, *, workers: int = 2, attempt: int = 1, **more: Any) -> Launch:
    launched = launch(job, run, workers=workers, attempt=attempt, **more)
    return replace(launched, program=replace(launched.program, framework=framework))


PORT = shell("echo $MASTER_PORT; exec sleep 600")


async def test_jobs_at_the_same_time_and_later_attempts_have_ports_of_their_own(here: Workplace) -> None:
    for job in ("one", "two"):
        await here.engine.launch(of(Framework.TORCH, job, PORT))
    ports = [await port(here, job, rank) for job in ("one", "two") for rank in (0, 1)]
    assert ports[0] == ports[1] != ports[2] == ports[3]
    await here.restart()
    assert await here.engine.recover([(JobId("one"), 1, 2), (JobId("two"), 1, 2)]) == frozenset()
    held = set(ports)
    kept = [here.engine.ports.take((job, 1), 0) for job in ("one", "two")]
    assert held == {str(port) for ports in kept for port in ports}
    await here.engine.stop(JobId("one"), 1, 0)
    await here.end("one", 0)
    await here.end("one", 1)
    assert here.engine.ports.take(("one", 1), 0) == (), "they were given back"


async def port(here: Workplace, job: str, rank: int) -> str:
    async with asyncio.timeout(30):
        while not (said := await here.files.read(log_file(JobId(job), 1, rank), 0, 100)).endswith(b"\n"):
            await here.files.grown(log_file(JobId(job), 1, rank), len(said))
    return said.decode().strip()


async def test_a_port_that_another_took_meanwhile_is_no_failure_of_the_job(here: Workplace) -> None:
    """The first worker's port is taken, as PyTorch reports it: the next attempt has another."""
    taken_by_another = python(
        "import os, socket; port = int(os.environ['MASTER_PORT']); socket.create_server(('127.0.0.1', port));"
        "raise SystemExit(f'DistNetworkError: failed to bind to port: {port}, EADDRINUSE: address already in use')"
    )
    await here.engine.launch(of(Framework.TORCH, "j", taken_by_another, workers=1))
    end = await here.end("j")
    assert end.state is WorkerState.LOST
    assert re.fullmatch(r"port \d+, on which it had to listen, was in use\.", end.reason)


async def test_a_failed_worker_is_reported_with_its_error_excerpt(here: Workplace) -> None:
    await here.engine.launch(launch("j", python("print('so far so good'); raise ValueError('loss is nan')")))
    end = await here.end("j")
    assert (end.exit_code, end.reason, end.error_excerpt) == (1, "", "ValueError: loss is nan")


async def test_a_pytorch_job_keeps_its_own_way_to_start_python(here: Workplace, tmp_path: Path) -> None:
    """The hook in `PYTHONPATH` leaves no trace, except that the process settles at its end."""
    (tmp_path / "sitecustomize.py").write_text("print('its own')")
    look = "import os, sys; print(sys.path[1] == os.environ['MINE'], 'gloo' in ''.join(sys.path))"
    env = {"PYTHONPATH": str(tmp_path), "MINE": str(tmp_path)}
    await here.engine.launch(of(Framework.TORCH, "j", (sys.executable, "-c", look), env=env))
    assert (await here.end("j")).exit_code == 0
    assert await here.files.read(log_file(JobId("j"), 1, 0), 0, 1000) == b"its own\nTrue False\n"


async def test_horovods_rendezvous_stands_beside_rank_0_until_it_ends(here: Workplace) -> None:
    """The protocol of Horovod's store: each rank puts its address and polls for those of the others."""
    meet = python(
        "import http.client, os, time\n"
        "rank, size = (int(os.environ['HOROVOD_' + name]) for name in ('RANK', 'SIZE'))\n"
        "where = os.environ['HOROVOD_GLOO_RENDEZVOUS_ADDR'], int(os.environ['HOROVOD_GLOO_RENDEZVOUS_PORT'])\n"
        "def ask(method, key, body=None):\n"
        "    while True:\n"
        "        try:\n"
        "            store = http.client.HTTPConnection(*where); store.request(method, '/global_/' + key, body)\n"
        "            answer = store.getresponse(); return answer.status, answer.read()\n"
        "        except ConnectionRefusedError: time.sleep(0.02)\n"
        "assert ask('PUT', str(rank), f'I am {rank}') == (200, b'')\n"
        "other = str(1 - rank)\n"
        "while (answer := ask('GET', other))[0] == 404: time.sleep(0.02)\n"
        "print(answer[1].decode())\n"
        "ask('PUT', f'met-{rank}', 'yes')\n"
        "while rank == 0 and ask('GET', 'met-1')[0] == 404: time.sleep(0.02)\n"
        "assert ask('DELETE', str(rank))[0] == 200\n"
        "raise SystemExit(3 * (rank == 0))\n"
    )
    await here.engine.launch(of(Framework.HOROVOD, "j", meet))
    assert [(await here.end("j", rank)).exit_code for rank in (0, 1)] == [3, 0]
    logs = [await here.files.read(log_file(JobId("j"), 1, rank), 0, 1000) for rank in (0, 1)]
    assert logs == [b"I am 1\n", b"I am 0\n"]


async def test_horovods_rendezvous_passes_a_stop_and_a_signal_on(here: Workplace) -> None:
    await here.engine.launch(
        of(
            Framework.HOROVOD,
            "j",
            shell("trap 'echo saved; kill -KILL $$' TERM; echo up; while :; do sleep 0.05; done"),
        )
    )
    for rank in (0, 1):
        await here.files.grown(log_file(JobId("j"), 1, rank), 0)
    await here.engine.stop(JobId("j"), 1, 30)
    ends = [await here.end("j", rank) for rank in (0, 1)]
    assert [end.exit_code for end in ends] == [-9, -9]
    for rank in (0, 1):
        assert (await here.files.read(log_file(JobId("j"), 1, rank), 0, 100)).endswith(b"saved\n")


# -- the parts ----------------------------------------------------------------------------------------------


def test_a_port_that_somebody_listens_at_is_not_given() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        busy: int = listening.getsockname()[1]
        ports = Ports("127.0.0.1", range(busy, busy + 1))
        with pytest.raises(Unavailable, match="no 1 free ports"):
            ports.take("j", 1)


@given(st.lists(st.integers(0, 5), max_size=20))
def test_no_port_is_given_twice(counts: list[int]) -> None:
    ports = Ports("127.0.0.1")
    given_away = [port for job, count in enumerate(counts) for port in ports.take(job, count)]
    assert len(set(given_away)) == len(given_away) == sum(counts)
    assert ports.take(0, 9) == ports.take(0, 9)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("", ""),
        ("\n \n", ""),
        ("a\nthe end\n\n", "the end"),
        ("Traceback (most recent call last):\nValueError: no\n", "ValueError: no"),
        ("[rank1]: torch.OutOfMemoryError: oh\ntorchrun's footer\n=====\n", "torch.OutOfMemoryError: oh"),
        ("ValueError: first\nElasticError:\n====\n", "ValueError: first"),
        ("\x1b[31mKeyError: 'a'\x1b[0m\n", "KeyError: 'a'"),
        ("x" * 500, "x" * 199 + "…"),
    ],
)  # fmt: skip
def test_error_excerpts(log: str, said: str) -> None:
    assert error_excerpt_of(log) == said


def test_a_taken_port_is_told_from_others() -> None:
    log = "bound to 20001\nRuntimeError: [Errno 98] Address already in use: 20002\n"
    assert port_in_use(log, (20001, 20002)) == 20002
    assert port_in_use(log, (20001,)) is None
    assert port_in_use("port 20001 is fine", (20001,)) is None
