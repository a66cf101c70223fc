"""`GET /policies`: the rules that hold for the jobs of each project, and where each of them comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from scheduler.api.access import Scope
from scheduler.api.base import ApiHandler
from scheduler.api.endpoint import endpoint
from scheduler.model import ONE, ProjectName
from scheduler.pool.rules import EVERYBODY, Rules, rules_of, source_in_words
from scheduler.schema import PolicyList, PolicyView, RuleView


class PoliciesHandler(ApiHandler):
    @endpoint("The rules that hold for the jobs of each project, with their sources", Scope.ADMIN, answer=PolicyList)
    async def get(self) -> None:
        pool = self.api.book.pool
        names = [project.name for project in pool.projects]
        projects = {source_in_words(name): name for name in names}
        everybody = PolicyView(project=None, rules=list(_views(rules_of(ProjectName(EVERYBODY), pool), projects)))
        others = (PolicyView(project=name, rules=list(_views(rules_of(name, pool), projects))) for name in names)
        self.answer(PolicyList(policies=[everybody, *others]))


def _views(rules: Rules, projects: Mapping[str, ProjectName]) -> Iterator[RuleView]:
    for name, rule in rules.defaults.items():
        yield RuleView(part="defaults", name=name, value=_value(name, rule.value), source=projects.get(rule.source))
    for name, rule in rules.maxima.items():
        yield RuleView(part="maxima", name=name, value=_value(name, rule.value), source=projects.get(rule.source))
    for name, rule in rules.allowed.items():
        yield RuleView(part="allowed", name=name, value=_value(name, rule.value), source=projects.get(rule.source))


def _value(name: str, value: Any) -> Any:
    """As in the pool file."""
    if name in ("gpus", "total_gpus"):
        return value / ONE
    return list(value) if isinstance(value, tuple) else value
