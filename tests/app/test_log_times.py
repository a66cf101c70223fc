"""`jupyter runai logs --timestamps` says when each line was written, of every attempt, also while it is followed."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest

from scheduler.cli.logs import LineTimes, stamped
from scheduler.schema import JobSubmit
from tests.app.conftest import until

if TYPE_CHECKING:
    from tests.app.conftest import Service

SAYS = 'echo "first of $RUNAI_ATTEMPT"; while [ ! -e {gate} ]; do sleep 0.05; done; printf last; [ $RUNAI_ATTEMPT = 2 ]'


def read(printed: str) -> list[tuple[float, str]]:
    """The times and texts of the lines."""
    lines = [line.partition(" ") for line in printed.splitlines()]
    return [(datetime.fromisoformat(at).timestamp(), text) for at, _, text in lines]


def test_each_line_has_the_time_at_which_it_was_written(service: Service, tmp_path: Path) -> None:
    service.start()
    gate = tmp_path / "gate"
    with service.client() as client:
        began = int(time.time())
        job = client.submit(JobSubmit(command=["sh", "-c", SAYS.format(gate=gate)], gpus=0, retries=1)).id
        until(lambda: client.log_times(job).times)
        opened = time.time()
        gate.touch()
        until(lambda: client.job(job).state == "succeeded")
        ended = time.time()
    (first, said), (last, text) = read(service.cli("logs", "--timestamps", "--attempt", "1", job).stdout)
    assert (said, text) == ("first of 1", "last")
    assert began <= first <= opened
    assert int(opened) <= last <= ended
    followed = service.cli("logs", "-f", "--timestamps", job).stdout
    assert [text for _, text in read(followed)] == ["first of 2", "last"]
    assert [text for _, text in read(service.cli("logs", "--timestamps", job).stdout)] == ["first of 2", "last"]


@pytest.mark.parametrize("size", range(1, 12))
def test_lines_are_stamped_however_they_arrive(size: int) -> None:
    text = b"one\n\ntwo"
    at = datetime(2026, 3, 1, 14, 10, 5, tzinfo=UTC).timestamp()
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    lengths = [(4, at), (5, at + 1), (8, at + 60)]
    found = b"".join(stamped(pieces, LineTimes(lambda offset: [each for each in lengths if each[0] > offset][:2])))
    assert found == b"2026-03-01T14:10:05Z one\n2026-03-01T14:10:06Z \n2026-03-01T14:11:05Z two"


def test_a_log_without_times_is_printed_as_it_is() -> None:
    read = Mock(return_value=[])
    assert b"".join(stamped([b"one\ntwo\n", b"three"], LineTimes(read))) == b"one\ntwo\nthree"
    read.assert_called_once_with(0)


def test_lines_after_the_last_known_time_of_an_ended_log_have_none() -> None:
    times = LineTimes(lambda offset: [(4, 0.0)] if offset < 4 else [])
    assert b"".join(stamped([b"one\ntwo\n"], times)) == b"1970-01-01T00:00:00Z one\ntwo\n"


def test_a_line_that_has_just_come_was_written_now() -> None:
    before = int(time.time())
    (line,) = stamped([b"one\n"], LineTimes(lambda offset: [], live=True))
    ((at, text),) = read(line.decode())
    assert text == "one"
    assert before <= at <= time.time()
