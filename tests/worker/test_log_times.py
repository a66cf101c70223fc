"""When a log had which length: times never decrease, every line has one, and the file stays small."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory

import hypothesis.strategies as st
from hypothesis import given

from scheduler.worker.logtimes import LogTimesFile, times_of

looks = st.lists(st.tuples(st.integers(0, 50), st.floats(-1, 100)), max_size=30)
"""By how many bytes the log has grown, and how many seconds have passed."""


@given(looks)
def test_every_byte_has_a_time_at_which_it_was_there(steps: list[tuple[int, float]]) -> None:
    size, now, had = 0, 1000.0, dict[int, float]()
    with TemporaryDirectory() as folder:
        times = LogTimesFile(f"{folder}/log.times")
        for grown, seconds in steps:
            size, now = size + grown, now + seconds
            times.look(size, now)
            had.setdefault(size, now)
        times.look(size, now, last=True)
        path = Path(folder) / "log.times"
        found = times_of(path.read_bytes() if size else b"")
    assert all(one[0] < other[0] and one[1] <= other[1] for one, other in pairwise(found))
    assert (found[-1][0] if found else 0) == size
    assert {length for length, _ in found} <= had.keys()


def test_a_line_is_at_most_a_second_late(tmp_path: Path) -> None:
    times = LogTimesFile(str(tmp_path / "times"))
    for tick in range(100):
        times.look(10 * (tick // 8), 1000 + tick / 4)
    times.look(120, 1030.0, last=True)
    found = times_of((tmp_path / "times").read_bytes())
    for line in range(1, 13):
        written = 1000 + 2 * line
        assert written <= found[bisect_left(found, 10 * line, key=itemgetter(0))][1] <= written + 1


def test_a_clock_that_is_set_back_delays_nothing(tmp_path: Path) -> None:
    times = LogTimesFile(str(tmp_path / "times"))
    for size, now in ((1, 5000.0), (2, 1000.0), (3, 1002.0)):
        times.look(size, now)
    assert times_of((tmp_path / "times").read_bytes()) == [(1, 5000.0), (2, 5000.0), (3, 5000.0)]


def test_the_file_of_a_month_is_small(tmp_path: Path) -> None:
    path = tmp_path / "times"
    times = LogTimesFile(str(path))
    for second in range(0, 30 * 86_400, 5):
        times.look(second + 1, 1.7e9 + second)
    assert path.stat().st_size < 4 * 2**20


def test_what_a_crash_cut_off_is_left_out() -> None:
    assert times_of(b"5 10.000\n9 11.500\n1") == [(5, 10.0), (9, 11.5)]
    assert times_of(b"5 10.0\n\xff\n9 9.0\n", (12, 8.0), (12, 20.0)) == [(5, 10.0), (9, 10.0), (12, 10.0)]
