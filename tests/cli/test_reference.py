"""The reference pages list exactly the options of the commands, the service and the pool file."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from scheduler.cli.parser import parser
from scheduler.schema import (
    NodePoolEntry,
    PoolFile,
    ProjectEntry,
    QuotaEntry,
    SettingsEntry,
    UserEntry,
    UserGroupEntry,
    WindowEntry,
)
from scheduler.service.app import FROM_ENVIRONMENT, RunaiService

PAGES = Path(__file__).parents[2] / "docs" / "reference"


def sections(page: str) -> dict[str, str]:
    """A page's second-level sections by their headings."""
    parts = re.split(r"^## (.+)$", (PAGES / page).read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command that reads its options here, with its heading."""
    found = next(a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    for name, command in found.choices.items():
        if name in ("cancel", "pause", "resume"):
            yield "cancel, pause, resume", command
        elif name in ("project", "schedule", "notices", "user", "group", "session", "node"):
            verbs = next(a for a in command._actions if isinstance(a, argparse._SubParsersAction))
            yield from ((name, verb) for verb in verbs.choices.values())
        elif name not in ("up", "serve"):
            yield name, command


@pytest.mark.parametrize(("heading", "command"), [pytest.param(h, c, id=c.prog) for h, c in commands()])
def test_every_option_of_a_command_is_on_the_page(heading: str, command: argparse.ArgumentParser) -> None:
    page = sections("cli.md")[heading]
    if command.prog.endswith("schedule add"):
        page += sections("cli.md")["submit"]  # whose options it takes
    for action in command._actions:
        if action.help == argparse.SUPPRESS:
            continue
        for option in set(action.option_strings) - {"-h", "--help"}:
            assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", page), f"{option} is not under {heading}"


def test_the_page_has_no_option_that_no_command_takes() -> None:
    known = {option for _, command in commands() for action in command._actions for option in action.option_strings}
    for heading in dict.fromkeys(heading for heading, _ in commands()):
        documented = re.findall(r"^\| `(--[a-z-]+)", sections("cli.md")[heading], flags=re.MULTILINE)
        assert set(documented) <= known, heading


def test_every_command_has_a_section_and_a_line_in_the_overview() -> None:
    found = next(a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    page = (PAGES / "cli.md").read_text("utf-8")
    for name in found.choices:
        assert re.search(rf"^\| \[.*`{name}`.*\]\(#", page, flags=re.MULTILINE), name
        assert any(name in heading.split(", ") for heading in sections("cli.md")), name


def test_every_command_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    for _, command in commands():
        with pytest.raises(SystemExit) as ended:
            command.parse_args(["--help"])
        assert ended.value.code == 0
        assert "--help" in capsys.readouterr().out


def test_every_option_of_the_service_is_on_the_page() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| (?:`--([\w-]+)`)? ?\| `RUNAI_(\w+)` \|",
        (PAGES / "configuration.md").read_text(),
        re.MULTILINE,
    )
    own = set(RunaiService.class_own_traits(config=True))
    assert {name for name, _, _ in rows} == own == set(FROM_ENVIRONMENT)
    assert all(variable == name.upper() for name, _, variable in rows)
    flags = {alias for alias in RunaiService.aliases if alias not in ("log-level", "config")}
    assert {flag for _, flag, _ in rows if flag} == flags


@pytest.mark.parametrize(
    ("heading", "kind"),
    [
        (None, PoolFile),
        ("`node_pools[]`", NodePoolEntry),
        ("`projects[]`", ProjectEntry),
        ("`projects[].quotas[]`", QuotaEntry),
        ("`projects[].windows[]`", WindowEntry),
        ("`users[]`", UserEntry),
        ("`groups[]`", UserGroupEntry),
        ("`settings`", SettingsEntry),
    ],
)
def test_every_key_of_the_pool_file_is_on_the_page(heading: str | None, kind: type[BaseModel]) -> None:
    text = (PAGES / "pool-file.md").read_text("utf-8").partition("\n## ")[0] if heading is None else ""
    page = text or sections("pool-file.md")[heading or ""]
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == [
        field.alias or name for name, field in kind.model_fields.items()
    ]


def test_the_example_on_the_page_is_a_pool_file() -> None:
    from scheduler.model import Pool
    from scheduler.pool.file import parse, pool_of

    example = re.search(r"```yaml\n(.*?)```", (PAGES / "pool-file.md").read_text("utf-8"), re.DOTALL)
    assert example is not None
    assert len(pool_of(parse(example[1]), Pool(), 0.0).projects) == 3
