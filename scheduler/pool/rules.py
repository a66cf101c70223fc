"""An administrator's rules for the jobs of a project: defaults, maxima and allowed values, inherited down the tree.

What must hold:
- The nearest default applies, the strictest maximum, and the values that all projects above allow.
- A job that omits a value gets one that the rules allow, so no job is refused for an omitted value.
- An error names the rule, its value and its project.

Pure functions of a pool; nothing here knows where jobs come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from scheduler.errors import Invalid
from scheduler.model import (
    ONE,
    Allowed,
    Defaults,
    Maxima,
    Milli,
    Pool,
    Program,
    Project,
    ProjectName,
    ProjectRules,
    Request,
)

EVERYBODY = "the pool"

OTHERWISE: dict[str, Any] = {
    "gpus": ONE,
    "cpus": 0.0,
    "memory_gib": 0.0,
    "priority": 50,
    "preemptible": True,
    "min_runtime": 0.0,
    "grace": 30.0,
    "retries": 0,
}
"""The values of a job without its own and without rules. Values that are missing here stay open."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule's value, and its project."""

    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules that apply to the jobs of one project, by the names of `Defaults`, `Maxima` and `Allowed`."""

    defaults: dict[str, Rule]
    maxima: dict[str, Rule]
    allowed: dict[str, Rule]

    def most(self, name: str) -> list[Rule]:
        """The maxima that bound `name`; a worker's GPUs are also among those of the whole job."""
        names = ("gpus", "total_gpus") if name == "gpus" else (name,)
        return [self.maxima[each] for each in names if each in self.maxima]

    def open(self, name: str) -> Any:
        """The default of `name`; `None`: it stays open."""
        if name in self.defaults:
            return self.defaults[name].value
        value = OTHERWISE.get(name)
        for most in self.most(name):
            value = most.value if value is None else min(value, most.value)
        if name in self.allowed and value not in self.allowed[name].value:
            choice = self.allowed[name].value
            value = choice[0] if name == "preemptible" else choice
        if name in ("cpus", "memory_gib"):
            return value or None  # as in a job that requests none
        return value

    def source_of(self, name: str) -> str:
        """The rule that gives a job its default of `name`, and its project."""
        said = {"defaults": self.defaults, "maxima": self.maxima, "allowed": self.allowed}
        part = next(part for part, rules in said.items() if name in rules)
        return f"{part}.{name} of {said[part][name].source}"


def rules_of(project: ProjectName, pool: Pool) -> Rules:
    """The rules for the jobs of a project."""
    defaults: dict[str, Rule] = {}
    maxima: dict[str, Rule] = {}
    allowed: dict[str, Rule] = {}
    for source, policy in _lineage(project, pool):
        for name, value in _given(policy.defaults):
            defaults.setdefault(name, Rule(value, source))
        for name, value in _given(policy.maxima):
            if name not in maxima or value < maxima[name].value:
                maxima[name] = Rule(value, source)
        for name, value in _given(policy.allowed):
            known = allowed.get(name)
            both = tuple(each for each in known.value if each in value) if known else value
            if known is None or both != known.value:
                allowed[name] = Rule(both, source)
    return Rules(defaults, maxima, allowed)


def check_job(request: Request, program: Program, pool: Pool) -> None:
    """Raises `Invalid` where a job asks for more than the rules of its project allow."""
    rules = rules_of(request.project, pool)
    shape = request.shape
    asked = {
        "gpus": None if shape.gpu_memory is not None else shape.gpus,
        "total_gpus": sum(ONE if each.gpu_memory is not None else each.gpus for each in request.shapes),
        "cpus": max((each.cpus or 0) for each in request.shapes) / ONE,
        "memory_gib": max((each.memory or 0) for each in request.shapes) / 1024,
        "workers": request.workers,
        "priority": request.priority,
        "min_runtime": request.min_runtime,
        "max_runtime": float("inf") if program.max_runtime is None else program.max_runtime,
        "idle_timeout": float("inf") if program.idle_timeout is None else program.idle_timeout,
        "grace": program.grace,
        "retries": program.retries,
    }
    for name, rule in rules.maxima.items():
        field = {"total_gpus": "workers" if request.workers > 1 else "gpus"}.get(name, name)
        _check_maximum(name, asked[name], rule, request.project, field)
    chosen = {
        "gpu_types": request.gpu_types,
        "node_pools": request.node_pools,
        "preemptible": (request.preemptible,),
    }
    for name, rule in rules.allowed.items():
        values = chosen[name]
        if values is None or any(value not in rule.value for value in values):
            wrong = next((value for value in values or () if value not in rule.value), None)
            raise Invalid(
                f"{_WORDS[name]} must be {_either(rule.value)} in project {request.project!r} "
                f"(allowed.{name} of {_forbids(request.project, pool, name, wrong)}), not "
                f"{'anything' if wrong is None else _shown(wrong)}.",
                field=name,
            )


def check_priority(project: ProjectName, priority: int, pool: Pool) -> None:
    """Raises `Invalid` where a job of a project may not have a priority."""
    rule = rules_of(project, pool).maxima.get("priority")
    if rule is not None:
        _check_maximum("priority", priority, rule, project, "priority")


def _check_maximum(name: str, value: float | None, rule: Rule, project: ProjectName, field: str) -> None:
    if value is not None and value > rule.value:
        raise Invalid(
            f"{_WORDS[name]} may be {_amount(name, rule.value)} at most in project {project!r} "
            f"(maxima.{name} of {rule.source}), not {_amount(name, value)}.",
            field=field,
        )


def _forbids(project: ProjectName, pool: Pool, name: str, value: Any) -> str:
    """The nearest rule that does not allow a value."""
    said = ((source, getattr(policy.allowed, name)) for source, policy in _lineage(project, pool))
    return next(source for source, allowed in said if allowed is not None and value not in allowed)


def check_pool(pool: Pool) -> None:
    """Raises `Invalid` where rules contradict each other, so that a job with default values would break one."""
    names = [
        (ProjectName(EVERYBODY), "policy"),
        *((p.name, f"projects[{n}].policy") for n, p in enumerate(pool.projects)),
    ]
    for name, place in names:
        rules = rules_of(name, pool)
        for key, rule in rules.allowed.items():
            if not rule.value:
                raise Invalid(
                    f"{place}.allowed.{key} leaves no value that all projects above {name!r} allow, too.",
                    field=f"{place}.allowed.{key}",
                )
        for key, default in rules.defaults.items():
            for most in rules.most(key):
                if default.value > most.value:
                    raise Invalid(
                        f"{place}: the default {key} is {_amount(key, default.value)} (defaults.{key} of "
                        f"{default.source}), and {most.source} allows {_amount(key, most.value)} at most (maxima).",
                        field=f"{place}.defaults.{key}",
                    )
            choice = rules.allowed.get(key)
            values = default.value if isinstance(default.value, tuple) else (default.value,)
            if choice is not None and any(value not in choice.value for value in values):
                raise Invalid(
                    f"{place}: the default {key} is {_either(values)} (defaults.{key} of {default.source}), and only "
                    f"{_either(choice.value)} is allowed (allowed.{key} of {choice.source}).",
                    field=f"{place}.defaults.{key}",
                )
    parents = {project.parent for project in pool.projects}
    for n, project in enumerate(pool.projects):
        if project.name not in parents:
            _check_silence(project, f"projects[{n}].policy", pool)


def _check_silence(project: Project, place: str, pool: Pool) -> None:
    """Raises `Invalid` where a job with default values could never get its GPUs."""
    rules = rules_of(project.name, pool)
    gpus = rules.open("gpus")
    by_name = {each.name: each for each in pool.projects}
    above: Project | None = project
    while above is not None:
        if "gpus" in rules.defaults and above.limit is not None and gpus > above.limit:
            raise Invalid(
                f"{place}: the default gpus is {_amount('gpus', gpus)} ({rules.source_of('gpus')}), and project "
                f"{above.name!r} "
                f"may hold {_amount('gpus', above.limit)} at most; lower one or raise the other.",
                field=f"{place}.defaults.gpus",
            )
        above = by_name.get(above.parent) if above.parent is not None else None
    promised = project.all_guaranteed
    if not rules.open("preemptible") and promised is not None and gpus > promised:
        source = rules.source_of("preemptible")
        raise Invalid(
            f"{place}: a job without options can't be preempted ({source}) and would never start: it asks for "
            f"{_amount('gpus', gpus)} GPUs, and project {project.name!r} is guaranteed {_amount('gpus', promised)}; "
            "raise the guarantee, or make its jobs preemptible.",
            field=f"{place}.{source.split()[0]}",
        )


def source_in_words(project: str) -> str:
    """How errors name the project that sets a rule; it is the `source` of its rules."""
    return f"project {project!r}"


def _lineage(project: ProjectName, pool: Pool) -> Iterator[tuple[str, ProjectRules]]:
    """The policies that apply to a project, the nearest first."""
    known = {each.name: each for each in pool.projects}
    name: ProjectName | None = project
    while name is not None and name in known:
        yield source_in_words(name), known[name].policy
        name = known[name].parent
    yield EVERYBODY, pool.policy


def _given(part: Defaults | Maxima | Allowed) -> Iterator[tuple[str, Any]]:
    for each in fields(part):
        if (value := getattr(part, each.name)) is not None:
            yield each.name, value


# -- words ------------------------------------------------------------------------------------------------------

_WORDS = {
    "gpus": "gpus: a worker's GPUs",
    "total_gpus": "A job's GPUs together",
    "cpus": "cpus: a worker's CPUs",
    "memory_gib": "memory_gib: a worker's memory",
    "workers": "workers",
    "priority": "priority",
    "min_runtime": "min_runtime",
    "max_runtime": "max_runtime",
    "idle_timeout": "idle_timeout",
    "grace": "grace",
    "retries": "retries",
    "gpu_types": "gpu_types",
    "node_pools": "node_pools",
    "preemptible": "preemptible",
}


def _amount(name: str, value: float | Milli) -> str:
    if value == float("inf"):
        return "unlimited"
    if name in ("gpus", "total_gpus"):
        return f"{value / ONE:g}"
    if name == "memory_gib":
        return f"{value:g} GiB"
    return f"{value:g} s" if name.endswith(("runtime", "timeout", "grace")) else f"{value:g}"


def _either(values: tuple[Any, ...]) -> str:
    return " or ".join(map(_shown, values))


def _shown(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
