"""The history of a GPU: complete at falling resolution, bounded, and readable whatever a crash has left."""

from __future__ import annotations

import itertools
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.telemetry.history import BYTES_PER_GPU, HistoryFiles
from scheduler.telemetry.records import (
    DAY,
    LEVELS,
    SIZE,
    Mean,
    Span,
    level_for,
    packed,
    span_of,
    thinned,
    unpacked,
)
from scheduler.telemetry.sample import GpuSample, Throttle

NOW = 1_800_000_000
MONTH = 31 * DAY


def sample(utilisation: float = 0.5, **more: object) -> GpuSample:
    return GpuSample(utilisation, 1024, 81920, 250.0, 61, **more)  # type: ignore[arg-type]


def stored(files: Path) -> int:
    return sum(each.stat().st_size for each in files.rglob("*") if each.is_file())


def test_a_month_and_13_months_of_64_gpus_take_less_than_200_mb(tmp_path: Path) -> None:
    """A month in steps of ten minutes and its last days in the full resolution; then a round of every file is full."""
    files = HistoryFiles(tmp_path)
    busy = span_of(sample(), None, 0)
    month = range(NOW - MONTH, NOW, 600)
    for at in itertools.chain(month, range(NOW, NOW + 400 * DAY, 3 * DAY)):
        files.add("GPU-1", replace(busy, start=at))
    assert stored(tmp_path) <= BYTES_PER_GPU
    assert 64 * BYTES_PER_GPU <= 200_000_000
    for level in LEVELS:
        (file,) = tmp_path.glob(f"*/{level.step}s")
        for slot in (0, level.slots - 1):
            files.add("GPU-1", span_of(sample(), None, NOW // level.kept * level.kept + slot * level.step))
        assert file.stat().st_size == level.slots * SIZE


def test_the_resolution_falls_over_13_months() -> None:
    assert [(level.step, level.kept // DAY) for level in LEVELS] == [(10, 2), (60, 14), (600, 396)]
    assert level_for(NOW - 600, NOW, NOW, 500).step == 10
    assert level_for(NOW - DAY, NOW, NOW, 500).step == 60
    assert level_for(NOW - 13 * DAY, NOW, NOW, 5000).step == 60
    assert level_for(NOW - 390 * DAY, NOW - 389 * DAY, NOW, 5000).step == 600


def test_samples_are_added_up_and_read_back(tmp_path: Path) -> None:
    files = HistoryFiles(tmp_path)
    before = sample(corrected=3, uncorrected=0)
    for n in range(12):
        after = sample(n / 12, throttle=Throttle.POWER_CAP if n < 3 else Throttle.IDLE, corrected=3 + n, uncorrected=0)
        files.add("GPU-1", span_of(after, before, NOW + 5 * n))
        before = after
    found = files.read("GPU-1", NOW, NOW + 60, NOW + 60, 1)
    assert found.step == 60
    (minute,) = found.spans
    assert (minute.start, minute.samples, minute.corrected, minute.uncorrected) == (NOW, 12, 11, 0)
    assert (minute.utilisation.mean, minute.utilisation.most) == pytest.approx((5.5 / 12, 11 / 12), abs=0.005)
    assert (minute.used.mean, minute.power.mean, minute.temperature.most) == (1024, 250, 61)
    assert minute.slowed.mean == 0.25
    assert minute.reasons == Throttle.POWER_CAP
    fine = files.read("GPU-1", NOW, NOW + 60, NOW + 60, 100)
    assert (fine.step, [span.samples for span in fine.spans]) == (10, [2] * 6)


def test_a_scheduler_that_starts_again_continues_a_record(tmp_path: Path) -> None:
    HistoryFiles(tmp_path).add("GPU-1", span_of(sample(1.0), None, NOW))
    again = HistoryFiles(tmp_path)
    again.add("GPU-1", span_of(sample(0.0), None, NOW + 5))
    (span,) = again.read("GPU-1", NOW, NOW + 9, NOW + 9, 10).spans
    assert (span.samples, span.utilisation.mean) == (2, 0.5)


def test_a_torn_record_counts_as_not_measured_and_its_neighbours_are_read(tmp_path: Path) -> None:
    files = HistoryFiles(tmp_path)
    for n in range(3):
        files.add("GPU-1", span_of(sample(), None, NOW + 10 * n))
    (file,) = tmp_path.glob("*/10s")
    slot = (NOW // 10 + 1) % LEVELS[0].slots
    with file.open("r+b") as damaged:
        damaged.seek(slot * SIZE + 7)
        damaged.write(b"\xff\x00\xff")
    starts = [span.start for span in files.read("GPU-1", NOW, NOW + 29, NOW + 29, 100).spans]
    assert starts == [NOW, NOW + 20]
    os.truncate(file, (slot + 1) * SIZE + 5)
    assert [span.start for span in files.read("GPU-1", NOW, NOW + 29, NOW + 29, 100).spans] == [NOW]
    files.add("GPU-1", span_of(sample(), None, NOW + 10))
    assert len(files.read("GPU-1", NOW, NOW + 29, NOW + 29, 100).spans) == 2


def test_a_round_later_the_slot_has_another_record(tmp_path: Path) -> None:
    files = HistoryFiles(tmp_path)
    files.add("GPU-1", span_of(sample(), None, NOW))
    later = NOW + LEVELS[0].kept
    assert files.read("GPU-1", later - 5, later + 5, later + 5, 100).spans == ()
    assert len(files.read("GPU-1", NOW, later, later, 100).spans) == 1, "the minutes are kept longer"


def test_a_state_folder_of_an_older_release_has_no_history(tmp_path: Path) -> None:
    files = HistoryFiles(tmp_path / "telemetry")
    files.discard_old(NOW)
    assert files.read("GPU-1", NOW - DAY, NOW, NOW, 100).spans == ()


def test_the_history_of_a_gpu_that_is_gone_is_deleted_after_13_months(tmp_path: Path) -> None:
    files = HistoryFiles(tmp_path)
    for device in ("GPU-1", "../GPU-2"):
        files.add(device, span_of(sample(), None, NOW))
    assert len(list(tmp_path.iterdir())) == 2
    for file in tmp_path.glob("*-1/*"):
        os.utime(file, (NOW - 400 * DAY, NOW - 400 * DAY))
    for file in tmp_path.glob("*2/*"):
        os.utime(file, (NOW, NOW))
    files.discard_old(NOW)
    assert len(list(tmp_path.iterdir())) == 1


values = st.none() | st.floats(0, 1)
samples = st.builds(
    GpuSample,
    utilisation=values,
    used=st.none() | st.integers(0, 2**20),
    power=st.none() | st.floats(0, 1500),
    temperature=st.none() | st.integers(0, 120),
    throttle=st.none() | st.sampled_from(Throttle),
    corrected=st.none() | st.integers(0, 1000),
    uncorrected=st.none() | st.integers(0, 1000),
    xids=st.lists(st.integers(1, 200), max_size=3).map(tuple),
)


@given(st.lists(samples, min_size=1, max_size=8))
def test_a_record_is_read_as_it_was_written_to_its_precision(many: list[GpuSample]) -> None:
    span = Span(NOW)
    for before, each in zip([None, *many], many, strict=False):
        span += span_of(each, before, NOW)
    found = unpacked(packed(span), NOW)
    assert found is not None
    assert (found.samples, found.corrected, found.uncorrected) == (span.samples, span.corrected, span.uncorrected)
    assert (found.xid, found.reasons) == (span.xid, span.reasons)
    for name, precision in (("utilisation", 0.003), ("used", 0.5), ("power", 0.06), ("temperature", 0.5)):
        one, other = getattr(found, name), getattr(span, name)
        assert bool(one.count) is bool(other.count), "what was not measured stays unknown"
        assert one.mean == pytest.approx(other.mean, abs=precision)
    assert unpacked(packed(span), NOW + 10) is None


@given(st.integers(0, 2**30), st.integers(1, 50))
def test_fewer_points_have_the_same_samples(seed: int, step: int) -> None:
    chance = random.Random(seed)
    spans = [Span(NOW + 10 * n, 1, utilisation=Mean(1, value := chance.random(), value)) for n in range(100)]
    found = thinned(spans, NOW, 10 * step)
    assert sum(span.samples for span in found) == 100
    assert len(found) == -(-100 // step)
    total = sum(span.utilisation.mean * span.samples for span in found)
    assert total == pytest.approx(sum(span.utilisation.mean for span in spans))
