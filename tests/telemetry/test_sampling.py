"""GPUs are sampled through the real binding and a real shared library, built here, that reports what its file says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from scheduler.model import GpuKey, Node
from scheduler.telemetry.history import HistoryFiles
from scheduler.telemetry.inventory import GpuUsage
from scheduler.telemetry.machine import Machine
from scheduler.telemetry.machine_gpus import MachineGpus
from scheduler.telemetry.sample import GpuSample
from scheduler.telemetry.sampler import Sampler
from tests.telemetry.standin import gpus_file, library, reporting

__all__ = ["library"]

NAME = "NVIDIA A100-SXM4-80GB"

ROUNDS = """
import json, os, sys
from dataclasses import asdict
from pathlib import Path
from scheduler.model import Pool
from scheduler.telemetry.history import HistoryFiles
from scheduler.telemetry.local import find_gpus, without_failing
from scheduler.telemetry.sampler import Sampler
rounds, now, changes, seen = json.loads(sys.argv[1]), 1_800_000_000.0, [], []
files = Path(os.environ["FAKE_NVML"])
files.write_text(rounds[0][1])
gpus, history = find_gpus(), HistoryFiles(Path(sys.argv[2]))
make = lambda: Sampler(gpus, history, lambda: changes.append(1), lambda: now)
sampler = make()
for after, text in rounds:
    now += after
    if text is None:
        sampler = make()
        continue
    files.write_text(text)
    sampler.take()
    nodes = [without_failing(node, sampler.failures) for node in gpus.nodes(Pool())]
    seen.append({
        "samples": {device: asdict(sample) for device, sample in sampler.latest.items()},
        "failures": sampler.failures,
        "used": [[node.name, gpu] for node in nodes for gpu, _ in node.foreign.gpus],
        "changes": len(changes),
    })
print(json.dumps(seen))
"""

Rounds = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def rounds(library: Path, tmp_path: Path) -> Rounds:
    """Sample GPUs that report one thing after another: pairs of seconds and files (`None`: start again)."""

    def run(*each: tuple[float, str | None]) -> list[dict[str, Any]]:
        kept = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        done = subprocess.run(
            [sys.executable, "-c", ROUNDS, json.dumps(each), str(tmp_path / "telemetry")],
            env={**kept, "LD_LIBRARY_PATH": str(library), "FAKE_NVML": str(tmp_path / "gpus")},
            cwd=Path(__file__).parents[2],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found

    return run


def test_a_sample_has_what_the_gpu_reports(rounds: Rounds) -> None:
    (found,) = rounds((0, gpus_file(reporting(0, throttle=0x44, corrected=3), reporting(1))))
    sample = found["samples"]["GPU-0"]
    assert (sample["utilisation"], sample["used"], sample["memory"]) == (0.37, 1024, 81920)
    assert (sample["power"], sample["temperature"], sample["throttle"]) == (250.0, 61, 0x44)
    assert (sample["corrected"], sample["uncorrected"], sample["processes"]) == (3, 0, [])
    assert found["failures"] == {}


def test_what_a_gpu_does_not_report_stays_unknown(rounds: Rounds) -> None:
    (found,) = rounds((0, gpus_file("NVIDIA GB10|GPU-0|-1|0|-1|-1|-1|-1")))
    known = {name: value for name, value in found["samples"]["GPU-0"].items() if value not in (None, [], False)}
    assert known == {}
    assert found["failures"] == {}


def test_a_process_says_which_job_or_server_it_belongs_to(rounds: Rounds, tmp_path: Path) -> None:
    """The processes are real; the library says that they use the GPUs."""
    names: tuple[dict[str, str], ...] = (
        {"RUNAI_JOB_ID": "j1"},
        {"JUPYTERHUB_USER": "ann", "JUPYTERHUB_SERVER_NAME": ""},
        {},
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RUNAI_", "JUPYTERHUB_"))}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", "print(flush=True); input()"],
            env={**kept, **each},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for each in names
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()  # it has its environment
        text = gpus_file(*(reporting(n, pid=process.pid) for n, process in enumerate(processes)))
        (found,) = rounds((0, text))
    finally:
        for process in processes:
            process.communicate(b"\n")
    claims = [found["samples"][f"GPU-{n}"]["processes"][0] for n in range(3)]
    assert [(each["job_id"], each["user"], each["server"]) for each in claims] == [
        ("j1", None, None),
        (None, "ann", ""),
        (None, None, None),
    ]
    assert claims[0]["memory"] == 1024


def test_a_mig_instance_has_its_own_memory_and_processes_and_the_state_of_its_gpu(rounds: Rounds) -> None:
    """Also the processes that MPS serves."""
    pid = os.getpid()
    instances = (f"+{NAME} MIG 1g.10gb|MIG-0|9728|512", f"*{pid}|300|0", f"*{pid + 1}|212|1", f"+{NAME} MIG|MIG-1|9|0")
    healthy, failing = (reporting(0, corrected=3, mig=1, uncorrected=bad, pid=pid + 2) for bad in (0, 1))
    found, failed = rounds((0, gpus_file(healthy, *instances)), (5, gpus_file(failing, *instances)))
    sample = found["samples"]["MIG-0"]
    assert (sample["utilisation"], sample["used"], sample["memory"], sample["power"]) == (None, 512, 9728, None)
    assert (sample["temperature"], sample["corrected"]) == (61, 3)
    assert sorted((each["pid"], each["memory"]) for each in sample["processes"]) == [(pid, 300), (pid + 1, 212)]
    assert found["samples"]["MIG-1"]["processes"] == []
    assert found["failures"] == {}
    assert failed["failures"].keys() == {"MIG-0", "MIG-1"}


def test_a_gpu_that_fails_gets_no_work_until_it_recovers(rounds: Rounds) -> None:
    well, other = reporting(0), reporting(1)
    failures = [
        (reporting(0, uncorrected=1), "1 uncorrectable memory error since the last reset of the GPU."),
        (reporting(0, recovery=1), "The driver asks for a reset of the GPU."),
        (reporting(0, recovery=-1), "The GPU does not respond."),
    ]
    steps = [(5, gpus_file(line, other)) for failing, _ in failures for line in (well, failing)]
    found = rounds(*steps, (5, gpus_file(well, other)))
    assert [each["failures"] for each in found] == [
        *(state for _, reason in failures for state in ({}, {"GPU-0": reason})),
        {},
    ]
    (used,) = found[1]["used"]
    assert used[0].endswith("-build")
    assert used[1] == 0
    assert found[-1]["used"] == []
    assert [each["changes"] for each in found] == list(range(7)), "the pool is told when it changes, and only then"


def test_an_error_of_the_hardware_is_not_forgotten_when_the_scheduler_starts_again(rounds: Rounds) -> None:
    error, quiet = gpus_file(reporting(0, xid=79), reporting(1, xid=31)), gpus_file(reporting(0), reporting(1))
    out = {"GPU-0": "Xid 79: GPU has fallen off the bus."}
    found = rounds((0, quiet), (5, error), (5, quiet), (600, None), (5, quiet), (3600, quiet))
    assert [each["failures"] for each in found] == [{}, out, out, out, {}]


class Broken(MachineGpus):
    """A driver that answers no request for a sample."""

    def __init__(self) -> None:
        super().__init__(Machine("here", ()))
        self.asked = 0

    def usage(self, nodes: Iterable[Node]) -> Mapping[GpuKey, GpuUsage]:
        return {}

    def sample(self) -> Mapping[str, GpuSample]:
        self.asked += 1
        raise OSError("the driver was replaced")

    def close(self) -> None:
        pass


def test_a_driver_that_fails_at_the_first_sample_does_not_end_the_start(tmp_path: Path) -> None:
    gpus = Broken()
    sampler = Sampler(gpus, HistoryFiles(tmp_path), lambda: None)
    sampler.start()
    assert gpus.asked == 1
    assert sampler.close()
