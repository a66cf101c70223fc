"""The GPUs of a machine on the administrator's page, and those of a job in JupyterLab: a library in the place of the
driver's reports them."""

from __future__ import annotations

import math
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from scheduler.schema import JobSubmit
from scheduler.telemetry import GpuSample, Throttle
from scheduler.telemetry.history import HistoryFiles
from scheduler.telemetry.records import span_of
from tests.telemetry.standin import gpus_file, library, reporting

from .audit import Audit
from .conftest import Hub, LogIn, _free_port, eventually, start_hub, stop_hub
from .test_administration import api, shots
from .test_first_light import client_of, in_the_lab, shot

__all__ = ["in_the_lab", "library"]

SHARING = "(The driver limits the GPU memory of each part|Work that uses more GPU memory than its part is warned.*)."

pytestmark = pytest.mark.needs("chromium")


def report(folder: Path, *gpus: str) -> None:
    """What the driver reports from now on."""
    new = folder / "gpus.new"
    new.write_text(gpus_file(*gpus))
    new.rename(folder / "gpus")


@pytest.fixture(scope="module")
def hub(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    report(folder, *(reporting(n) for n in range(4)))
    remember(folder / "pool" / "telemetry", [f"GPU-{n}" for n in range(4)])
    shutil.copy(library / "libnvidia-ml.so.1", folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_LIBRARY_PATH", str(folder))
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        hub = start_hub(folder, f"--port={_free_port()}")
    try:
        yield hub
    finally:
        stop_hub(hub)


def remember(folder: Path, devices: list[str]) -> None:
    """Write a month of samples: busy by day, and slowed down by heat when busiest."""
    history, now = HistoryFiles(folder), int(time.time())
    times = [*range(now - 30 * 86_400, now - 3600, 1200), *range(now - 3600, now, 10)]
    for phase, device in enumerate(devices):
        for at in times:
            busy = max(0.0, math.sin((at + 5400 * phase) % 86_400 / 86_400 * math.tau)) * (at // 86_400 % 7 > 1)
            busy = busy if at < now - 3600 else 0.5 + 0.4 * math.sin(at / 300 + phase)
            sample = GpuSample(
                utilisation=busy,
                used=round(2048 + 60_000 * busy),
                memory=81_920,
                power=70 + 330 * busy,
                temperature=round(32 + 45 * busy),
                throttle=Throttle.THERMAL if busy > 0.85 else Throttle(0),
                corrected=0,
                uncorrected=0,
            )
            history.add(device, span_of(sample, None, at))


def test_the_gpus_of_a_node_are_shown_with_their_history_and_one_that_fails(hub: Hub, log_in: LogIn) -> None:
    page = log_in("admin")
    page.goto(f"{hub.url}services/runai/#nodes")
    command = ["/bin/sleep", "600"]
    job = api(page, "jobs", "POST", {"name": "digits", "command": command, "project": "default", "gpus": 1})
    node = page.get_by_role("button", name=re.compile("^[^ ]+-train$"))
    node.focus()
    page.keyboard.press("Enter")
    expect(node).to_have_attribute("aria-expanded", "true")
    charts = page.get_by_role("img", name=re.compile("^Use from "))
    gpus = page.get_by_role("listitem").filter(has=charts)
    expect(gpus.filter(has_text="digits of admin, project default")).to_have_count(1)
    expect(gpus.first).to_contain_text("37% · 1 of 80 GiB · 250 W · 61 °C")
    expect(gpus.first).to_contain_text("of the time: heat")
    expect(page.get_by_text(re.compile(f"^GPU sharing: {SHARING}$"))).to_be_visible()
    shots(page, "admin-gpus")
    page.get_by_label("Show").select_option("Temperature")
    page.get_by_label("Span").select_option("last 30 days")
    chart = page.get_by_role("img", name=re.compile("^Temperature from ")).first
    expect(chart).to_be_visible()
    shots(page, "admin-gpus-month")
    chart.focus()
    page.keyboard.press("ArrowLeft")
    expect(chart.locator("line")).to_be_attached()

    report(hub.folder, *(reporting(n, xid=79 * (n == 3)) for n in range(4)))
    failing = page.get_by_role("listitem").filter(has_text="Gets no work. Xid 79: GPU has fallen off the bus.")
    expect(failing).to_have_count(1)
    page.get_by_label("Span").select_option("last hour")
    expect(failing).to_contain_text(re.compile(r"Xid 79 at \d"))
    shots(page, "admin-gpus-failing")
    api(page, f"jobs/{job['id']}/cancel", "POST")


def test_a_gpu_that_fails_and_recovers_is_on_the_page_as_it_happens_and_in_the_audit(hub: Hub, log_in: LogIn) -> None:
    page = log_in("admin")
    page.goto(f"{hub.url}services/runai/")
    expect(page.get_by_role("region", name="Queue")).to_be_visible()
    report(hub.folder, *(reporting(n, uncorrected=int(n == 2)) for n in range(4)))
    failing_gpus = page.get_by_role("region", name="GPUs that fail").get_by_role("listitem")
    failing = failing_gpus.filter(has_text="-train · GPU 1")
    expect(failing).to_contain_text("1 uncorrectable memory error since the last reset")
    decisions = page.get_by_role("region", name="Decisions").get_by_role("listitem")
    expect(decisions.filter(has_text="-train/1 fails and gets no more work. 1 uncorrectable")).to_be_visible()
    shots(page, "admin-failing")
    report(hub.folder, *(reporting(n) for n in range(4)))
    expect(failing).to_have_count(0)
    expect(decisions.filter(has_text="-train/1 works again and gets work.")).to_be_visible()
    page.get_by_role("link", name="Audit").click()
    entries = page.get_by_role("region", name="Audit").locator("tbody tr")
    expect(entries.nth(0)).to_contain_text(re.compile("scheduler.*GPU .*-train/1 works again and gets work"))
    expect(entries.nth(1)).to_contain_text(re.compile("GPU .*-train/1 fails and gets no more work. 1 uncorrectable"))
    shots(page, "admin-failing-audit")


def test_a_job_shows_how_its_gpus_are_used(hub: Hub, in_the_lab: Callable[..., Page]) -> None:
    page = in_the_lab("admin")
    with client_of(hub, "admin") as client:
        job = client.submit(JobSubmit(name="digits", command=["sleep", "600"], gpus=2))
        page.get_by_role("tab", name="GPU pool").click()
        row = page.locator(f".runai-Job[data-job='{job.id}']")
        expect(row).to_have_attribute("data-state", "running")
        eventually(lambda: all(gpu.points for gpu in client.gpu_use(job.id).gpus))
        row.hover()
        row.get_by_role("button", name="Open digits").click()
        view = page.locator(".runai-JobPage")
        view.get_by_role("tab", name="Metrics").click()
        use = view.get_by_role("region", name="GPU use")
        expect(use.get_by_role("figure", name=re.compile("^Use"))).to_contain_text("37%")
        expect(use.get_by_role("figure", name=re.compile("^Memory"))).to_contain_text("1 GiB")
        audit = Audit(page)
        audit.look("GPU use", ".runai-GpuUse")
        audit.finish()
        shot(page, "job-gpu-use")
        client.cancel(job.id)
