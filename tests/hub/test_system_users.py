"""A hub that runs as root for the system's users: jobs run as their owners, and never as root."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.model import JobState
from scheduler.schema import JobSubmit, JobView
from tests.hub.running import PATIENCE, Hub

pytestmark = [
    pytest.mark.needs("node"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run jobs as somebody else"),
]


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o711)
    hub = Hub(folder, system_users=True)
    hub.start()
    yield hub
    hub.clean()
    shutil.rmtree(folder)


def ended(hub: Hub, user: str, command: list[str]) -> tuple[JobView, str]:
    hub.add(user)
    with hub.scheduler_of(user) as scheduler:
        job = scheduler.submit(JobSubmit(command=command))
        return scheduler.wait(job.id, PATIENCE), b"".join(scheduler.logs(job.id)).decode()


def test_a_job_runs_as_its_owner_and_cannot_be_the_scheduler(hub: Hub) -> None:
    token = hub.folder / "pool" / "hub-token"
    job, log = ended(hub, "daemon", ["/bin/sh", "-c", f"id -u; cat {token} || echo kept from me"])
    assert job.state is JobState.SUCCEEDED
    assert log.splitlines()[0] == str(pwd.getpwnam("daemon").pw_uid)
    assert log.splitlines()[-1] == "kept from me"
    assert token.read_text() not in log


@pytest.mark.parametrize(("user", "sentence"), [("root", "never run as root"), ("stranger", "has no user")])
def test_unknown_users_and_root_are_refused_with_a_sentence(hub: Hub, user: str, sentence: str) -> None:
    job, log = ended(hub, user, ["/bin/id"])
    assert job.state is JobState.FAILED
    assert sentence in job.reason
    assert log == ""
