"""What Tab offers on the line of a magic: its options, and by value what the pool, the templates and the notebook have.

What must hold: a key press never waits long, starts nothing and raises nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)

from jupyter_ext import options

SOON = 1.0
"""Seconds that the scheduler has for an answer."""


MAGICS = ("%runai_train", "%%runai_train")


def register(shell: Any) -> None:
    """Offer completions for both forms of the magic."""

    @context_matcher()  # type: ignore[untyped-decorator]
    def runai_train(context: CompletionContext) -> SimpleMatcherResult:
        line = context.text_until_cursor
        found = offers(line, shell.user_ns) if line.lstrip().startswith(MAGICS) else None
        if found is None:
            return {"completions": [], "suppress": False}
        fitting = [SimpleCompletion(text=word) for word in found if word.startswith(context.token)]
        return {"completions": fitting, "suppress": True}

    shell.Completer.custom_matchers.append(runai_train)


def offers(line: str, namespace: Mapping[str, Any]) -> Collection[str] | None:
    """What may stand at the end of a magic's line; `None`: whatever IPython offers itself, such as files."""
    words = line.split()[1:]
    current = "" if line[-1:].isspace() else words.pop() if words else ""
    if "--" in words:
        return None
    known = {name: action for action in options.parser()._actions for name in action.option_strings}
    if current.startswith("--") and "=" in current:
        return _values(known.get(current.partition("=")[0]), namespace)
    if current.startswith("-"):
        return [name for name, action in known.items() if name not in words or _repeatable(action)]
    action = known.get(words[-1]) if words else None
    return None if action is None or action.nargs == 0 else _values(action, namespace)


def _repeatable(action: argparse.Action) -> bool:
    return isinstance(action, argparse._AppendAction)


def _values(action: argparse.Action | None, namespace: Mapping[str, Any]) -> Collection[str] | None:
    if action is None:
        return None
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    offer = _OFFERS.get(action.dest)
    if offer is None:
        return None
    try:
        return list(offer(namespace))
    except Exception:
        return []


def _ask(call: Callable[[Any], Any]) -> Any:
    """Ask a scheduler that runs; one is not started for it."""
    import httpx

    from scheduler.client import find
    from scheduler.client.wire import options as connection

    with httpx.Client(**{**connection(find()), "timeout": SOON}) as client:
        return call(client)


def _projects(namespace: Mapping[str, Any]) -> Iterable[str]:
    return list(_ask(lambda client: client.get("me").json()["projects"]))


def _gpu_types(namespace: Mapping[str, Any]) -> Iterable[str]:
    nodes = _ask(lambda client: client.get("pool").json()["nodes"])
    return sorted({node["gpu_type"] for node in nodes if node["gpu_type"]})


def _jobs(namespace: Mapping[str, Any]) -> Iterable[str]:
    jobs = _ask(lambda client: client.get("jobs", params={"mine": "true", "limit": 50}).json()["jobs"])
    return dict.fromkeys(name for job in jobs for name in (job["array"], job["id"]) if name)


def _templates(namespace: Mapping[str, Any]) -> Iterable[str]:
    from scheduler.submission.jobfile import templates

    return templates()


def _variables(namespace: Mapping[str, Any]) -> Iterable[str]:
    return [name for name in namespace if not name.startswith("_")]


_OFFERS: Mapping[str, Callable[[Mapping[str, Any]], Iterable[str]]] = {
    "project": _projects,
    "gpu_type": _gpu_types,
    "after": _jobs,
    "template": _templates,
    "save_template": _templates,
    "out": _variables,
    "takes": _variables,
}
