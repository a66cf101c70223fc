"""`train(trainer)` instead of `trainer.train()` resumes from the last checkpoint of an earlier attempt."""

from __future__ import annotations

import os
from typing import Any

from transformers import Trainer, TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from jupyter_ext import job


def train(trainer: Trainer) -> Any:
    """Returns the result of `trainer.train()`. In a job its checkpoints are stored in the job's folder, where the next
    attempt finds them.

    When the scheduler asks to stop, it saves after the current step, and `SystemExit` ends the worker. One that trains
    alone also saves when it is asked to save and keep running; several would have to agree on the step.
    """
    folder = os.environ.get("RUNAI_CHECKPOINT_DIR")
    if folder is None or job.id is None:
        return trainer.train()
    trainer.args.output_dir = folder
    trainer.add_callback(_Reports)
    job.should_stop()  # starts to listen for SIGTERM
    result = trainer.train(resume_from_checkpoint=get_last_checkpoint(folder))
    if job.should_stop() and trainer.state.global_step < trainer.state.max_steps:
        raise SystemExit(0)
    return result


class _Reports(TrainerCallback):
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if job.should_stop():
            control.should_save = control.should_training_stop = True
        elif job.world_size == 1 and job.should_save():
            control.should_save = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        numbers: dict[str, Any] = {
            name: value for name, value in (logs or {}).items() if isinstance(value, int | float)
        }
        if state.is_world_process_zero:
            job.report(step=state.global_step, **numbers)
