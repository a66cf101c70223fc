"""Training loops that are stopped and resume at the same step, with the real frameworks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.model import Framework, JobState
from tests.frameworks.conftest import ROOT, Sender, eventually

STOP = """
import os, signal
def stop_at(step):
    print("step", step, flush=True)
    if os.environ.get("RUNAI_ATTEMPT") == "1" and step == 2:
        os.kill(os.getpid(), signal.SIGTERM)
"""

TORCH = """
import torch
from jupyter_ext import job
from jupyter_ext.hooks.torch import resumable
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for step in resumable(5, model=model, optimizer=optimizer):
    loss = (model(torch.ones(1, 4)) - 3).square().sum()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    job.report(step=step, loss=loss)
    stop_at(step)
print("ended", round(float(model(torch.ones(1, 4)).item()), 4))
"""

KERAS = """
import keras, numpy as np
from jupyter_ext.hooks.keras import resume
class Stop(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        stop_at(epoch)
keras.utils.set_random_seed(0)
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.01), "mse")
x = np.ones((8, 4), "float32")
model.fit(x, x.sum(1), batch_size=8, epochs=5, verbose=0, callbacks=[resume(), Stop()])
print("ended", round(float(model.predict(x, verbose=0)[0, 0]), 4))
"""

TRANSFORMERS = """
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments
from jupyter_ext.hooks.transformers import train
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(4, 1)
    def forward(self, x, labels):
        predicted = self.line(x)
        return {"loss": (predicted - labels).square().mean(), "logits": predicted}
class Stop(TrainerCallback):
    def on_step_begin(self, args, state, control, **_):
        stop_at(state.global_step)
torch.manual_seed(0)
data = [{"x": torch.ones(4), "labels": torch.tensor([3.0])} for _ in range(5)]
args = TrainingArguments(output_dir="here", per_device_train_batch_size=1, num_train_epochs=1, logging_steps=1,
                         learning_rate=0.1, report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="no")
model = Model()
train(Trainer(model, args, train_dataset=data, callbacks=[Stop]))
print("ended", round(model.line(torch.ones(4)).item(), 4))
"""

SKLEARN = """
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from jupyter_ext.hooks.sklearn import partial_fit
x, y = load_digits(return_X_y=True)
def batches():
    for step in range(5):
        if os.environ.get("RUNAI_ATTEMPT") != "2" or step > 2:
            stop_at(step)
        yield x[step::5], y[step::5]
model = partial_fit(SGDClassifier(random_state=0), batches(), test=(x, y), classes=range(10))
print("ended", round(model.score(x, y), 4))
"""


def run(python: str, script: str, folder: Path, attempt: int | None) -> list[str]:
    """The output of an attempt, step by step; outside a job if none is given."""
    about = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder),
        "KERAS_BACKEND": "tensorflow",
    }
    if attempt is not None:
        about |= {
            "RUNAI_JOB_ID": "j",
            "RUNAI_ATTEMPT": str(attempt),
            "RUNAI_RANK": "0",
            "RUNAI_WORLD_SIZE": "1",
        }
        about |= {"RUNAI_CHECKPOINT_DIR": str(folder), "RUNAI_OUTPUT_DIR": str(folder)}
    ended = subprocess.run([python, "-c", STOP + script], env=about, cwd=folder, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return [line for line in ended.stdout.splitlines() if line.startswith(("step", "ended"))]


def goes_on(python: str, script: str, folder: Path) -> None:
    for name in ("job", "alone"):
        (folder / name).mkdir()
    first, second = (run(python, script, folder / "job", attempt) for attempt in (1, 2))
    assert first == ["step 0", "step 1", "step 2"]
    assert second[:-1] == ["step 3", "step 4"]
    lines = [json.loads(line) for line in (folder / "job" / "metrics.jsonl").read_text().splitlines()]
    assert {line["attempt"] for line in lines} == {1, 2}
    assert second[-1] == run(python, script, folder / "alone", None)[-1], "It has come to something else."


@pytest.mark.parametrize("script", [TORCH, KERAS, TRANSFORMERS], ids=["torch", "keras", "transformers"])
def test_a_training_loop_resumes(python: str, script: str, tmp_path: Path) -> None:
    goes_on(python, script, tmp_path)


def test_partial_fit_resumes(tmp_path: Path) -> None:
    goes_on(sys.executable, SKLEARN, tmp_path)


TOGETHER = b"""
import torch, torch.distributed as dist
from jupyter_ext import job
from jupyter_ext.hooks.torch import resumable
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in resumable(10_000 if job.attempt == 1 else 1, model=model, optimizer=optimizer):
    model(torch.ones(1, 1)).sum().backward()
    optimizer.step()
    print("step", step, flush=True)
print("ended after", optimizer.state_dict()["param_groups"][0]["lr"], flush=True)
dist.barrier()
dist.destroy_process_group()
"""


def test_workers_that_are_stopped_together_stop_after_the_same_step(sender: Sender) -> None:
    job = sender.send(Framework.TORCH, "python", "together.py", env={"PYTHONPATH": str(ROOT)}, together=TOGETHER)
    client = sender.pool.client
    eventually(lambda: all("step 3" in sender.log(job, rank) for rank in (0, 1)))
    client.pause(job)
    eventually(lambda: client.job(job).state is JobState.PAUSED)
    paused = client.job(job)
    assert paused.attempts[0].exit_codes == [0, 0]
    last = [sender.log(job, rank).splitlines()[-1] for rank in (0, 1)]
    assert last[0] == last[1]
    client.resume(job)
    assert sender.ended(job).state == "succeeded"
    assert [sender.log(job, rank).splitlines() for rank in (0, 1)] == [["ended after 0.1"]] * 2
