"""For all tests: a test is skipped with a sentence where the machine lacks a requirement, and the summary counts those.

A skip counts if its reason begins with "needs "; `@pytest.mark.needs("chromium")` skips where that command is missing.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")  # an example's time depends more on the machine than on the code

COMMANDS = {
    "chromium": ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    "node": ("node",),
}

# Minutes for a few tests: these folders start first, so that at the end no process waits long for another.
SLOW = {"e2e", "kubernetes", "chaos", "hub", "frameworks"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tests = Path(__file__).parent
    items.sort(key=lambda item: SLOW.isdisjoint(item.path.relative_to(tests).parts))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"needs(tool): skipped where the machine has none of {COMMANDS}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        (tool,) = mark.args
        if not any(shutil.which(command) for command in COMMANDS[tool]):
            pytest.skip(f"needs {tool}, which this machine does not have")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", ())
        if isinstance(report.longrepr, tuple)
    )
    lacking = {reason: count for reason, count in reasons.items() if reason.startswith("needs ")}
    if lacking:
        terminalreporter.section("system tools")
        for reason, count in lacking.items():
            terminalreporter.write_line(f"{count} skipped: {reason}")
