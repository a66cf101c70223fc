"""`jupyter runai drain`, `undrain`, `node`: whether nodes take new work, and to which node pools they belong."""

from __future__ import annotations

import argparse

from scheduler.cli.apply import tell
from scheduler.cli.connect import connect
from scheduler.cli.text import clean


def drain(options: argparse.Namespace) -> int:
    with connect() as client:
        client.drain(options.node, options.reason)
    print(clean(f"Node {options.node} accepts no new work. Running work continues to its end."))
    return 0


def undrain(options: argparse.Namespace) -> int:
    with connect() as client:
        client.undrain(options.node)
    print(clean(f"Node {options.node} accepts work again."))
    return 0


def move(options: argparse.Namespace) -> int:
    with connect() as client:
        found = client.move_node(options.node, options.node_pool, preview=options.preview)
    tell(found, found.effects)
    return 0
