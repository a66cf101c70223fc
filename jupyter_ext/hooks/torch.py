"""`for epoch in resumable(100, model=model, optimizer=optimizer):` resumes where an earlier attempt was stopped."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist

from jupyter_ext import job

EVERY = 300.0
"""Seconds between two checkpoints, in addition to those before a stop."""

SAVE, STOP = 1, 2


def resumable(steps: int, *, every: float = EVERY, **parts: Any) -> Iterator[int]:
    """The remaining steps (or epochs) of `steps`; the state is saved between two of them when it is due.

    `parts` are objects with a `state_dict`: model, optimizer, learning rate schedule. With several workers rank 0
    saves, all restore, and all stop after the same step. Raises `SystemExit` when the scheduler has asked to stop.
    """
    done = _restore(parts)
    saved = time.monotonic()
    job.should_stop()  # starts to listen for SIGTERM
    for step in range(done, steps):
        yield step
        asked = agreed(STOP if job.should_stop() else SAVE if job.should_save() else 0)
        if asked or time.monotonic() - saved >= every:
            _save(step + 1, parts)
            saved = time.monotonic()
        if asked == STOP and step + 1 < steps:
            raise SystemExit(0)


def _restore(parts: dict[str, Any]) -> int:
    saved = job.restore()
    if saved is None:
        return 0
    state = torch.load(io.BytesIO(saved), map_location="cpu", weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(state["parts"][name])
    return int(state["done"])


def _save(done: int, parts: dict[str, Any]) -> None:
    if job.rank == 0 and (not dist.is_initialized() or dist.get_rank() == 0):
        data = io.BytesIO()
        torch.save({"done": done, "parts": {name: part.state_dict() for name, part in parts.items()}}, data)
        job.checkpoint(data.getvalue())
    if dist.is_initialized():
        dist.barrier()  # no worker ends while rank 0 is writing


def agreed(asked: int) -> int:
    """The most that any worker was asked for, `SAVE` or `STOP`: they notice at different steps, and must not wait for
    one that has ended."""
    if not dist.is_initialized():
        return asked
    told = torch.tensor(asked, device="cuda" if dist.get_backend() == "nccl" else "cpu")
    dist.all_reduce(told, op=dist.ReduceOp.MAX)
    return int(told.item())
