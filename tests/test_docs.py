"""Every link between the pages, and to a picture or a folder, leads somewhere; every promise of SECURITY.md names
tests."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    *ROOT.glob("*.md"),
    *(page for folder in ("docs", "tests") for page in (ROOT / folder).rglob("*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text("utf-8"), flags=re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", h).strip().lower().replace(" ", "-") for h in headings}, link


PROMISES = re.findall(r"^\| (.+) \| (.+) \|$", (ROOT / "SECURITY.md").read_text("utf-8"), flags=re.MULTILINE)


@pytest.mark.parametrize(("promise", "tests"), [row for row in PROMISES if row != ("promise", "tests")])
def test_a_promise_names_tests_that_exist(promise: str, tests: str) -> None:
    for part in tests.split("; "):
        (file,) = re.findall(r"\((tests/.+?)\)", part)
        named = set(re.findall(r"`(test_\w+)`", part.partition("): ")[2]))
        nodes = ast.walk(ast.parse((ROOT / file).read_text("utf-8")))
        there = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert named, part
        assert named <= there, part
