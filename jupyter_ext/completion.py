"""Tab completion on the line of a magic: its options, and for values those of the pool, the templates and the notebook.
Also of the names and ids of jobs in `Job("…`.

What must hold: a key press never waits long, starts no scheduler and raises nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)

from scheduler.submission.offers import offers
from scheduler.submission.options import BY_NAME, Interface, Option, of
from scheduler.submission.values import SWITCH

MAGICS = ("%runai_train", "%%runai_train")

_NAMING = re.compile(r"""\b(\w+)\(\s*["'][^"']*$""")
"""The end of a line in the first argument of a call, which is a text."""


def register(shell: Any) -> None:
    """Offer completions for both forms of the magic."""

    @context_matcher()  # type: ignore[untyped-decorator]
    def runai_train(context: CompletionContext) -> SimpleMatcherResult:
        line = context.text_until_cursor
        of_line = completions if line.lstrip().startswith(MAGICS) else names
        found = of_line(line, shell.user_ns)
        if found is None:
            return {"completions": [], "suppress": False}
        fitting = [SimpleCompletion(text=word) for word in found if word.startswith(context.token)]
        return {"completions": fitting, "suppress": True}

    shell.Completer.custom_matchers.append(runai_train)


def completions(line: str, namespace: Mapping[str, Any]) -> Collection[str] | None:
    """The completions at the end of a magic's line; `None`: IPython's own, such as files."""
    words = line.split()[1:]
    current = "" if line[-1:].isspace() else words.pop() if words else ""
    if "--" in words:
        return None
    known = {flag: option for option in of(Interface.MAGIC) for flag in option.flags}
    if current.startswith("--") and "=" in current:
        return _values(known.get(current.partition("=")[0]), namespace)
    if current.startswith("-"):
        return [flag for flag, option in known.items() if flag not in words or option.kind.gathers]
    option = known.get(words[-1]) if words else None
    return None if option is None or option.kind is SWITCH else _values(option, namespace)


def names(line: str, namespace: Mapping[str, Any]) -> Collection[str] | None:
    """The jobs that a line may name at its end: in `Job("…`, `Sweep("…` and `Search("…`, if these are ours."""
    called = _NAMING.search(line)
    module = getattr(namespace.get(called[1]), "__module__", None) if called else None
    return _values(BY_NAME["after"], namespace) if str(module).startswith("jupyter_ext.") else None


def _values(option: Option | None, namespace: Mapping[str, Any]) -> Collection[str] | None:
    from scheduler.client.quick import ask

    try:
        return None if option is None else offers(option, ask, namespace)
    except Exception:
        return []
