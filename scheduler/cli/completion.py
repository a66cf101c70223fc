"""Tab completion in a shell, with argcomplete: commands and options from the parser, and values from the same source as
in the magic.

What must hold: a key press never waits long, starts no scheduler and prints nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection
from typing import Any

from scheduler.submission.arguments import Completer
from scheduler.submission.offers import offers
from scheduler.submission.options import Option


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer a completion request of the shell and exit; otherwise do nothing."""
    import argcomplete

    argcomplete.autocomplete(parser, always_complete_options="long", exclude=["--help"])


def completer(option: Option) -> Completer:
    """The completer for the value of an option; of a list it completes the last name."""

    def values(prefix: str, **_: Any) -> Collection[str]:
        from scheduler.client.quick import ask

        before = prefix[: prefix.rindex(",") + 1] if "," in prefix and option.kind.gathers else ""
        try:
            return [f"{before}{value}" for value in offers(option, ask) or ()]
        except Exception:
            return []

    return values
