"""Jobs keep the state of the Git repository that they were submitted from."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import httpx
import pytest

if TYPE_CHECKING:
    from tests.app.conftest import Service


@pytest.mark.skipif(shutil.which("git") is None, reason="needs Git, which this machine does not have")
def test_the_commit_of_the_folder_goes_with_a_job(service: Service) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *who, *words], cwd=service.work, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    service.start()
    script = service.work / "train.py"
    script.write_text("print(1)")
    git("init", "-b", "main")
    git("add", ".")
    git("commit", "-m", "begin")
    script.write_text("print(2)")
    endpoint = service.folder.endpoint()
    assert endpoint is not None
    headers = {"Authorization": f"Bearer {service.folder.read_token()}"}
    with httpx.Client(base_url=endpoint.url, headers=headers) as http:
        for words in (("train.py",), ("--array", "0-1", "train.py"), ("--no-files", "--", "true")):
            sent = service.cli("submit", *words).stdout.strip()
            job = f"{sent}-0" if words[0] == "--array" else sent
            told = http.get(f"api/v1/jobs/{job}/submission").raise_for_status().json()
            assert told["git"] == {"commit": git("rev-parse", "HEAD"), "branch": "main", "changed": 1}
