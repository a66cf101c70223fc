"""The agent of a node, and what takes its samples: each sample counts once, whatever is lost or repeated."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.telemetry import GpuSample, Reading, ReportedGpus
from scheduler.telemetry.nodeagent import AT_ONCE, Sender
from scheduler.telemetry.processes import pod_of

UID = "0f5bd4ab-7b1e-4f5c-9d3a-2f6f0a1b2c3d"
RUN, OTHER = "a" * 32, "b" * 32
START = 1_800_000_000.0


@pytest.mark.parametrize(
    ("cgroups", "pod"),
    [
        (f"0::/kubepods/burstable/pod{UID}/4f0c\n", UID),
        (f"0::/../../kubepods-besteffort-pod{UID.replace('-', '_')}.slice/cri-containerd-4f0c.scope\n", UID),
        (f"4:memory:/kubepods/pod{UID}/4f0c\n0::/\n", UID),
        ("0::/system.slice/containerd.service\n", None),
        (f"0::/user.slice/pod{UID}f\n", None),
        ("", None),
    ],
)
def test_a_process_is_of_the_pod_in_the_path_of_its_control_group(cgroups: str, pod: str | None) -> None:
    assert pod_of(cgroups) == pod


class Scheduler:
    """Answers with one status after the other, and keeps what it was sent."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.sent: list[dict[str, Any]] = []
        self.tokens: list[str | None] = []
        self.url = ""

    @contextmanager
    def running(self) -> Iterator[None]:
        scheduler = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                scheduler.sent.append(body)
                scheduler.tokens.append(self.headers["Authorization"])
                self.send_response(scheduler.statuses.pop(0) if scheduler.statuses else 200)
                self.end_headers()
                self.wfile.write(b'{"every": 0}')

            def log_message(self, format: str, *about: Any) -> None:
                pass

        with HTTPServer(("127.0.0.1", 0), Handler) as server:
            self.url = f"http://127.0.0.1:{server.server_port}/"
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            try:
                yield
            finally:
                server.shutdown()
                thread.join()


def test_samples_are_kept_until_the_scheduler_accepts_them(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    scheduler = Scheduler()
    with scheduler.running():
        sender = Sender(scheduler.url, token)
        scheduler.statuses = [503, 503, 200, 422]
        for _ in range(AT_ONCE + 1):
            sender.add({"GPU-0": GpuSample(utilisation=0.5), "GPU-1": None})
        sender.send()  # not accepted: it tries again later
        sender.add({"GPU-0": GpuSample(), "GPU-1": None})
        sender.send()  # not yet
        sender.add({"GPU-0": GpuSample(), "GPU-1": GpuSample()})
        sender.send()  # at once, because a GPU has come back; not accepted either
        token.write_text("second\n")
        sender.add({"GPU-0": GpuSample(xids=(79,)), "GPU-1": None})
        sender.send()  # at once, because a GPU may fail; the last piece is answered as unusable
        sender.add({"GPU-0": GpuSample(), "GPU-1": GpuSample()})
        sender.send()
    numbers = [[each["number"] for each in body["samples"]] for body in scheduler.sent]
    first = [*range(1, AT_ONCE + 1)]
    rest = [AT_ONCE + n for n in range(1, 5)]
    assert numbers == [first, first, first, rest, [AT_ONCE + 5]]
    assert scheduler.tokens == [*["Bearer first"] * 2, *["Bearer second"] * 3]
    last = scheduler.sent[3]["samples"][-1]["gpus"]
    assert [gpu["device"] for gpu in last] == ["GPU-0", "GPU-1"]
    assert last[0]["xids"] == [79]
    assert last[1] == {"device": "GPU-1", "lost": True}


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 19), st.integers(1, 8), st.booleans(), st.integers(0, 3)), min_size=1, max_size=12
    )
)
def test_a_sample_counts_once_however_often_it_is_sent(
    tmp_path_factory: pytest.TempPathFactory, sent: list[tuple[int, int, bool, int]]
) -> None:
    """Pieces from any number on, some again, with restarts of the scheduler between. Sample n was taken 10 n seconds
    after the start and counts one corrected error more."""
    folder = tmp_path_factory.mktemp("telemetry")

    async def play() -> None:
        clock, done = [START + 300], 0
        reported = _made(folder, lambda: clock[0])
        await reported.open()
        for first, count, restarted, wait in sent:
            if restarted:
                await reported.close()
                reported = _made(folder, lambda: clock[0])
                await reported.open()
            clock[0] += wait
            numbers = range(min(first, done) + 1, min(first, done) + 1 + count)
            done = max(done, numbers[-1])
            readings = [
                Reading(n, clock[0] - START - 10 * n, {"GPU-0": GpuSample(utilisation=0.5, corrected=n)})
                for n in numbers
            ]
            await reported.take("n", RUN, readings)
        found = reported.history("GPU-0", START, clock[0], 1_000)
        assert found is not None
        assert [(span.start, span.samples) for span in found.spans] == [(START + 10 * n, 1) for n in range(1, done + 1)]
        await reported.close()

    asyncio.run(play())


async def test_a_failing_gpu_is_known_after_a_restart_and_until_it_works(tmp_path: Path) -> None:
    changed: list[str] = []
    reported = _made(tmp_path)
    reported.changed = changed.append
    await reported.open()
    await reported.take("n", RUN, [Reading(1, 0.0, {"GPU-0": GpuSample(), "GPU-1": None})])
    await reported.close()
    after = _made(tmp_path, lambda: START + 60)
    await after.open()
    assert after.node("n").failures == reported.node("n").failures == {"GPU-1": "The GPU does not respond."}
    assert after.node("n").devices == ("GPU-0", "GPU-1")
    assert not after.node("n").latest  # not measured since
    await after.take("n", OTHER, [Reading(1, 0.0, {"GPU-0": GpuSample(), "GPU-1": GpuSample()})])
    assert not after.node("n").failures
    assert changed == ["n"]
    await after.close()


def _made(folder: Path, clock: Any = lambda: START) -> ReportedGpus:
    return ReportedGpus(folder / "history", folder / "nodes.json", clock)
