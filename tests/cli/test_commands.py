"""From words to a command: the job's own options, the files sent with it, and the messages for invalid input."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler import __version__
from scheduler.cli import main
from scheduler.cli.apply import describe
from scheduler.cli.audit import row
from scheduler.cli.parser import read
from scheduler.cli.submit import compose, variables, what_runs
from scheduler.errors import Invalid, Misused, NotFound
from scheduler.schema import AuditEntry, Change


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/run.py").touch()
    (tmp_path / "run.sh").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("words", "kind", "command"),
    [
        (["train.py"], "script", [sys.executable, "train.py"]),
        (["./train.py", "--", "--gpus", "9"], "script", [sys.executable, "train.py", "--gpus", "9"]),
        (["sub/../sub/run.py"], "script", [sys.executable, "sub/run.py"]),
        (["--", "torchrun", "--", "x"], "command", ["torchrun", "--", "x"]),
        (["--gpus", "2", "--", "python", "train.py"], "command", ["python", "train.py"]),
    ],
)
def test_the_program_of_a_command_line(folder: Path, words: list[str], kind: str, command: list[str]) -> None:
    found = what_runs(read(["submit", *words]))
    assert found is not None
    assert (found.kind, found.command) == (kind, tuple(command))


def test_a_job_of_a_template_is_called_as_the_template(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(folder / "config"))
    compose(read(["submit", "--save-template", "nightly", "--dry-run", "--", "python", "train.py"]))
    assert "name: python\n" in capsys.readouterr().out
    for words, name in (
        (["--template", "nightly"], "nightly"),
        (["--template", "nightly", "--name", "tonight"], "tonight"),
        (["--template", "nightly", "train.py"], "train.py"),
    ):
        composed = compose(read(["submit", *words]))
        assert composed is not None
        assert composed[0].name == name


def test_a_notebook_runs_with_its_parameters(folder: Path) -> None:
    (folder / "nb.ipynb").write_text('{"cells": [], "metadata": {}}')
    found = what_runs(read(["submit", "nb.ipynb", "-p", "lr=0.1", "-p", "name=first"]))
    assert found is not None
    assert (found.kind, found.name) == ("notebook", "nb")
    assert found.command[1:] == (
        "-P",
        "-m",
        "jupyter_ext.notebook_runner",
        "nb.ipynb",
        "-p",
        "lr=0.1",
        "-p",
        'name="first"',
    )
    with pytest.raises(Misused, match="-p is for notebooks"):
        what_runs(read(["submit", "-p", "lr=0.1", "--", "true"]))


def test_without_files_a_script_runs_where_it_is(folder: Path) -> None:
    options = read(["submit", "--no-files", "train.py"])
    found = what_runs(options)
    assert found is not None
    assert (found.command, found.files) == ((sys.executable, str(folder / "train.py")), {})


@pytest.mark.parametrize(
    ("words", "error", "sentence"),
    [
        (["trian.py"], NotFound, "did you mean train.py?"),
        (["nofile.ipynb"], NotFound, "There is no file nofile.ipynb in .*/[^;]*\\.$"),
        (["train.py", "3"], Misused, "Put the arguments of train.py after `--`: .* train.py -- 3 …"),
        (
            ["python", "train.py"],
            Misused,
            "Put the command after `--`: jupyter runai submit -- python train.py",
        ),
        (["none.py"], NotFound, "There is no file none.py in "),
        (
            ["run.sh"],
            Invalid,
            "run.sh is neither a Python script nor a program; say how to run it: .* -- COMMAND run.sh",
        ),
        (["../train.py"], NotFound, "There is no file"),
    ],
)
def test_invalid_programs_are_refused(folder: Path, words: list[str], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence.replace("(", r"\(")):
        what_runs(read(["submit", *words]))


def test_a_script_outside_the_folder_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder / "sub")
    with pytest.raises(Invalid, match=r"is outside .*; change to its folder first"):
        what_runs(read(["submit", "../train.py"]))


def test_a_job_gets_the_named_variables_and_the_search_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"PATH": "/bin", "SECRET": "s", "SEED": "7", "VIRTUAL_ENV": "/env"})
    assert variables() == {"PATH": f"{Path(sys.executable).parent}:/bin", "VIRTUAL_ENV": "/env"}
    assert read(["submit", "--env", "A=b=c", "--env", "SEED"]).env == {"A": "b=c", "SEED": "7"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["lst"], "There is no command 'lst'; did you mean 'list'? See `jupyter runai --help`.\n"),
        (
            ["project", "sett"],
            "There is no command 'sett'; did you mean 'set'? See `jupyter runai project --help`.\n",
        ),
        (["frobnicate"], "There is no command 'frobnicate'. See `jupyter runai --help`.\n"),
        (["list", "--al"], "`list` does not take '--al'. See `jupyter runai list --help`.\n"),
        (
            ["submit", "--gps=1", "train.py"],
            "`submit` does not take '--gps=1'; did you mean --gpus? See `jupyter runai submit --help`.\n",
        ),
        (["project", "set", "a", "--limt", "1"], "does not take '--limt'; did you mean --limit? See"),
        (
            ["submit", "train.py", "--epochs", "3"],
            "`submit` does not take '--epochs'; put the arguments of the job after",
        ),
        (["list", "--", "x"], "Only `submit` and `schedule add` take words after `--`."),
        (["logs"], "The following arguments are required: JOB. See `jupyter runai logs --help`.\n"),
        (
            ["list", "--limit", "0"],
            "--limit: '0' is not a whole number of at least 1. See `jupyter runai list --help`.",
        ),
        (
            ["submit", "--gpus", "-1", "x.py"],
            "--gpus: '-1' is not an amount; write 0 or more, such as 2 or 0.5. See",
        ),
        (["submit", "--gpus"], "--gpus needs a value. See"),
        (["submit", "--dry-run=yes", "x.py"], "--dry-run takes no value. See"),
        (["submit", "-p", "lr", "x.ipynb"], "-p: 'lr' is not of the form NAME=VALUE. See"),
        (["submit", "--parameter", "lr", "x.ipynb"], "--parameter: 'lr' is not of the form NAME=VALUE. See"),
        (
            ["submit", "--framework", "troch", "x.py"],
            "--framework: there is no 'troch'; did you mean torch? See",
        ),
        (["submit", "--at-once", "0", "x.py"], "--at-once: '0' is not a whole number of at least 1. See"),
        (
            ["submit", "--env", "NOT_SET", "x.py"],
            "--env: there is no variable NOT_SET here; write NOT_SET=VALUE. See",
        ),
        (["submit", "--gpus", "nan", "x.py"], "is not an amount"),
        (
            ["submit", "--max-runtime", "soon", "x.py"],
            "'soon' is not a duration; write 90s, 30m, 2h, 1h30m or 1d",
        ),
        (["priority", "1001", "j-1"], "'1001' is not a priority; write a number from 0 to 1000"),
        (["submit", "--memory", "lots", "x.py"], "'lots' is not an amount of memory; write 16GiB or 512MiB"),
        (["project", "set", "a", "--limit", "many"], "'many' is not an amount; write 0 or more, or `none`"),
        (
            ["project", "set", "a", "--quota", "guaranteed=4"],
            "'guaranteed=4' is not a quota; write one such as",
        ),
        (["submit", "--env", "=x", "x.py"], "'=x' is not of the form NAME=VALUE"),
        (
            ["usage", "--since", "soon"],
            "--since: 'soon' is neither a time nor a duration; write one such as 2026-03-01",
        ),
        (["usage", "--by", "colour"], "--by: 'colour' is no list of groups; write some of project,user,gpu_type"),
        (
            ["simulate", "--recorded", "--gpus", "many"],
            "--gpus: 'many' is not a number of additional GPUs; write one such",
        ),
        (
            ["simulate", "--recorded", "--guaranteed", "40"],
            "--guaranteed: '40' is not a guarantee; write a project and",
        ),
        (["apply"], "One of the arguments -f/--file --show is required."),
    ],
)
def test_misuse_is_one_sentence_and_status_2(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    shown = capsys.readouterr()
    assert (ended.value.code, shown.out) == (2, "")
    assert sentence in shown.err
    assert shown.err.count("\n") == 1


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    assert "submit" in capsys.readouterr().err


def test_the_installed_command_says_its_version_and_needs_no_scheduler_for_it() -> None:
    script = Path(sys.executable).with_name("jupyter-runai")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"{__version__}\n"


def test_help_imports_no_slow_modules() -> None:
    slow = "{'pydantic', 'httpx', 'sqlalchemy', 'tornado', 'traitlets', 'yaml', 'jupyterhub'}"
    program = (
        f"import sys\nfrom scheduler.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n"
        f"    sys.exit(' '.join({slow} & sys.modules.keys()) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""


def test_a_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    scenario = tmp_path / "s.json"
    scenario.write_text('{"nodes": [{"name": "n", "gpus": 1}], "projects": [], "jobs": []}\n' * 20_000)
    with subprocess.Popen(
        [sys.executable, "-m", "scheduler.cli", "plan", "--lines", str(scenario)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            Change(action="change", kind="project", name="a", before={"limit": None}, after={"limit": 2.0}),
            "project a: limit none → 2",
        ),
        (
            Change(
                action="add",
                kind="project",
                name="a",
                after={"name": "a", "guaranteed": 1.0, "members": ["x", "y"]},
            ),
            "project a: guaranteed 1, members x, y",
        ),
        (Change(action="remove", kind="node_pool", name="old", before={"name": "old"}), "node pool old"),
        (
            Change(
                action="change",
                kind="settings",
                name="settings",
                before={"reservations": 1},
                after={"reservations": 2},
            ),
            "settings: reservations 1 → 2",
        ),
        (
            Change(action="change", kind="project", name="a", before={"members": ["x"]}, after={"members": []}),
            "project a: members x → nobody",
        ),
    ],
)
def test_a_change_in_words(change: Change, line: str) -> None:
    assert describe(change) == line


@pytest.mark.parametrize(
    ("user", "after", "told"),
    [
        ("root", None, ("root", "session s-1 (of ada)")),
        (None, {"reason": "It was idle for 1 h."}, ("(scheduler)", "session s-1 (of ada): It was idle for 1 h.")),
    ],
)
def test_the_audit_tells_who_stopped_a_server_and_why(
    user: str | None, after: dict[str, str] | None, told: tuple[str, str]
) -> None:
    entry = AuditEntry(
        id=1, at=0, user=user, action="remove", kind="session", name="s-1", before={"owner": "ada"}, after=after
    )
    assert row(entry)[1:] == told
