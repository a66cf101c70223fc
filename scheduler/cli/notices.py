"""`jupyter runai notices`: being told of one's jobs by e-mail or webhook."""

from __future__ import annotations

import argparse
import getpass
import sys
from typing import TYPE_CHECKING

from scheduler.cli.connect import connect
from scheduler.cli.text import Screen, clean, took

if TYPE_CHECKING:
    from scheduler.schema import NoticesView


def show(options: argparse.Namespace) -> int:
    with connect() as client:
        found = client.notices()
    if options.output:
        from scheduler.cli.formats import emit

        emit(found, options.output)
    else:
        _print(found)
    return 0


def choose(options: argparse.Namespace) -> int:
    from scheduler.schema import NoticesChoice

    given = {"events": options.events, "shortest_success": options.shortest_success}
    with connect() as client:
        before = client.notices()
        kept = {"events": before.events, "shortest_success": before.shortest_success}
        same = before.channel.value == options.channel != "none"
        address = "" if options.channel == "none" else options.address or _ask(options.channel, before.address * same)
        changed = {name: value for name, value in given.items() if value is not None}
        choice = {"channel": options.channel, "address": address or None, **kept, **changed}
        _print(client.choose_notices(NoticesChoice.model_validate(choice)))
    return 0


def test(options: argparse.Namespace) -> int:
    with connect() as client:
        tested = client.test_notices()
    print(clean(tested.message), file=sys.stdout if tested.delivered else sys.stderr)
    return 0 if tested.delivered else 1


def _ask(channel: str, saved: str) -> str:
    """The address from the terminal or a pipe: the URL of a webhook is a secret, and belongs in no history."""
    keep = f" (Enter keeps {clean(saved)})" if saved else ""
    if channel == "email":
        return input(f"E-mail address{keep}: ").strip()
    return (getpass.getpass(f"URL of the webhook{keep}: ") if sys.stdin.isatty() else sys.stdin.readline()).strip()


def _print(found: NoticesView) -> None:
    screen = Screen()
    if found.channel.value == "none":
        screen.line("You are told of nothing outside the browser; `jupyter runai notices set` changes that.")
        return
    screen.line(f"Channel:  {found.channel.value}")
    screen.line(f"Address:  {found.address}")
    screen.line(f"Events:   {', '.join(event.value for event in found.events) or 'none'}")
    screen.line(f"Successes that took at least {took(found.shortest_success)}")
    if found.waiting:
        screen.line(f"Waiting:  {found.waiting}")
    if found.problem:
        screen.line(f"Problem:  {found.problem}")
