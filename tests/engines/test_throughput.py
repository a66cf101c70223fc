"""The steps per second of an attempt, from the job's file: of a real worker, and with any other content."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.engines.outputs import tail
from scheduler.engines.throughput import FILE, TAIL, steps_per_second
from tests.engines.workplace import Workplace, launch, python

REPORTS = python(
    "import json, os\n"
    "with open(os.environ['RUNAI_OUTPUT_DIR'] + '/metrics.jsonl', 'a') as file:\n"
    "    for step in range(5):\n"
    "        line = {'time': 1e9 + step / 4, 'attempt': 1, 'rank': 0, 'step': step * 10}\n"
    "        print(json.dumps(line), file=file)\n"
)


def written(*lines: object) -> bytes:
    return "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines).encode()


def point(time: object, step: object, attempt: object = 1, rank: object = 0) -> dict[str, object]:
    return {"time": time, "attempt": attempt, "rank": rank, "step": step}


async def test_a_workers_end_reports_its_throughput(here: Workplace) -> None:
    await here.engine.launch(launch("j", REPORTS))
    assert (await here.end("j")).throughput == 40


def test_only_the_attempts_own_first_worker_counts() -> None:
    others = [point(0.0, 0, attempt=1), point(1.0, 500, rank=1, attempt=2)]
    own = [point(10.0, 100, attempt=2), point(20.0, 150, attempt=2)]
    assert steps_per_second(written(*others, *own), 2) == 5


def test_a_restarted_step_counter_is_handled() -> None:
    assert steps_per_second(written(point(0.0, 0), point(1.0, 8), point(2.0, 0), point(4.0, 8)), 1) == 4


def test_the_end_of_a_long_file_is_enough(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(written(*(point(float(n), n) for n in range(20_000))))
    end = tail(tmp_path, FILE, TAIL)
    assert len(end) == TAIL
    assert steps_per_second(end, 1) == pytest.approx(1)


def test_no_throughput_without_reports() -> None:
    assert steps_per_second(b"", 1) is None
    assert steps_per_second(written(point(1.0, 5)), 1) is None
    assert steps_per_second(written(point(1.0, 5), point(1.0, 9)), 1) is None
    assert steps_per_second(written(point(1.0, 5), point(9.0, 5)), 1) is None


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(written(point(0.0, 0), point(1.0, 1)))
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    assert tail(tmp_path, FILE, TAIL) == b""


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.lists(st.builds(point, json_values, json_values) | json_values, max_size=8), st.binary(max_size=40))
def test_whatever_the_job_writes_it_is_a_pace_or_none(lines: list[object], rest: bytes) -> None:
    found = steps_per_second(written(*lines) + rest, 1)
    assert found is None or 0 < found < float("inf")
