"""Templates in the form of a job: the user's own and the administrators', as texts of its fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tornado.httpclient import HTTPClientError

from scheduler.submission import jobfile
from tests.jupyter_ext.pool import RunningPool

pytestmark = pytest.mark.filterwarnings("ignore:(?s).*TermSocket:jupyter_server.utils.JupyterServerAuthWarning")


@pytest.fixture
def jp_server_config(pool: RunningPool, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("RUNAI_URL", pool.address.url)
    monkeypatch.setenv("RUNAI_TOKEN", pool.address.token)
    return {"ServerApp": {"jpserver_extensions": {"jupyter_ext": True}, "allow_unauthenticated_access": False}}


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The administrators' templates."""
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path / "shared"))
    folder = tmp_path / "shared/runai/templates"
    folder.mkdir(parents=True)
    return folder


async def templates(fetch: Any) -> Any:
    return json.loads((await fetch("runai", "templates")).body)


async def keep(fetch: Any, name: str, **options: str) -> Any:
    body = json.dumps({"name": name, "options": options})
    return json.loads((await fetch("runai", "templates", method="POST", body=body)).body)


async def test_the_options_of_a_form_are_kept_and_read_back(jp_fetch: Any) -> None:
    options = {
        "gpus": "0.5",
        "env": "A=1\nB=2",
        "in": "*.py, data",
        "max_runtime": "3600s",
        "preemptible": "true",
        "sweep": "lr=1,2",
        "outputs": "model, accuracy",
    }
    kept = await keep(jp_fetch, "half", **options, timezone="UTC", schedule="0 2 * * *")
    assert kept == [{"name": "half", "own": True, "run": "", "options": options, "left_out": [], "problem": ""}]
    assert await templates(jp_fetch) == kept
    assert jobfile.load_template("half")["preemptible"] is False
    again = await keep(jp_fetch, "half", gpus="1")
    assert [template["options"] for template in again] == [{"gpus": "1"}]


async def test_templates_of_the_magic_and_of_administrators_are_offered(jp_fetch: Any, shared: Path) -> None:
    jobfile.save_template("nightly", {"gpus": 2, "kind": "command", "command": ["sh", "-c", "a b"]})
    (shared / "large.yaml").write_text("gpus: 8\ngroups: [{name: a, workers: 1}]\n")
    (shared / "wrong.yaml").write_text("gpu: 8\n")
    large, nightly, wrong = await templates(jp_fetch)
    assert (nightly["own"], nightly["run"], nightly["options"]) == (True, "sh -c 'a b'", {"gpus": "2"})
    assert (large["own"], large["run"], large["options"], large["left_out"]) == (False, "", {"gpus": "8"}, ["groups"])
    assert "there is no key 'gpu' here; did you mean 'gpus'" in wrong["problem"]
    kept = await keep(jp_fetch, "large", gpus="4")
    assert [(each["own"], each["options"]) for each in kept if each["name"] == "large"] == [(True, {"gpus": "4"})]
    assert (shared / "large.yaml").read_text().startswith("gpus: 8")


@pytest.mark.parametrize(
    ("name", "options", "field", "sentence"),
    [
        ("../x", {}, "template", "'../x' is not a valid template name; use letters, digits and . _ - (at most 64)."),
        ("half", {"gpus": "many"}, "gpus", "'many' is not an amount; write 0 or more, such as 2 or 0.5."),
        ("half", {"kind": "cell"}, None, "There is no option 'kind' in this form."),
    ],
)
async def test_what_cannot_be_kept_is_refused(
    jp_fetch: Any, name: str, options: dict[str, str], field: str | None, sentence: str
) -> None:
    with pytest.raises(HTTPClientError) as refused:
        await keep(jp_fetch, name, **options)
    assert refused.value.response is not None
    problem = json.loads(refused.value.response.body)
    assert (problem["field"], problem["detail"], problem["status"]) == (field, sentence, 422)
    assert await templates(jp_fetch) == []


async def test_a_job_file_fills_in_the_form(jp_fetch: Any, jp_root_dir: Path) -> None:
    folder = jp_root_dir / "jobs"
    folder.mkdir()
    (folder / "large run.yaml").write_text("command: [python, train.py, --name, a b]\ngpus: 2\nenv: {A: '1'}\n")
    (folder / "named.yml").write_text("command: [sh]\nname: mine\n")
    (folder / "wrong.yaml").write_text("gpu: 2\n")
    (folder / "gang.yaml").write_text("command: [sh]\ngroups: [{name: a, workers: 1}]\n")

    async def form(path: str) -> Any:
        return json.loads((await jp_fetch("runai", "job-file", params={"path": path})).body)

    assert await form("jobs/large run.yaml") == {
        "run": "python train.py --name 'a b'",
        "options": {"name": "large-run", "gpus": "2", "env": "A=1"},
    }
    assert (await form("jobs/named.yml"))["options"] == {"name": "mine"}
    for path, status, sentence in (
        ("jobs/wrong.yaml", 422, "there is no key 'gpu' here; did you mean 'gpus'"),
        ("jobs/gang.yaml", 422, "The form has no field for groups; run `jupyter runai submit -f gang.yaml`."),
        ("jobs/missing.yaml", 422, "missing.yaml cannot be read (No such file or directory)."),
        ("../secret.yaml", 404, "There is no folder .. here."),
    ):
        with pytest.raises(HTTPClientError) as refused:
            await form(path)
        assert refused.value.response is not None
        assert refused.value.code == status
        assert sentence in json.loads(refused.value.response.body)["detail"]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_templates_need_a_login(jp_fetch: Any, method: str) -> None:
    body = "{}" if method == "POST" else None
    with pytest.raises(HTTPClientError) as refused:
        await jp_fetch("runai", "templates", method=method, body=body, headers={"Authorization": "token wrong"})
    assert refused.value.code == 403


async def test_a_job_file_needs_a_login(jp_fetch: Any) -> None:
    with pytest.raises(HTTPClientError) as refused:
        await jp_fetch("runai", "job-file", headers={"Authorization": "token wrong"})
    assert refused.value.code == 403
