"""Each option of a submission, in the magic and on the command line: both send the same, as given."""

from __future__ import annotations

import io
import json
import shlex
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from scheduler.cli import main
from scheduler.schema import Problem
from scheduler.submission.options import OPTIONS, Interface
from tests.jupyter_ext.conftest import Notebook

ARRIVES: dict[str, tuple[str, Any]] = {
    "gpus": ("--gpus 0.5", 0.5),
    "gpu_memory_gib": ("--gpu-memory 512MiB", 0.5),
    "gpu_types": ("--gpu-type A100,H100", ["A100", "H100"]),
    "cpus": ("--cpus 4", 4),
    "memory_gib": ("--memory 16GiB", 16),
    "workers": ("--workers 4", 4),
    "min_workers": ("--workers 4 --min-workers 2", 2),
    "framework": ("--framework torch", "torch"),
    "node_pools": ("--node-pool fast,slow", ["fast", "slow"]),
    "require": ("--require rack", "rack"),
    "prefer": ("--prefer node", "node"),
    "image": ("--image team/train:1", "team/train:1"),
    "in": ("--in '*.txt'", ["a.txt"]),
    "no_files": ("--no-files", True),
    "env": ("--env A=1 --env B=x=y", {"A": "1", "B": "x=y"}),
    "name": ("--name first", "first"),
    "project": ("--project vision", "vision"),
    "priority": ("--priority 70", 70),
    "preemptible": ("--not-preemptible", False),
    "after": ("--after j-1,a-2:any", ["j-1", "a-2:any"]),
    "retries": ("--retries 3", 3),
    "max_runtime": ("--max-runtime 1h30m", 5400),
    "min_runtime": ("--min-runtime 10m", 600),
    "idle_timeout": ("--idle-timeout 30m", 1800),
    "expected_runtime": ("--expected-runtime 40m", 2400),
    "grace": ("--grace 2m", 120),
    "array": ("--array 1,3-4", [1, 3, 4]),
    "sweep": ("--sweep 'lr=0.1;bs=1,2'", [{"lr": 0.1, "bs": 1}, {"lr": 0.1, "bs": 2}]),
    "max_parallel": ("--array 4 --max-parallel 2", 2),
}
"""The typed text, and the resulting request to the scheduler."""


class Recorder:
    """Answers as a scheduler that has every blob and refuses every job, and keeps the requests."""

    def __init__(self) -> None:
        recorder = self
        self.job: dict[str, Any] = {}
        self.array: dict[str, Any] = {}
        self.files: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self, status: int, body: bytes = b"") -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/problem+json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def _body(self) -> bytes:
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))

            def do_HEAD(self) -> None:
                self._answer(404)

            def do_PUT(self) -> None:
                with tarfile.open(fileobj=io.BytesIO(self._body())) as bundle:
                    recorder.files = bundle.getnames()
                self._answer(204)

            def do_POST(self) -> None:
                sent = json.loads(self._body())
                if self.path.endswith("/check"):
                    self._answer(204)
                    return
                recorder.array = sent if "members" in sent else {}
                recorder.job = sent["job"] if recorder.array else sent
                problem = Problem(
                    type="urn:jupyter-runai:problem:invalid",
                    title="Refused",
                    status=422,
                    detail="Kept.",
                    field=None,
                )
                self._answer(422, problem.model_dump_json().encode())

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def arrived(self, name: str) -> Any:
        """The sent value of an option."""
        match name:
            case "in":
                return self.files
            case "no_files":
                return self.files == []
            case "array":
                return [member["index"] for member in self.array["members"]]
            case "sweep":
                return [member["parameters"] for member in self.array["members"]]
            case "max_parallel":
                return self.array.get("max_parallel", self.array.get("at_once"))
            case "env":
                return {key: value for key, value in self.job["env"].items() if key in ("A", "B")}
        return self.job[name]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch, write: Callable[[str, str], Path]) -> Iterator[Recorder]:
    recorder = Recorder()
    monkeypatch.setenv("RUNAI_URL", recorder.url)
    monkeypatch.setenv("RUNAI_TOKEN", "t")
    write("a.txt", "a")
    write("b.py", "b")
    yield recorder
    recorder.close()


def test_every_option_of_both_lines_is_here() -> None:
    both = Interface.MAGIC | Interface.COMMAND_LINE | Interface.JOB_FILE
    assert list(ARRIVES) == [option.name for option in OPTIONS if both in option.via]


@pytest.mark.parametrize("name", ARRIVES)
def test_what_is_typed_arrives(
    name: str, notebook: Notebook, recorder: Recorder, capsys: pytest.CaptureFixture[str]
) -> None:
    typed, expected = ARRIVES[name]
    notebook.shell.run_line_magic("load_ext", "jupyter_ext")
    said = notebook.refused(f"%runai_train {typed} -- true")
    assert said.endswith("UsageError: Kept.\n")
    assert recorder.arrived(name) == expected
    assert recorder.job["command"][0] == "true"

    recorder.job, recorder.array, recorder.files = {}, {}, []
    capsys.readouterr()
    assert main(["submit", *shlex.split(typed), "--", "true"]) == 1
    assert capsys.readouterr().err == "Kept.\n"
    assert recorder.arrived(name) == expected
    assert recorder.job["command"][0] == "true"


def test_what_a_cell_returns_arrives(notebook: Notebook, recorder: Recorder) -> None:
    notebook.shell.run_line_magic("load_ext", "jupyter_ext")
    notebook.refused("%%runai_train --out x,y --no-files\nx = y = 1")
    assert recorder.arrived("outputs") == ["x", "y"]


def test_the_parameters_of_a_notebook_arrive(
    notebook: Notebook, recorder: Recorder, write: Callable[[str, str], Path]
) -> None:
    write("n.ipynb", '{"cells": [], "metadata": {}}')
    notebook.shell.run_line_magic("load_ext", "jupyter_ext")
    notebook.refused("%runai_train n.ipynb -p lr=0.1 --parameter name=first")
    by_magic = recorder.job["command"]
    assert by_magic[-4:] == ["-p", "lr=0.1", "-p", 'name="first"']
    assert main(["submit", "n.ipynb", "-p", "lr=0.1", "--parameter", "name=first"]) == 1
    assert recorder.job["command"] == by_magic
