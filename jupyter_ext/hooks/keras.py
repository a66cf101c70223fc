"""`model.fit(…, callbacks=[resume()])` resumes at the epoch at which an earlier attempt was stopped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import keras

from jupyter_ext import job


def resume() -> keras.callbacks.Callback:
    """Keras' own `BackupAndRestore` in the job's checkpoint folder, with reports; one that does nothing outside a job.

    When the scheduler asks to stop, the epoch ends after the batch at hand, counts as done, and `SystemExit` ends the
    worker.
    """
    folder = os.environ.get("RUNAI_CHECKPOINT_DIR")
    return keras.callbacks.Callback() if folder is None or job.id is None else _Resume(Path(folder) / "keras")


class _Resume(keras.callbacks.BackupAndRestore):
    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder), delete_checkpoint=False)
        job.should_stop()  # starts to listen for SIGTERM

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_train_batch_end(batch, logs)
        if job.should_stop():
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_epoch_end(epoch, logs)
        job.report(step=epoch, **(logs or {}))
        if job.should_stop():
            raise SystemExit(0)
