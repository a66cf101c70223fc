"""An audit by axe-core of what a page shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

AXE = Path(__file__).parents[2] / "labextension/node_modules/axe-core/axe.min.js"
AUDIT = """async scope => (await axe.run({include: [scope]}, {
    runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'], resultTypes: ['violations'],
})).violations"""


class Audit:
    """All violations found on a page, each with where it was seen, the rule, the element, and what is wrong with it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.violations: list[str] = []

    def look(self, where: str, scope: str = "body") -> None:
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text())  # not as a script of the page, which its policy forbids
        found: list[dict[str, Any]] = self.page.evaluate(AUDIT, scope)
        for rule in found:
            for node in rule["nodes"]:
                self.violations.append(f"{where}: {rule['id']}: {node['html'][:200]}: {node['failureSummary']}")

    def finish(self) -> None:
        assert not self.violations, "\n".join(self.violations)


def audit(page: Page, where: str, scope: str = "body") -> None:
    """Nothing that is seen of `scope` violates WCAG 2.1 AA, as far as axe-core can tell."""
    one = Audit(page)
    one.look(where, scope)
    one.finish()
