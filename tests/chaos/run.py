"""Run the long forms of the chaos tests one after the other and print a table of their figures: `make chaos`.

With names, only those: `python -m tests.chaos.run random_kills`. A test that takes longer than `BOUND` fails.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from scheduler.cli.text import Screen

BOUND = 1800
"""The time limit of a test file, in seconds."""

ROOT = Path(__file__).parents[2]
FORMS = [
    *sorted(Path(__file__).parent.glob("test_*.py")),
    ROOT / "tests/app/test_exhaustion.py",
    ROOT / "tests/engines/test_damage.py",
    ROOT / "tests/kubernetes/test_cluster_chaos.py",
]


def main(names: Sequence[str]) -> int:
    rows, status = [], 0
    for form in FORMS:
        name = form.stem.removeprefix("test_")
        if names and name not in names:
            continue
        print(f"{name} …", file=sys.stderr, flush=True)
        code, output = run(form)
        found = [(name, str(figure["figure"]), f"{figure['value']:,}") for figure in figures(output)]
        found.append((name, "passed" if code == 0 else "FAILED", output.strip().rpartition("\n")[2]))
        print(*("  ".join(row[1:]) for row in found), sep="\n", file=sys.stderr, flush=True)
        rows += found
        if code:
            print(output, file=sys.stderr)
        status |= code
    Screen().table(["FORM", "FIGURE", "VALUE"], rows)
    return status


def run(form: Path) -> tuple[int, str]:
    """The exit status and the output of pytest."""
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(form)]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "RUNAI_CHAOS": os.environ.get("RUNAI_CHAOS", "1")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BOUND,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        said = expired.stdout or b""
        return 1, f"{said.decode(errors='replace')}\nIt took longer than {BOUND} s."
    return done.returncode, done.stdout


def figures(output: str) -> list[dict[str, object]]:
    return [json.loads(found) for found in re.findall(r'\{"figure": .*\}', output)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
