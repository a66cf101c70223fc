"""Tab in a shell, by argcomplete: commands and options from the parser, and values from where the magic's come from.

What must hold: a key press never waits long, starts nothing and says nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection
from typing import Any

from scheduler.submission.arguments import Completer
from scheduler.submission.offers import offers
from scheduler.submission.options import Option


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell that asks, and end; where no shell asks, do nothing."""
    import argcomplete

    argcomplete.autocomplete(parser, always_complete_options="long", exclude=["--help"])


def completer(option: Option) -> Completer:
    """What completes the value of an option: the last name, where it is a list."""

    def values(prefix: str, **_: Any) -> Collection[str]:
        from scheduler.client.quick import ask

        before = prefix[: prefix.rindex(",") + 1] if "," in prefix and option.kind.gathers else ""
        try:
            return [f"{before}{value}" for value in offers(option, ask) or ()]
        except Exception:
            return []

    return values
