"""Run the benchmarks in this folder and print one table: `make bench`, or with names, `run.py latency startup`.

A benchmark is a script. It prints each figure as a JSON object on one line, `{"figure": …, "value": …, "unit": …}`, and
messages to standard error. `expectations.yaml` has the expected values: `most` (less is better) or `least` (more is).
The table gives the ratio to them; nothing fails, since a loaded machine is no bug.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from scheduler.cli.text import Screen

HERE = Path(__file__).parent


def main(names: Sequence[str]) -> int:
    scripts = [HERE / f"{name}.py" for name in names] or sorted(HERE.glob("*.py"))
    expectations = yaml.safe_load((HERE / "expectations.yaml").read_text("utf-8"))
    rows, status = [], 0
    for script in scripts:
        if script == Path(__file__):
            continue
        print(f"{script.stem} …", file=sys.stderr, flush=True)
        done = subprocess.run([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, check=False)
        status |= done.returncode
        found = list(figures(done.stdout))
        rows += [row(script.stem, figure, expectations.get(figure["figure"], {})) for figure in found]
        if done.returncode or not found:
            rows.append((script.stem, "did not give a figure", "", "", "", f"status {done.returncode}"))
    Screen().table(["BENCHMARK", "FIGURE", "VALUE", "UNIT", "EXPECTED", "RATIO"], rows, right=["VALUE", "RATIO"])
    return status


def figures(output: str) -> Iterator[dict[str, Any]]:
    for line in output.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def row(benchmark: str, figure: Mapping[str, Any], expected: Mapping[str, float]) -> tuple[str, ...]:
    """A line of the table, with the ratio of the figure to its expectation."""
    bound = expected.get("most", expected.get("least"))
    value = figure["value"]
    kept = bound is None or (value <= bound if "most" in expected else value >= bound)
    return (
        benchmark,
        figure["figure"],
        f"{value:,.4g}" if value < 1000 else f"{value:,.0f}",
        figure["unit"],
        "" if bound is None else f"{'≤' if 'most' in expected else '≥'} {bound:,g}",
        "" if bound is None else f"{value / bound:.2f}{'' if kept else '  missed'}",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
