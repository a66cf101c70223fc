"""Decides which GPUs fail. Pure: a GPU's health before and a sample in, its health after out.

What must hold:
- A GPU fails while it does not respond, while the driver asks for its reset, and while it counts uncorrectable memory
  errors, which a reset sets to zero.
- After an error that points to the hardware (`XIDS`) it fails for `QUIET` seconds without another one.
- Errors of programs, such as an access to a wrong address (Xid 13, 31, 43), never make a GPU fail.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.telemetry.sample import GpuSample

QUIET = 3600.0
"""For how many seconds after an error of the hardware a GPU must report no other to get work again."""

XIDS = {
    48: "uncorrectable memory error",
    62: "internal micro-controller halt",
    64: "memory could not be repaired",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    95: "uncontained memory error",
    119: "GPU system processor does not answer",
    120: "GPU system processor error",
    140: "unrecovered memory error",
}
"""Errors of the hardware or firmware, for which NVIDIA's Xid catalogue advises a reset, a reboot or a diagnosis:
https://docs.nvidia.com/deploy/xid-errors/."""


@dataclass(frozen=True, slots=True)
class Health:
    """`xid` is the last error of the hardware, at the instant `at`; `failure` says why the GPU fails, if it does."""

    xid: int | None = None
    at: float = 0.0
    failure: str | None = None


def judged(before: Health, sample: GpuSample | None, now: float) -> Health:
    """The health of a GPU after a sample at `now` (`None`: the GPU did not respond)."""
    xid, at = before.xid, before.at
    for each in () if sample is None else sample.xids:
        if each in XIDS:
            xid, at = each, now
    if xid is not None and now - at >= QUIET:
        xid = None
    return Health(xid, at, _failure(sample, xid))


def _failure(sample: GpuSample | None, xid: int | None) -> str | None:
    if sample is None:
        return "The GPU does not respond."
    if sample.uncorrected:
        errors = (
            "1 uncorrectable memory error"
            if sample.uncorrected == 1
            else (f"{sample.uncorrected} uncorrectable memory errors")
        )
        return f"{errors} since the last reset of the GPU."
    if sample.reset_required:
        return "The driver asks for a reset of the GPU."
    return None if xid is None else f"Xid {xid}: {XIDS[xid]}."
