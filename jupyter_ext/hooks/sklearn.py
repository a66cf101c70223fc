"""`model = partial_fit(SGDClassifier(), batches, classes=range(10))` resumes at the batch at which it was stopped."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import islice
from typing import Any, TypeVar

from jupyter_ext import job

EVERY = 60.0
"""Seconds between two checkpoints, in addition to those before a stop."""

Model = TypeVar("Model")


def partial_fit(
    model: Model,
    batches: Iterable[tuple[Any, Any]],
    *,
    test: tuple[Any, Any] | None = None,
    every: float = EVERY,
    **options: Any,
) -> Model:
    """`model.partial_fit(x, y, **options)` for each of `batches`, the same and in the same order in every attempt.

    Returns the model; where an earlier attempt has saved one, it is trained further. With `test` its score is reported
    after each batch. Raises `SystemExit` when the scheduler has asked to stop.
    """
    any_model: Any
    any_model, done = job.restore(default=(model, 0))
    saved = time.monotonic()
    job.should_stop()  # starts to listen for SIGTERM
    for number, (x, y) in enumerate(islice(batches, done, None), start=done):
        any_model.partial_fit(x, y, **options)
        if test is not None:
            job.report(step=number, score=any_model.score(*test))
        stop = job.should_stop()
        if stop or job.should_save() or time.monotonic() - saved >= every:
            job.checkpoint((any_model, number + 1))
            saved = time.monotonic()
        if stop:
            raise SystemExit(0)
    trained: Model = any_model
    return trained
