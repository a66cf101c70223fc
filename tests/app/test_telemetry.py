"""The scheduler on a machine with GPUs, which a library in the place of the driver's reports: real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from scheduler.errors import NotFound
from tests.app.conftest import Service
from tests.telemetry.standin import gpus_file, library, reporting

__all__ = ["library"]


class Gpus:
    """What the driver reports from now on."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def report(self, *gpus: str) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(gpus_file(*gpus))
        new.rename(self.file)


@pytest.fixture
def gpus(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gpus:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "gpus"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return Gpus(tmp_path / "gpus")


def ask(service: Service, path: str) -> Any:
    endpoint = service.folder.endpoint()
    assert endpoint is not None
    headers = {"Authorization": f"token {service.folder.read_token()}"}
    answer = httpx.get(f"{endpoint.url}{path}", headers=headers)
    answer.raise_for_status()
    return answer.text if path == "metrics" else answer.json()


def gpus_of(service: Service) -> dict[str, list[Any]]:
    """The GPUs of the pool by node pool."""
    return {node["node_pool"]: node["gpus"] for node in ask(service, "api/v1/pool")["nodes"]}


def test_gpus_are_measured_and_one_that_fails_gets_no_job_until_it_recovers(service: Service, gpus: Gpus) -> None:
    well = [reporting(n, throttle=0x4, corrected=n) for n in range(3)]
    gpus.report(*well[:2], reporting(2, uncorrected=1))
    service.start()
    pool = ask(service, "api/v1/pool")
    node = pool["nodes"][1]["name"]
    reason = "1 uncorrectable memory error since the last reset of the GPU."
    service.until(lambda: gpus_of(service)["train"][1]["failure"] == reason)
    assert ask(service, "api/v1/pool")["train"] | {"over_quota": 0} == {
        "gpus": 2, "allocated": 0, "over_quota": 0, "free": 1, "foreign": 0, "failing": 1,
    }  # fmt: skip

    found = ask(service, f"api/v1/nodes/{node}/gpus")
    assert found["measured"]
    assert [gpu["failure"] for gpu in found["gpus"]] == [None, reason]
    first = found["gpus"][0]
    assert (first["utilisation"], first["power_watts"], first["temperature"]) == (0.37, 250.0, 61)
    assert (first["throttle_reasons"], first["corrected_errors"]) == (["power_cap"], 1)

    history = ask(service, f"api/v1/nodes/{node}/gpus/0/history")
    assert (history["measured"], history["step"]) == (True, 10)
    assert (history["points"][-1]["utilisation"], history["points"][-1]["slowed"]) == (0.37, 1.0)

    shown = service.cli("gpus", node).stdout
    assert "61 °C" in shown
    assert reason in shown
    assert "power cap" in service.cli("gpus", node, "--gpu", "0", "--since", "1h").stdout
    assert f"out of use: {reason}" in service.cli("status").stdout

    job = service.cli("submit", "--no-files", "--gpus", "2", "--", "true").stdout.strip()
    with service.client() as client:
        service.until(lambda: client.explain(job).reason)
        assert client.job(job).state == "queued"
        gpus.report(*well)
        service.until(lambda: client.job(job).state == "succeeded")
    assert gpus_of(service)["train"][1]["failure"] is None
    audit = service.cli("audit").stdout
    assert f"(scheduler)  GPU {node}/1 fails and gets no more work. {reason}" in audit
    assert f"(scheduler)  GPU {node}/1 works again and gets work." in audit


def test_the_gpu_use_of_a_job_is_that_of_its_gpus_while_it_held_them(service: Service, gpus: Gpus) -> None:
    gpus.report(*map(reporting, range(3)))
    service.start()
    job = service.cli("submit", "--no-files", "--gpus", "2", "--retries", "1", "--", "sleep", "1000").stdout.strip()
    with service.client() as client:
        service.until(lambda: (use := client.gpu_use(job)).gpus and all(gpu.points for gpu in use.gpus))
        use, (attempt,) = client.gpu_use(job), client.job(job).attempts
        (worker,) = attempt.workers
        assert (use.attempt, use.since, use.held, use.shared, use.step) == (1, attempt.started, 2, False, 10)
        assert [(gpu.rank, gpu.node, gpu.gpu) for gpu in use.gpus] == [(0, worker.node, gpu) for gpu in worker.gpus]
        assert {point.utilisation for gpu in use.gpus for point in gpu.points} == {0.37}
        assert "GPU use     37% on average, 1 GiB of memory at most" in service.cli("status", job).stdout
        with pytest.raises(NotFound):
            client.gpu_use(job, attempt=2)
        client.cancel(job)
        service.until(lambda: client.job(job).ended)
        assert client.gpu_use(job).until == client.job(job).attempts[0].ended


def test_dcgm_mapping_dir_has_the_jobs_of_each_gpu(service: Service, gpus: Gpus) -> None:
    gpus.report(*(reporting(n) for n in range(3)))
    folder = service.work / "jobs-of-gpus"
    folder.mkdir()
    (folder / "0").write_text("a job of long ago\n")
    service.start(f"--RunaiService.dcgm_mapping_dir={folder}")
    service.until(lambda: not list(folder.iterdir()))  # idle GPUs have no file
    job = service.cli("submit", "--no-files", "--gpus", "2", "--", "sleep", "1000").stdout.strip()
    service.until(lambda: len(list(folder.iterdir())) == 2)
    service.until(lambda: all(file.read_text() for file in folder.iterdir()))
    assert {file.name: file.read_text() for file in folder.iterdir()} == {"1": f"{job}\n", "2": f"{job}\n"}
    service.cli("cancel", job)
    service.until(lambda: not list(folder.iterdir()))


def test_declared_gpus_are_not_measured(service: Service) -> None:
    service.start()
    node = ask(service, "api/v1/pool")["nodes"][0]["name"]
    found = ask(service, f"api/v1/nodes/{node}/gpus")
    assert not found["measured"]
    assert found["gpus"][0]["utilisation"] is None
    history = ask(service, f"api/v1/nodes/{node}/gpus/0/history")
    assert (history["measured"], history["points"]) == (False, [])
    job = service.cli("submit", "--no-files", "--gpus", "1", "--", "true").stdout.strip()
    service.until(lambda: ask(service, f"api/v1/jobs/{job}")["state"] == "succeeded")
    use = ask(service, f"api/v1/jobs/{job}/gpu-use")
    assert (use["step"], use["held"], [gpu["points"] for gpu in use["gpus"]]) == (0, 1, [[]])
    assert "GPU use" not in service.cli("status", job).stdout
