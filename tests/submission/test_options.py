"""The options of a submission at their five interfaces: each has those in the table, with the same description."""

from __future__ import annotations

import argparse
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_ext import options as magic
from scheduler.cli import parser as command_line
from scheduler.errors import Invalid
from scheduler.schema import JobSubmit
from scheduler.submission.arguments import in_words
from scheduler.submission.jobfile import JobFile, parse
from scheduler.submission.options import BY_NAME, OPTIONS, Interface, Option, of
from scheduler.submission.values import SWITCH

RUNS = {"kind", "command", "bundle", "files", "parameters", "git", "cell", "may_submit"}
"""The program, its origin and its rights: not an option, but the words of a line, or the file in a dialog."""

LINES: dict[Interface, argparse.ArgumentParser] = {
    Interface.MAGIC: magic.parser(),
    Interface.COMMAND_LINE: next(
        action.choices["submit"]
        for action in command_line.parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    ),
}


def shown(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The options of a parser, without those kept only for compatibility."""
    for action in parser._actions:
        if action.option_strings and action.help != argparse.SUPPRESS and action.dest != "help":
            yield action


@pytest.mark.parametrize("interface", LINES)
def test_a_line_has_the_options_of_the_table(interface: Interface) -> None:
    found = {tuple(action.option_strings): action.dest for action in shown(LINES[interface])}
    assert found == {option.flags: option.name for option in of(interface)}


def test_a_job_file_has_the_options_of_the_table() -> None:
    keys = {field.alias or name for name, field in JobFile.model_fields.items()}
    assert keys - RUNS == {option.name for option in of(Interface.JOB_FILE)}


def test_the_api_has_the_options_of_the_table() -> None:
    assert JobSubmit.model_fields.keys() - RUNS == {option.name for option in of(Interface.API)}


@pytest.mark.parametrize("option", [*of(Interface.API)], ids=lambda option: option.name)
def test_the_api_says_what_the_table_says(option: Option) -> None:
    field = JobSubmit.model_fields[option.name]
    assert field.description == (option.help if option.sets is True else f"false: {option.help}")
    default = field.get_default(call_default_factory=True)
    if default and option.kind is not SWITCH:  # otherwise it is the scheduler's to find, and told in words
        assert option.kind.read(option.default) == default


def test_every_option_reaches_the_job() -> None:
    """An option of both lines is one of a job file, too, unless it says what to do beside sending the job."""
    beside = {"notebook_parameters", "template", "save_template", "dry_run", "output"}
    lines = {option.name for option in OPTIONS if Interface.MAGIC | Interface.COMMAND_LINE in option.via}
    assert lines - {option.name for option in of(Interface.JOB_FILE)} == beside


def test_names_and_flags_are_given_once() -> None:
    assert len(BY_NAME) == len(OPTIONS)
    for interface, parser in LINES.items():
        flags = [flag for action in parser._actions for flag in action.option_strings]
        assert len(flags) == len(set(flags)), interface


@pytest.mark.parametrize("option", [each for each in OPTIONS if each.example], ids=lambda each: each.name)
def test_the_example_of_an_option_is_one(option: Option) -> None:
    option.kind.read(option.example)


def test_a_former_name_is_read_and_shown_nowhere() -> None:
    assert parse("command: [a]\nat_once: 2", source="Job").given == {"command": ["a"], "max_parallel": 2}
    with pytest.raises(Invalid, match="at_once: there is no key"):
        parse("command: [a]\nat_once: 2\nmax_parallel: 2", source="Job")
    for parser in LINES.values():
        asked = parser.parse_args(["--at-once", "2"])
        assert (asked.max_parallel, asked.typed) == (2, {"max_parallel": "--at-once"})
        assert "--at-once" not in parser.format_help()


def test_an_option_given_again_adds_to_what_was_given_before() -> None:
    for parser in LINES.values():
        asked = parser.parse_args(
            shlex.split("--gpu-type A100,H100 --gpu-type V100 --env A=1 --env B=2 --gpus 1 --gpus 2")
        )
        assert (asked.gpu_types, asked.env, asked.gpus) == (["A100", "H100", "V100"], {"A": "1", "B": "2"}, 2)


@pytest.mark.parametrize(
    ("line", "error", "sentence"),
    [
        (
            "--gpu-memory 0",
            Invalid("gpu_memory_gib must be greater than 0.", field="gpu_memory_gib"),
            "--gpu-memory must be greater than 0.",
        ),
        ("--after x,y!", Invalid("after[1] must be an id.", field="after[1]"), "--after must be an id."),
        ("--gpus 1", Invalid("There are 2 gpus here.", field="gpus"), "There are 2 gpus here."),
        ("--gpus 1", Invalid("min_workers: 4 is too many.", field="min_workers"), "min_workers: 4 is too many."),
        (
            "--min-workers 4 --workers 2",
            Invalid("min_workers: 4 is more than workers, which is 2.", field="min_workers"),
            "--min-workers: 4 is more than workers, which is 2.",
        ),
    ],
)  # fmt: skip
def test_what_is_refused_is_told_with_the_options_as_they_were_typed(line: str, error: Invalid, sentence: str) -> None:
    for parser in LINES.values():
        assert in_words(error, parser.parse_args(line.split()).typed) == sentence


def test_the_reference_pages_have_the_tables() -> None:
    tables = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "tables.py"))
    for page in tables["TABLES"]:
        assert (tables["REFERENCE"] / page).read_text("utf-8") == tables["render"](page), "run python docs/tables.py"
