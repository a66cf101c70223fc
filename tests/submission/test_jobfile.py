"""A submission as a file and as a template: typed, with the location of errors, and private to the user."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from scheduler.errors import Invalid, NotFound
from scheduler.schema import JobSubmit
from scheduler.submission import jobfile
from scheduler.submission.sweeps import Range, command_with, read_space, read_sweep


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    return tmp_path / "config"


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        ("", None, "Job is empty; it needs at least `command`."),
        ("- a", None, "must be a mapping"),
        ("command: [a]\ngpu: 1", "gpu", "did you mean 'gpus'?"),
        ("command: [a]\ngpus: many", "gpus", 'not "many"'),
        ("command: a b", "command", "array"),
        ("command: [a]\nenv: {A: 1}", "env.A", "string"),
        ("command: [a]\nfiles: [{path: x, blob: []}]", "files[0].blobs", "missing"),
        ("command: [a", None, "Job is not YAML, line 1"),
        ("gpus: 1\ngpus: 2", None, "gpus"),
    ],
)
def test_an_error_is_reported_with_its_place(text: str, field: str | None, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        jobfile.parse(text, source="Job")
    assert refused.value.field == field
    assert words in refused.value.sentence


def test_a_printed_job_file_is_read_back_unchanged() -> None:
    given = {
        "command": ["python", "train.py"],
        "in": ["data/"],
        "gpus": 0.5,
        "env": {"A": "1"},
        "array": "3%2",
    }
    for form in ("yaml", "json"):
        text = jobfile.dump(given, form)
        assert jobfile.parse(text, source="Job").given == given
    assert jobfile.submission(given) == JobSubmit(command=["python", "train.py"], gpus=0.5, env={"A": "1"})


def test_later_layers_win_and_variables_are_gathered() -> None:
    merged = jobfile.merge(
        {"gpus": 2, "env": {"A": "1", "B": "1"}, "name": "x"}, {"gpu_memory_gib": 10, "env": {"B": "2"}}
    )
    assert merged == {"gpu_memory_gib": 10, "env": {"A": "1", "B": "2"}, "name": "x"}


def test_an_array_and_a_sweep_are_made_of_the_file() -> None:
    sent = JobSubmit(command=["python", "t.py", "--out", "{lr}.pt"])
    array = jobfile.array_of({"array": "5-6%1"}, sent)
    assert array is not None
    assert ([member.index for member in array.members], array.at_once) == ([5, 6], 1)
    sweep = jobfile.array_of({"sweep": "lr=0.1;bs=1,2", "max_parallel": 2}, sent)
    assert sweep is not None
    assert [member.parameters for member in sweep.members] == [{"lr": 0.1, "bs": 1}, {"lr": 0.1, "bs": 2}]
    assert sweep.members[1].command == ["python", "t.py", "--out", "0.1.pt", "--bs", "2"]
    for wrong in ({"array": "1", "sweep": "a=1"}, {"max_parallel": 2}, {"array": "x"}, {"sweep": "a"}):
        with pytest.raises(Invalid):
            jobfile.array_of(wrong, sent)


def test_a_template_is_kept_closed_to_others_and_found_again(configuration: Path) -> None:
    given = {"gpus": 2.0, "env": {"TOKEN": "secret"}, "in": ["*.py"]}
    file = jobfile.save_template("nightly", given)
    assert file == configuration / "runai/templates/nightly.yaml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert jobfile.load_template("nightly") == given
    jobfile.save_template("nightly", {"gpus": 1})
    assert jobfile.load_template("nightly") == {"gpus": 1}
    assert jobfile.templates() == ["nightly"]
    assert [path.name for path in file.parent.iterdir()] == ["nightly.yaml"]
    with pytest.raises(NotFound, match="did you mean nightly"):
        jobfile.load_template("nightli")
    for name in ("../x", "", "a/b", ".hidden"):
        with pytest.raises(Invalid):
            jobfile.load_template(name)


def test_administrators_templates_give_way_to_the_users(
    configuration: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(tmp_path / "shared"))
    shared = tmp_path / "shared/runai/templates/large.yaml"
    shared.parent.mkdir(parents=True)
    shared.write_text("gpus: 8\n")
    assert (jobfile.templates(), jobfile.is_own("large")) == (["large"], False)
    assert jobfile.load_template("large") == {"gpus": 8}
    jobfile.save_template("large", {"gpus": 1})
    assert (jobfile.templates(), jobfile.is_own("large")) == (["large"], True)
    assert jobfile.load_template("large") == {"gpus": 1}
    assert shared.read_text() == "gpus: 8\n"


def test_an_invalid_template_is_reported_with_its_place(configuration: Path) -> None:
    jobfile.save_template("nightly", {"gpus": 1}).write_text("gpus: 1\nworker: 2\n")
    with pytest.raises(Invalid, match=r"worker: there is no key 'worker' here; did you mean 'workers'"):
        jobfile.load_template("nightly")


# -- sweeps -------------------------------------------------------------------------------------------------


def test_a_grid_has_every_combination_in_order() -> None:
    assert read_sweep("lr=1e-3, 0.01; on=true,false; n=1; s=a b") == [
        {"lr": lr, "on": on, "n": 1, "s": "a b"} for lr in (0.001, 0.01) for on in (True, False)
    ]
    kinds = [type(value) for value in read_sweep("a=1;b=1.0;c=x;d=True;e=1_000;f=-.5;g=1e3")[0].values()]
    assert kinds == [int, float, str, bool, int, float, float]


@pytest.mark.parametrize(
    "text", ["", ";", "lr", "lr=", "lr=1,", "1r=2", "a=1;a=2", "a b=1", "a=" + ",".join("1" * 1001)]
)
def test_an_invalid_sweep_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not of the form|twice|nothing|jobs"):
        read_sweep(text)


def test_values_replace_placeholders_or_are_appended() -> None:
    command = ["sh", "-c", "echo {lr} {other} ${HOME}"]
    assert command_with(command, {"lr": 0.1, "on": True}) == [
        "sh",
        "-c",
        "echo 0.1 {other} ${HOME}",
        "--on",
        "true",
    ]


def test_a_space_has_ranges_and_choices() -> None:
    assert read_space("lr=1e-5..1e-1:log; n=1..8; x=-1..1.5; bs=16,32; kind=a/../b") == {
        "lr": Range(1e-5, 0.1, log=True),
        "n": Range(1, 8),
        "x": Range(-1, 1.5),
        "bs": [16, 32],
        "kind": ["a/../b"],
    }
    for wrong in ("x=2..1", "x=1..1", "x=0..1:log"):
        with pytest.raises(ValueError, match="the end of a range must be above its start"):
            read_space(wrong)
    with pytest.raises(ValueError, match="list its values"):
        read_sweep("x=1..2")
