"""Requests of the panel's dialog through a real notebook server to a real scheduler, and refusals."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tornado.httpclient import HTTPClientError

from scheduler.model import JobKind, JobState
from tests.jupyter_ext.pool import RunningPool, running_pool

pytestmark = pytest.mark.filterwarnings("ignore:(?s).*TermSocket:jupyter_server.utils.JupyterServerAuthWarning")


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPool]:
    with running_pool(tmp_path_factory.mktemp("pool") / "state") as pool:
        yield pool


@pytest.fixture
def jp_server_config(pool: RunningPool, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("RUNAI_URL", pool.address.url)
    monkeypatch.setenv("RUNAI_TOKEN", pool.address.token)
    return {"ServerApp": {"jpserver_extensions": {"jupyter_ext": True}, "allow_unauthenticated_access": False}}


@pytest.fixture
def folder(jp_root_dir: Path) -> Path:
    """A folder of the file browser's, with a script, its module and a notebook."""
    folder = jp_root_dir / "digits"
    folder.mkdir()
    (folder / "train.py").write_text("import sys, shapes\nprint(shapes.AREA, *sys.argv[1:])\n")
    (folder / "shapes.py").write_text("AREA = 6\n")
    (folder / "nb.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    return folder


async def send(fetch: Any, run: str, folder: str = "digits", **options: str) -> Any:
    form = {"folder": folder, "run": run, "options": options}
    return json.loads((await fetch("runai", "jobs", method="POST", body=json.dumps(form))).body)


async def test_a_script_is_sent_with_its_folder_and_arguments(jp_fetch: Any, folder: Path, pool: RunningPool) -> None:
    sent = await send(jp_fetch, "train.py --epochs '3 4'", gpus="0.5", env="A=1\nB=2", priority="70")
    assert sent == {
        "id": sent["id"],
        "name": "train.py",
        "project": "default",
        "jobs": 1,
        "files": "Sending 3 files of this folder (127 B).",
        "next_run": None,
    }
    job = await asyncio.to_thread(pool.client.wait, sent["id"], 60)
    assert (job.state, job.kind, job.gpus, job.priority) == (
        JobState.SUCCEEDED,
        JobKind.SCRIPT,
        0.5,
        70,
    )
    assert pool.client.log(job.id) == b"6 --epochs 3 4\n"


async def test_a_command_and_a_sweep_are_sent_too(jp_fetch: Any, folder: Path, pool: RunningPool) -> None:
    sent = await send(jp_fetch, "echo {lr}", sweep="lr=1,2", gpus="0", name="tries")
    assert (sent["jobs"], sent["name"]) == (2, "tries")
    jobs = pool.client.jobs(array=sent["id"]).jobs
    for job in jobs:
        await asyncio.to_thread(pool.client.wait, job.id, 60)
    assert sorted(pool.client.log(job.id) for job in jobs) == [b"1\n", b"2\n"]


async def test_a_script_is_scheduled_and_once_more_with_its_new_files(
    jp_fetch: Any, folder: Path, pool: RunningPool
) -> None:
    sent = await send(jp_fetch, "train.py", schedule="0 2 * * *", timezone="Europe/Berlin", gpus="0")
    (added,) = pool.client.schedules()
    assert (sent["id"], sent["jobs"], sent["next_run"]) == (added.id, 0, added.next_run)
    assert (added.name, added.cron, added.timezone) == ("train.py", "0 2 * * *", "Europe/Berlin")
    (folder / "shapes.py").write_text("AREA = 7\n")
    again = await send(jp_fetch, "train.py", schedule="0 3 * * *", gpus="0")
    (changed,) = pool.client.schedules()
    assert (again["id"], changed.cron, changed.timezone) == (added.id, "0 3 * * *", "UTC")
    job = pool.client.schedule_run(added.id)
    await asyncio.to_thread(pool.client.wait, job.id, 60)
    assert pool.client.log(job.id) == b"7\n"
    pool.client.schedule_remove(added.id)


@pytest.mark.parametrize(
    ("options", "field", "sentence"),
    [
        ({"schedule": "soon"}, "schedule", "schedule: 'soon' is not a cron expression (it does not have five fields)"),
        ({"schedule": "0 2 * * *", "timezone": "Nowhere"}, "timezone", "Nowhere"),
        (
            {"schedule": "0 2 * * *", "array": "3"},
            "array",
            "array: a schedule submits one job at a time; leave it out.",
        ),
        ({"timezone": "UTC"}, "timezone", "Time zone needs a schedule; say when the job is to run, too."),
    ],
)
async def test_a_wrong_schedule_is_refused_at_its_field(
    jp_fetch: Any, folder: Path, pool: RunningPool, options: dict[str, str], field: str, sentence: str
) -> None:
    with pytest.raises(HTTPClientError) as refused:
        await send(jp_fetch, "train.py", gpus="0", **options)
    assert refused.value.response is not None
    answer = json.loads(refused.value.response.body)
    assert answer["field"] == field
    assert sentence.lower() in answer["detail"].lower()
    assert pool.client.schedules() == []


async def test_a_notebook_is_sent_with_its_parameters(jp_fetch: Any, folder: Path, pool: RunningPool) -> None:
    cell: dict[str, Any] = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [{**cell, "id": "a", "source": "print(lr, name)"}]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (folder / "nb.ipynb").write_text(json.dumps(notebook))
    sent = await send(jp_fetch, "nb.ipynb", notebook_parameters="lr=0.1\nname=first", gpus="0")
    job = await asyncio.to_thread(pool.client.wait, sent["id"], 60)
    assert (job.state, job.kind, job.name) == (JobState.SUCCEEDED, JobKind.NOTEBOOK, "nb")
    assert b"0.1 first" in pool.client.log(job.id)


async def test_the_files_to_send_are_shown_before_submission(jp_fetch: Any, folder: Path) -> None:
    found = json.loads((await jp_fetch("runai", "files", params={"folder": "digits"})).body)
    assert found["files"] == 3
    found = json.loads((await jp_fetch("runai", "files", params={"folder": "digits", "in": "*.py"})).body)
    assert found == {"files": 2, "size": 62}


REFUSED: list[tuple[str, dict[str, str], str, str]] = [
    ("", {}, "run", "Write what to run: a script, a notebook or a command."),
    ("trian.py", {}, "run", "There is no file trian.py in "),
    ("'train.py", {}, "run", "This cannot be read: no closing quotation."),
    ("nb.ipynb --x", {}, "run", "A notebook takes parameters, not arguments; write nb.ipynb alone."),
    ("nb.ipynb", {"notebook_parameters": "lr"}, "notebook_parameters", "'lr' is not of the form NAME=VALUE."),
    (
        "train.py",
        {"notebook_parameters": "lr=1"},
        "notebook_parameters",
        "Notebook parameters are for notebooks",
    ),
    ("train.py", {"gpus": "many"}, "gpus", "'many' is not an amount; write 0 or more, such as 2 or 0.5."),
    ("train.py", {"gpus": "64"}, "gpus", "64 GPUs"),
    ("train.py", {"project": "vison"}, "project", "There is no project 'vison'"),
    ("train.py", {"framework": "troch"}, "framework", "There is no 'troch'; did you mean torch?"),
    (
        "train.py",
        {"workers": "2", "min_workers": "3"},
        "min_workers",
        "Minimum workers: 3 is more than workers",
    ),
    ("train.py", {"after": "j-1,no id"}, "after", "Start after must be the id or the name of a job"),
    (
        "train.py",
        {"max_parallel": "2"},
        "max_parallel",
        "Jobs at a time: there is neither an array nor a sweep.",
    ),
    ("train.py", {"in": "*.cpp"}, "in", "matches '*.cpp'"),
    ("train.py", {"in": "a,"}, "in", "'a,' is not a list of names"),
    ("train.py", {"env": "RUNAI_RANK=1"}, "env", "Environment variables: RUNAI_RANK is set by the scheduler"),
]


@pytest.mark.parametrize(("run", "options", "field", "sentence"), REFUSED)
async def test_an_error_is_one_sentence_at_its_field(
    jp_fetch: Any,
    folder: Path,
    pool: RunningPool,
    run: str,
    options: dict[str, str],
    field: str,
    sentence: str,
) -> None:
    before = len(pool.client.jobs().jobs)
    with pytest.raises(HTTPClientError) as refused:
        await send(jp_fetch, run, **options)
    response = refused.value.response
    assert response is not None
    assert response.headers["Content-Type"] == "application/problem+json"
    problem = json.loads(response.body)
    assert (problem["field"], problem["status"]) == (field, response.code)
    assert sentence in problem["detail"]
    assert len(pool.client.jobs().jobs) == before


async def dry_run(fetch: Any, **form: Any) -> Any:
    return json.loads((await fetch("runai", "dry-run", method="POST", body=json.dumps(form))).body)


@pytest.mark.parametrize("runs", [{}, {"folder": "digits", "run": "train.py"}, {"folder": "digits", "run": "'"}])
async def test_the_dry_run_is_shown_before_submission(
    jp_fetch: Any, folder: Path, pool: RunningPool, runs: dict[str, str]
) -> None:
    before = len(pool.client.jobs().jobs)
    found = await dry_run(jp_fetch, **runs, options={"gpus": "1", "sweep": "lr=1,2"})
    assert (found["starts"], found["after"], found["estimated_start"]) == (True, 0, None)
    with pytest.raises(HTTPClientError) as refused:
        await dry_run(jp_fetch, **runs, options={"gpus": "64", "workers": "2"})
    assert refused.value.response is not None
    problem = json.loads(refused.value.response.body)
    assert (problem["status"], problem["field"]) == (422, "gpus")
    assert len(pool.client.jobs().jobs) == before


async def test_only_folders_of_the_file_browser_are_sent(jp_fetch: Any, folder: Path) -> None:
    for path in ("../", "digits/../..", "none"):
        with pytest.raises(HTTPClientError) as refused:
            await send(jp_fetch, "true", folder=path)
        assert refused.value.code == 404
    with pytest.raises(HTTPClientError) as refused:
        await send(jp_fetch, "true", file="job.yaml")
    assert refused.value.code == 422


async def line(fetch: Any, **form: Any) -> Any:
    return json.loads((await fetch("runai", "line", method="POST", body=json.dumps(form))).body)


async def test_the_line_above_a_cell_is_written_and_read(jp_fetch: Any) -> None:
    options = {"gpus": "2", "outputs": "model, accuracy", "env": "A=1\nB=x y", "preemptible": "true"}
    written = await line(jp_fetch, line="%%runai_train --gpus 1 --no-capture", options=options)
    expected = "%%runai_train --gpus 2 --out model,accuracy --env A=1 --env 'B=x y' --not-preemptible --no-capture"
    assert written == {"line": expected}
    read = await line(jp_fetch, line=expected)
    assert read == {"options": options | {"outputs": "model,accuracy"}}


@pytest.mark.parametrize(
    ("before", "options", "field", "sentence"),
    [
        ("", {"gpus": "-1"}, "gpus", "'-1' is not an amount; write 0 or more, such as 2 or 0.5."),
        ("", {"max_parallel": "2"}, "max_parallel", "Jobs at a time: there is neither an array nor a sweep."),
        ("", {"detach": "true"}, None, "There is no option 'detach' in this form."),
        ("%%runai_train --gpu 2", None, None, "There is no option --gpu; did you mean --gpus?"),
        ("%%runai_train --name 'x", None, None, "This line can't be read"),
    ],
)
async def test_an_invalid_line_is_refused(
    jp_fetch: Any, before: str, options: dict[str, str] | None, field: str | None, sentence: str
) -> None:
    with pytest.raises(HTTPClientError) as refused:
        await line(jp_fetch, line=before, **({"options": options} if options is not None else {}))
    assert refused.value.response is not None
    problem = json.loads(refused.value.response.body)
    assert (problem.get("field"), problem["status"]) == (field, 422)
    assert sentence in problem["detail"]


async def test_a_script_returns_no_variables(jp_fetch: Any, folder: Path) -> None:
    with pytest.raises(HTTPClientError) as refused:
        await send(jp_fetch, "train.py", outputs="model")
    assert refused.value.response is not None
    assert json.loads(refused.value.response.body)["field"] == "outputs"


async def test_an_invalid_form_is_refused_with_its_parts(jp_fetch: Any) -> None:
    for path, parts in (
        ("jobs", "a folder, a line to run and options"),
        ("line", "the line above the cell and options"),
        ("dry-run", "options, and a folder and a line to run where it is no cell's"),
    ):
        with pytest.raises(HTTPClientError) as refused:
            await jp_fetch("runai", path, method="POST", body='["x"]')
        assert refused.value.response is not None
        assert json.loads(refused.value.response.body)["detail"] == f"This form has {parts}."


async def form_of(fetch: Any, job: str) -> Any:
    return json.loads((await fetch("runai", "form", params={"job": job})).body)


async def test_a_clone_has_the_files_of_its_job_and_other_options(
    jp_fetch: Any, folder: Path, pool: RunningPool
) -> None:
    sent = await send(jp_fetch, "train.py --epochs 3", gpus="0", env="A=1", max_runtime="1h", memory_gib="1GiB")
    form = await form_of(jp_fetch, sent["id"])
    assert form == {
        "run": f"{sys.executable} train.py --epochs 3",
        "fixed": False,
        "options": {
            "name": "train.py",
            "project": "default",
            "gpus": "0",
            "memory_gib": "1GiB",
            "env": "A=1",
            "max_runtime": "3600s",
        },
    }
    (folder / "shapes.py").write_text("AREA = 7\n")
    body = {
        "like": sent["id"],
        "run": f"{sys.executable} train.py --epochs 4",
        "options": {**form["options"], "name": "again"},
    }
    tried = json.loads((await jp_fetch("runai", "dry-run", method="POST", body=json.dumps(body))).body)
    assert tried["starts"]
    again = json.loads((await jp_fetch("runai", "jobs", method="POST", body=json.dumps(body))).body)
    job = await asyncio.to_thread(pool.client.wait, again["id"], 60)
    assert (job.name, job.state) == ("again", JobState.SUCCEEDED)
    assert pool.client.log(job.id) == b"6 --epochs 4\n"


async def test_a_clone_is_refused_at_its_field(jp_fetch: Any, folder: Path) -> None:
    sent = await send(jp_fetch, "train.py", gpus="0")
    for body, field, sentence in (
        ({"run": "'", "options": {}}, "run", "This cannot be read: no closing quotation."),
        ({"run": "python train.py", "options": {"gpus": "64"}}, "gpus", "64 GPUs"),
    ):
        with pytest.raises(HTTPClientError) as refused:
            await jp_fetch("runai", "jobs", method="POST", body=json.dumps({"like": sent["id"], **body}))
        assert refused.value.response is not None
        answer = json.loads(refused.value.response.body)
        assert answer["field"] == field
        assert sentence in answer["detail"]
    with pytest.raises(HTTPClientError) as refused:
        await form_of(jp_fetch, "jnone")
    assert refused.value.code == 404


@pytest.mark.parametrize("path", ["form", "files"])
async def test_a_form_needs_a_login(jp_fetch: Any, path: str) -> None:
    with pytest.raises(HTTPClientError) as refused:
        await jp_fetch("runai", path, headers={"Authorization": "token wrong"})
    assert refused.value.code == 403
