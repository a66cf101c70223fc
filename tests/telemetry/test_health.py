"""Which GPUs fail, and when they work again."""

from __future__ import annotations

import pytest

from scheduler.telemetry.health import QUIET, XIDS, Health, judged
from scheduler.telemetry.sample import GpuSample

WELL = GpuSample(utilisation=0.5, corrected=7, uncorrected=0)


def test_a_gpu_with_uncorrectable_errors_fails_until_they_are_reset() -> None:
    failing = judged(Health(), GpuSample(uncorrected=2), 100)
    assert failing.failure == "2 uncorrectable memory errors since the last reset of the GPU."
    assert judged(failing, WELL, 101).failure is None


def test_a_gpu_that_does_not_respond_fails_until_it_does() -> None:
    failing = judged(Health(), None, 100)
    assert failing.failure == "The GPU does not respond."
    assert judged(failing, WELL, 101).failure is None


def test_a_gpu_fails_while_the_driver_asks_for_its_reset() -> None:
    failing = judged(Health(), GpuSample(reset_required=True), 100)
    assert failing.failure == "The driver asks for a reset of the GPU."
    assert judged(failing, WELL, 101).failure is None


@pytest.mark.parametrize("xid", XIDS)
def test_an_error_of_the_hardware_takes_a_gpu_out_until_an_hour_without_another(xid: int) -> None:
    failing = judged(Health(), GpuSample(xids=(31, xid, 43)), 100)
    assert failing.failure == f"Xid {xid}: {XIDS[xid]}."
    assert judged(failing, WELL, 99 + QUIET).failure == failing.failure
    again = judged(failing, GpuSample(xids=(xid,)), 99 + QUIET)
    assert judged(again, WELL, 101 + QUIET).failure == failing.failure
    assert judged(failing, WELL, 100 + QUIET).failure is None


@pytest.mark.parametrize("xid", [13, 31, 43, 45])
def test_errors_of_programs_do_not_make_a_gpu_fail(xid: int) -> None:
    assert judged(Health(), GpuSample(xids=(xid,)), 100) == Health()
