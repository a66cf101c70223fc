"""`jupyter runai plan`: what the policy decides for a pool that is described in a file. No scheduler is involved."""

from __future__ import annotations

import argparse

from scheduler.scenario import run_plan


def run(options: argparse.Namespace) -> int:
    return run_plan(options.file, lines=options.lines, cycles=options.cycles, timing=options.timing)
