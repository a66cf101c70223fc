"""Displays in a kernel follow the scheduler's event stream: they ask nothing while nothing happens."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from jupyter_ext import changes
from jupyter_ext.changes import Changes
from scheduler.schema import JobSubmit
from tests.jupyter_ext.pool import running_pool


def test_changes_wake_also_after_a_restart_of_the_scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_pool(tmp_path / "state") as pool:
        monkeypatch.setattr(changes, "locate", lambda: pool.address)
        monkeypatch.setattr(changes, "connect", lambda: pool.client)
        first, second = (pool.client.submit(JobSubmit(command=["sleep", "600"], gpus=0)).id for _ in range(2))
        unfinished = [first]
        with Changes(lambda: unfinished) as waiting:
            assert waiting.wait()
            with Changes(lambda: [first]) as later:
                assert later.wait(10), "it may have missed a change before it"
            unfinished.append(second)
            for id in (second, first):
                pool.client.cancel(id)
                while not pool.client.job(id).state.final:
                    assert waiting.wait()
            pool.kill()
            pool.start()
            assert waiting.wait()
        for thread in threading.enumerate():
            if thread.name == "changes of jobs":
                thread.join()
