"""What keeps jobs and servers to their parts of a GPU, on a machine whose driver is a library built here: real
processes, real control groups."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from scheduler.schema import JobView, SessionOpen, SessionView
from scheduler.telemetry.cgroups import root
from tests.app.conftest import Service
from tests.app.test_telemetry import Gpus, ask, gpus
from tests.cgroups import needs_control_groups
from tests.telemetry.standin import library, reporting

__all__ = ["gpus", "library"]

HALF = 40960
"""Half of the memory of a GPU, in MiB."""

PRINT = "import os, sys, time; print(os.getpid(), *[os.environ.get(name) for name in sys.argv[1:]]); time.sleep(1000)"


@pytest.fixture
def three(gpus: Gpus) -> Gpus:
    """One GPU to build on, two to train on."""
    gpus.report(*map(reporting, range(3)))
    return gpus


def start_half(service: Service, *names: str, options: tuple[str, ...] = ()) -> tuple[str, list[str]]:
    """A running job on half of a GPU: its id, and its process and the values of these variables."""
    words = ("submit", "--no-files", "--gpus", "0.5", *options, "--", sys.executable, "-c", PRINT, *names)
    job = service.cli(*words).stdout.strip()
    log = service.until(lambda: service.cli("logs", job).stdout)
    return job, log.split()


def job_of(service: Service, job: str) -> JobView:
    with service.client() as client:
        return client.job(job)


def isolations(service: Service) -> set[str]:
    return {node["isolation"] for node in ask(service, "api/v1/pool")["nodes"]}


# -- the watcher ----------------------------------------------------------------------------------------


@pytest.fixture
def hurried(service: Service) -> Service:
    service.module = "tests.app.hurried"
    return service


def test_a_job_that_uses_more_than_its_part_is_warned_and_then_fails(hurried: Service, three: Gpus) -> None:
    service = hurried
    service.start()
    assert isolations(service) == {"watcher"}
    job, (pid,) = start_half(service)
    other, (neighbour,) = start_half(service)
    held = job_of(service, job).attempts[-1].workers[0].gpus[0] + 1  # the first GPU is to build on
    assert "used more" not in job_of(service, job).isolation
    assert "is warned and then ended" in job_of(service, job).isolation

    def use(mine: int, its: int) -> None:
        lines = list(map(reporting, range(3)))
        lines[held] += f"\n*{pid}|{mine}|0\n*{neighbour}|{its}|1"
        three.report(*lines)

    use(HALF + 1024, HALF)
    words = "Uses 41 GiB of GPU memory; 40 GiB were given. It will be ended after 2 s unless it uses less."
    service.until(lambda: job_of(service, job).notice == words)
    use(HALF, HALF)
    service.until(lambda: job_of(service, job).notice == "")
    use(HALF + 2048, HALF)
    service.until(lambda: job_of(service, job).notice)
    service.kill()
    service.start()  # it is warned again, and not ended at once
    service.until(lambda: job_of(service, job).state == "failed")
    assert job_of(service, job).reason == "Used 42 GiB of GPU memory; 40 GiB were given."
    assert len(job_of(service, job).attempts) == 1
    assert (job_of(service, other).state, job_of(service, other).notice) == ("running", "")


def test_the_largest_process_of_a_session_is_ended_after_a_warning(hurried: Service, three: Gpus) -> None:
    service = hurried
    service.start()
    with service.client() as client:
        session = client.open_session(SessionOpen(user="ann", server="", gpus=0.5))
    assert session.env["CUDA_VISIBLE_DEVICES"] == "GPU-0"
    small, large = (kernel("ann") for _ in range(2))
    try:
        processes = f"\n*{small.pid}|1024|0\n*{large.pid}|{HALF}|0"
        three.report(reporting(0) + processes, reporting(1), reporting(2))
        service.until(lambda: session_of(service).memory_warning)
        words = session_of(service).memory_warning
        assert words.startswith("The server's kernels use 41 GiB of GPU memory; 40 GiB were given.")
        assert session_of(service).reason.endswith(words)
        assert large.wait(30) == -15
        service.until(lambda: session_of(service).memory_warning.startswith(f"Process {large.pid} was ended."))
        three.report(reporting(0) + f"\n*{small.pid}|1024|0", reporting(1), reporting(2))
        assert small.poll() is None
    finally:
        for process in (small, large):
            process.kill()
            process.communicate()


def kernel(user: str) -> subprocess.Popen[bytes]:
    """A process of a user's notebook server, once it has its environment."""
    process = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); import time; time.sleep(1000)"],
        env={"JUPYTERHUB_USER": user, "JUPYTERHUB_SERVER_NAME": ""},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def session_of(service: Service) -> SessionView:
    with service.client() as client:
        (session,) = client.sessions()
        return session


# -- the driver's limit ---------------------------------------------------------------------------------


@pytest.fixture
def limits(three: Gpus) -> Iterator[Path]:
    """The limits that were set, in a file."""
    needs_control_groups()
    file = three.file.with_name(f"{three.file.name}.limits")
    file.touch()
    yield file
    for group in root().glob("runai-*"):
        with suppress(OSError):
            group.rmdir()


def set_limits(file: Path) -> list[list[Any]]:
    """GPU, soft and hard limit of each call for a worker or server."""
    calls = [line.split() for line in file.read_text().splitlines()]
    return [[gpu, int(soft), int(hard)] for gpu, group, soft, hard in calls if not group.endswith("-probe")]


def test_the_driver_limits_a_job_and_a_session_also_after_kill_9(service: Service, limits: Path) -> None:
    service.start()
    assert isolations(service) == {"memory-limit"}
    job, (pid,) = start_half(service)
    with service.client() as client:
        session = client.open_session(SessionOpen(user="ann", server="", gpus=0.5))
    group = root() / Path(f"/proc/{pid}/cgroup").read_text().strip().rpartition("/")[2]
    assert group.name.endswith(f"-{job}.1.0")
    assert "the driver limits the GPU memory" in job_of(service, job).isolation
    server = Path(session.env["RUNAI_CGROUP"])
    assert server.is_dir()
    half = HALF * 2**20
    assert set_limits(limits) == [["GPU-1", half, half], ["GPU-0", half, half]]

    abandoned = group.with_name(group.name.replace(job, "gone"))
    abandoned.mkdir()
    service.kill()
    service.start()
    service.until(lambda: not abandoned.exists())
    assert (group.is_dir(), server.is_dir()) == (True, True)
    service.cli("cancel", job)
    service.until(lambda: not group.exists())
    with service.client() as client:
        client.close_session(session.id)
    assert not server.exists()
    assert set_limits(limits)[-1] == ["GPU-2", 0, 2**64 - 1], "it is lifted before the group is removed"


def test_where_the_driver_refuses_a_limit_the_watcher_is_in_force(service: Service, limits: Path) -> None:
    service.start()
    limits.unlink()
    job, (_, group) = start_half(service, "RUNAI_CGROUP")
    assert group == "None"
    service.until(lambda: isolations(service) == {"watcher"})
    assert "is warned and then ended" in job_of(service, job).isolation
    assert "The driver could not limit GPU memory: Not Supported. Now, one that uses more" in service.log.read_text()


# -- MPS ------------------------------------------------------------------------------------------------


@pytest.fixture
def mps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the name of MPS' control daemon, which the scheduler finds as it finds that."""
    folder = tmp_path / "mps"
    folder.mkdir()
    program = shutil.copy(shutil.which("sleep") or "", folder / "nvidia-cuda-mps-control")
    daemon = subprocess.Popen([program, "1000"])
    (folder / "nvidia-cuda-mps-control.pid").write_text(f"{daemon.pid}\n")
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(folder))
    yield daemon
    daemon.kill()
    daemon.wait()


def test_mps_limits_the_processes_of_a_job_while_its_daemon_runs(
    service: Service, three: Gpus, mps: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    service.start()
    assert isolations(service) == {"mps"}
    names = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT")
    override = ("--env", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=80G")
    job, (_, *values) = start_half(service, *names, options=override)
    assert values == [str(tmp_path / "mps"), f"0={HALF}M"]
    assert "shares its GPU by MPS" in job_of(service, job).isolation
    mps.kill()
    mps.wait()
    _, (_, *values) = start_half(service, *names)
    assert values == ["None", "None"]
    service.until(lambda: isolations(service) == {"watcher"})


def test_gpu_isolation_chooses_what_is_in_force(service: Service, three: Gpus, mps: subprocess.Popen[bytes]) -> None:
    service.start("--RunaiService.gpu_isolation=time-slicing")
    assert isolations(service) == {"time-slicing"}
    job, (_, limit) = start_half(service, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT")
    assert limit == "None"
    assert "other jobs can use up the memory" in job_of(service, job).isolation
    service.stop()
    service.start("--RunaiService.gpu_isolation=memory-limit")  # which this driver does not have
    assert isolations(service) == {"watcher"}
    assert "gpu_isolation memory-limit is not available:" in service.log.read_text()


# -- MIG ------------------------------------------------------------------------------------------------


def test_a_job_gets_a_mig_instance_and_is_named_to_the_dcgm_exporter(service: Service, gpus: Gpus) -> None:
    """The exporter's files are named by GPU: that of a divided GPU has the jobs of all its instances."""
    instances = "".join(f"\n+NVIDIA A100-SXM4-80GB MIG 1g.10gb|MIG-{n}|9728|0" for n in range(3))
    gpus.report(reporting(0), reporting(1, mig=1) + instances)
    folder = service.work / "jobs-of-gpus"
    service.start(f"--RunaiService.dcgm_mapping_dir={folder}")
    nodes = ask(service, "api/v1/pool")["nodes"]
    assert [(node["gpu_type"], node["isolation"], len(node["gpus"])) for node in nodes] == [
        ("A100", "watcher", 1),
        ("A100-1g.10gb", "mig", 3),
    ]
    words = ("submit", "--no-files", "--workers", "2", "--", sys.executable, "-c", PRINT, "CUDA_VISIBLE_DEVICES")
    job = service.cli(*words).stdout.strip()
    service.until(lambda: job_of(service, job).state == "running")
    assert "MIG instance" in job_of(service, job).isolation
    shown = service.until(lambda: service.cli("logs", job).stdout)
    instance = job_of(service, job).attempts[-1].workers[0].gpus[0]
    assert shown.split()[1] == f"MIG-{instance}"
    service.until(lambda: (folder / "1").exists() and (folder / "1").read_text() == f"{job}\n")
    refused = service.cli("submit", "--no-files", "--gpus", "2", "--", "true", check=False)
    assert "MIG instances, of which a worker can use only one" in refused.stderr
