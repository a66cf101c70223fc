"""The magics as users run them: a real kernel, a real scheduler, real jobs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from jupyter_ext.card import MIME
from jupyter_ext.options import WIDTH
from scheduler.model import JobState
from tests.jupyter_ext.pool import Kernel, RunningPool, plain


@pytest.fixture
def kernel(kernel: Kernel) -> Kernel:
    kernel.run("%reset -f")
    for file in kernel.folder.iterdir():
        file.unlink()
    return kernel


# -- a cell -------------------------------------------------------------------------------------------------


def test_a_cell_trains_on_the_pool_and_brings_its_model_back(kernel: Kernel) -> None:
    kernel.run(
        """
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
x, y = load_digits(return_X_y=True)
x = x / 16
"""
    )
    shown = kernel.run(
        """%%runai_train --gpus 1 --out model,accuracy
model = SGDClassifier(random_state=0)
for epoch in range(3):
    model.partial_fit(x[:1000], y[:1000], classes=range(10))
    print("epoch", epoch)
accuracy = model.score(x[1000:], y[1000:])
"""
    )
    assert shown.error is None
    assert shown.stdout.startswith("Sending x (")
    assert "epoch 0\nepoch 1\nepoch 2\n" in shown.stdout
    assert kernel.value("accuracy > 0.8 and model.score(x[1000:], y[1000:]) == accuracy") == "True"
    assert kernel.value("_job.state.value") == "'succeeded'"


@pytest.mark.skipif(shutil.which("git") is None, reason="needs Git, which this machine does not have")
def test_a_cell_tells_the_commit_of_its_folder(kernel: Kernel, pool: RunningPool) -> None:
    kernel.run("!git init -b main && git -c user.name=ann -c user.email=a@example.org commit --allow-empty -m begin")
    kernel.run("%%runai_train --gpus 0\nprint(1)")
    commit = kernel.value("get_ipython().getoutput('git rev-parse HEAD')[0]").strip("'")
    kernel.run("!rm -r .git")
    url = f"{pool.address.url}api/v1/jobs/{kernel.value('_job.id').strip(chr(39))}/submission"
    told = httpx.get(url, headers={"Authorization": f"Bearer {pool.address.token}"}).raise_for_status().json()
    assert told["git"] == {"commit": commit, "branch": "main", "changed": 0}


def test_arrays_are_sent_unchanged_and_only_once(kernel: Kernel) -> None:
    kernel.run(
        """import numpy as np, pandas as pd
data = np.random.default_rng(0).normal(size=(1000, 300))
fixed = data + 1
fixed.flags.writeable = False
columns = np.asfortranarray(data + 2)
every_second = data[:, ::2]
pair = [data, data]
frame = pd.DataFrame(data, columns=[f"c{i}" for i in range(300)])
total = sum(float(a.sum()) for a in (data, fixed, columns, every_second)) + float(frame.sum().sum())
"""
    )
    cell = """%%runai_train --gpus 0 --out same,kinds
same = total == sum(float(a.sum()) for a in (data, fixed, columns, every_second)) + float(frame.sum().sum())
kinds = (pair[0] is pair[1] is data, data.flags.writeable, fixed.flags.writeable, columns.flags.f_contiguous)
data[:] = 0
print(data.sum())"""
    first = kernel.run(cell)
    assert (first.error, kernel.value("same"), kernel.value("kinds")) == (
        None,
        "True",
        "(True, True, False, True)",
    )
    assert "already" not in first.stdout
    again = kernel.run(cell)
    assert re.search(r"^[\d.]+ MiB of this is already in the pool\.$", again.stdout, re.M)
    assert kernel.value("same") == "True"
    assert "\n0.0\n" in again.stdout
    assert kernel.value("bool(data.any())") == "True"


def test_the_card_holds_the_jobs_id_and_changes_in_place(kernel: Kernel, pool: RunningPool) -> None:
    shown = kernel.run("%%runai_train --name tiny\nprint(1)")
    assert len(shown.displays) == 1
    card = shown.displays[0]
    assert set(card) == {MIME, "text/html", "text/plain"}
    assert card[MIME].keys() == {"id", "follows"}
    assert list(shown.updates[-1][MIME]) == ["id"]
    assert pool.client.job(card[MIME]["id"]).name == "tiny"
    assert "tiny" in card["text/html"]
    assert re.search(r"succeeded after (<1|\d+) s", shown.states[-1])
    assert shown.result is None


def test_output_comes_while_the_cell_runs(kernel: Kernel, tmp_path: Path) -> None:
    go = tmp_path / "go"
    message = kernel.send(
        "%%runai_train\nimport os, time\nprint('before')\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\nprint('after')"
    )
    shown = kernel.collect(message, until="before\n")
    go.touch()
    assert "after\n" in kernel.collect(message, into=shown).stdout


def test_a_cells_job_has_the_cells_number(kernel: Kernel) -> None:
    shown = kernel.run("%%runai_train\n1 / 0")
    number = kernel.value("_job.name.removeprefix('cell-')").strip("'")
    assert "1 / 0" in kernel.value(f"In[{number}]")
    assert f"Cell In[{number}], line 2" in plain(shown.stdout)


def test_what_the_last_expression_gives_is_shown(kernel: Kernel) -> None:
    kernel.run("n = 20")
    assert "42\n" in kernel.run("%%runai_train\nimport asyncio\nawait asyncio.sleep(0)\nn * 2 + 2").stdout


def test_a_class_of_the_notebook_is_sent_and_returned(kernel: Kernel) -> None:
    kernel.run(
        "import dataclasses\n@dataclasses.dataclass\nclass Run:\n    loss: float\n"
        "    def better(self): return self.loss < best"
    )
    kernel.run("best = 0.5\nruns = [Run(0.9)]")
    shown = kernel.run("%%runai_train --out runs\nruns.append(Run(0.1))\nprint([r.better() for r in runs])")
    assert "[False, True]" in shown.stdout
    assert kernel.value("[type(r) is Run for r in runs], runs[1].better()") == "([True, True], True)"


def test_a_failing_cell_shows_its_own_lines(kernel: Kernel) -> None:
    kernel.run("def divide(n):\n    return n / 0")
    shown = kernel.run("%%runai_train --out y\nx = 1\ny = divide(x)")
    said = plain(shown.stdout)
    assert re.search(r"Cell In\[\d+\], line 3", said)
    assert "----> 3 y = divide(x)" in said
    assert "----> 2     return n / 0" in said
    assert "\x1b[31mZeroDivisionError\x1b[" in shown.stdout, "coloured as the notebook colours its own"
    name = kernel.value("_job.name").strip("'")
    assert shown.error == f"{name} failed; its traceback is above."
    again = kernel.run("_job.result()")
    assert again.error is not None
    assert "ZeroDivisionError: division by zero" in plain(again.error)
    assert "----> 3 y = divide(x)" in plain(again.error)
    assert f"{name} failed after" in again.error


def test_unassigned_outputs_are_named_and_others_returned(kernel: Kernel) -> None:
    shown = kernel.run("%%runai_train --out a,b\na = 1\nif not a:\n    b = 2")
    assert shown.error is None
    assert (shown.stdout + shown.stderr).count("`b`") == 1
    assert "the cell did not assign it, so it is not returned." in shown.stdout
    assert kernel.value("a, 'b' in dir()") == "(1, False)"
    found = kernel.run("from jupyter_ext import Job\nJob(_job.id).result()")
    assert "`b` is not returned: the cell did not assign it." in found.stderr


def test_a_change_that_is_not_returned_is_reported(kernel: Kernel) -> None:
    kernel.run("frame = {'x': 1}\nlosses = []")
    shown = kernel.run("%%runai_train --out losses\nframe['z'] = 2\nlosses.append(frame)\nown = []\nown.append(1)")
    assert "The cell changes `frame` in the job only; add --out frame to get the changes back." in shown.stdout
    assert kernel.value("frame, losses") == "({'x': 1}, [{'x': 1, 'z': 2}])"
    assert "changes" not in kernel.run("%%runai_train --out frame\nframe['z'] = 2").stdout
    assert kernel.value("frame") == "{'x': 1, 'z': 2}"


def test_files_and_local_modules_are_sent(kernel: Kernel) -> None:
    (kernel.folder / "shapes.py").write_text("def area(n):\n    return n * n\n")
    (kernel.folder / "n.txt").write_text("6")
    (kernel.folder / "other.ipynb").write_text("{}")  # a cell needs no notebook
    kernel.run("import shapes")
    shown = kernel.run("%%runai_train --out y\ny = shapes.area(int(open('n.txt').read()))")
    assert "2 files of this folder (31 B)" in shown.stdout
    assert kernel.value("y") == "36"


def test_in_chooses_variables_and_files(kernel: Kernel) -> None:
    (kernel.folder / "a.txt").write_text("a")
    (kernel.folder / "b.txt").write_text("b")
    kernel.run("n = 1\nm = 2")
    shown = kernel.run(
        "%%runai_train --in m,a.txt\nimport os\nprint(sorted(globals().keys() & {'m', 'n'}), sorted(os.listdir()))"
    )
    assert "['m'] ['.runai-cell', 'a.txt']" in shown.stdout


def test_with_no_capture_a_cell_gets_no_variables(kernel: Kernel) -> None:
    kernel.run("m = 1")
    cell = "try:\n    print('m is', m)\nexcept NameError:\n    print('m is unknown')"
    assert "m is 1\n" in kernel.run(f"%%runai_train --gpus 0\n{cell}").stdout
    assert "m is unknown\n" in kernel.run(f"%%runai_train --gpus 0 --no-capture\n{cell}").stdout


def test_a_cell_that_a_magic_begins(kernel: Kernel) -> None:
    assert "Wall time" in kernel.run("%%runai_train\n%%time\nsum(range(10))").stdout


def test_a_cell_on_several_workers_brings_back_what_the_first_has(kernel: Kernel) -> None:
    shown = kernel.run("%%runai_train --workers 2 --out r\nimport os\nr = os.environ['RUNAI_RANK']\nprint('rank', r)")
    assert "rank 0" in shown.stdout
    assert kernel.value("r") == "'0'"
    assert kernel.value("_job.logs(rank=1)") == "'rank 1\\n'"


# -- scripts and commands -----------------------------------------------------------------------------------


def test_a_script_runs_with_its_own_arguments(kernel: Kernel) -> None:
    (kernel.folder / "train.py").write_text("import sys\nprint('argv', sys.argv[1:])\n")
    shown = kernel.run("%runai_train train.py --gpus 1 -- --epochs 3")
    assert "argv ['--epochs', '3']" in shown.stdout
    assert "train.py (" in shown.states[0]


def test_a_script_that_git_ignores_still_runs(kernel: Kernel) -> None:
    (kernel.folder / ".gitignore").write_text("*.py\n")
    (kernel.folder / "train.py").write_text("print('ran')\n")
    assert "ran" in kernel.run("%runai_train train.py").stdout


def test_any_command_runs_in_the_kernels_environment(kernel: Kernel) -> None:
    shown = kernel.run(
        "%runai_train --env GREETING=hi -- python -c 'import os, sys; print(sys.executable, os.environ[\"GREETING\"])'"
    )
    executable = kernel.value("__import__('sys').executable").strip("'")
    assert f"{executable} hi" in shown.stdout


# -- the job in hand ----------------------------------------------------------------------------------------


def test_detached_it_returns_the_job_at_once(kernel: Kernel) -> None:
    shown = kernel.run("%%runai_train --detach --out y\nimport time\ntime.sleep(0.5)\ny = 5\nprint('done')")
    (card,) = shown.displays
    assert list(card[MIME]) == ["id"]
    assert "done" not in shown.stdout
    assert kernel.value("_job.result()") == "{'y': 5}"
    assert kernel.value("_job.logs()") == "'done\\n'"
    assert kernel.value("_job.outputs") == "{'y': 5}"


def test_a_job_can_be_awaited(kernel: Kernel) -> None:
    kernel.run("%%runai_train --detach --out y\ny = 7")
    assert kernel.run("print((await _job)['y'])").stdout == "7\n"


def test_a_job_is_found_again_by_its_id(kernel: Kernel) -> None:
    kernel.run("%%runai_train --out y\ny = 8")
    kernel.run("from jupyter_ext import Job\nfound = Job(_job.id)")
    assert kernel.value("found.result()['y'], found.name == _job.name") == "(8, True)"
    assert kernel.run("del y\nprint(found.load(), y)").stdout == "['y'] 8\n"


def test_a_job_can_be_paused_resumed_and_cancelled(kernel: Kernel, pool: RunningPool) -> None:
    kernel.run("%%runai_train --detach\nimport time\nprint('up')\ntime.sleep(600)")
    job = kernel.value("_job.id").strip("'")
    _until(lambda: b"up" in pool.client.log(job))
    kernel.run("_job.pause()")
    _until(lambda: pool.client.job(job).state is JobState.PAUSED)
    kernel.run("_job.resume()")
    _until(lambda: pool.client.job(job).state is JobState.RUNNING)
    assert len(pool.client.job(job).attempts) == 2
    kernel.run("_job.cancel()")
    assert pool.client.wait(job, timeout=30).state is JobState.CANCELLED
    waited = kernel.run("_job.wait()")
    assert waited.error is not None
    assert "cancelled" in waited.error
    kernel.run("_job.delete()")
    assert job not in [each.id for each in pool.client.jobs().jobs]


def test_a_cell_with_checkpoints_resumes(kernel: Kernel, pool: RunningPool, tmp_path: Path) -> None:
    go = tmp_path / "go"
    kernel.run(
        f"""%%runai_train --detach --out steps,resumed
import os, time
from jupyter_ext import job
steps = job.restore(default=[])
resumed = job.resumed
while not job.should_stop() and not os.path.exists({str(go)!r}):
    if len(steps) < 3 * job.attempt:
        steps.append(job.attempt)
        job.report(step=len(steps), loss=1 / len(steps))
        print("step", len(steps))
    time.sleep(0.02)
job.checkpoint(steps)
"""
    )
    job = kernel.value("_job.id").strip("'")
    _until(lambda: b"step 3" in pool.client.log(job))
    kernel.run("_job.pause()")
    _until(lambda: pool.client.job(job).state is JobState.PAUSED)
    kernel.run("_job.resume()")
    _until(lambda: len(pool.client.job(job).attempts) == 2 and b"step 6" in pool.client.log(job))
    go.touch()
    assert kernel.value("_job.result()") == "{'steps': [1, 1, 1, 2, 2, 2], 'resumed': True}"
    assert (
        kernel.value("_job.metrics[['step', 'attempt', 'loss']].values.tolist()[2:4]")
        == "[[3.0, 1.0, 0.3333333333333333], [4.0, 2.0, 0.25]]"
    )
    kernel.run("_job.download('metrics.jsonl', 'metrics.jsonl')")
    lines = [json.loads(line) for line in (kernel.folder / "metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line["attempt"]) for line in lines] == [
        (1, 1),
        (2, 1),
        (3, 1),
        (4, 2),
        (5, 2),
        (6, 2),
    ]


def test_its_files_can_be_downloaded(kernel: Kernel) -> None:
    kernel.run(
        "%%runai_train --out n\nimport os\nn = 1\nopen(os.path.join(os.environ['RUNAI_OUTPUT_DIR'], 'r.txt'), "
        "'w').write('42')"
    )
    assert kernel.value("_job.files") == "['r.txt']"
    kernel.run("_job.download('r.txt', 'here.txt')")
    assert (kernel.folder / "here.txt").read_text() == "42"


def test_many_jobs_are_one_table(kernel: Kernel, pool: RunningPool) -> None:
    kernel.run("%%runai_train --detach --name first\n1")
    kernel.run("%%runai_train --detach --name second\n1 / 0")
    shown = kernel.run("from jupyter_ext import Jobs\nJobs.mine(limit=2).wait()")
    assert shown.result is not None
    table = shown.result["text/plain"].splitlines()
    assert table[0].split() == ["job", "project", "state", "GPUs", "submitted", "ran"]
    assert [line.split()[0] for line in table[1:]] == ["second", "first"]
    assert "failed" in table[1]
    assert "succeeded" in table[2]
    assert "<table>" in shown.result["text/html"]
    assert kernel.value("[job.name for job in Jobs.mine(limit=2)[1:]]") == "['first']"


def test_interrupting_detaches_and_the_job_keeps_running(kernel: Kernel, pool: RunningPool) -> None:
    message = kernel.send("%%runai_train --out y\nimport time\nprint('begun')\ntime.sleep(1.5)\ny = 9\nprint('ended')")
    shown = kernel.collect(message, until="begun")
    kernel.interrupt()
    shown = kernel.collect(message, into=shown)
    assert shown.error is not None
    assert "keeps running: _job.wait() shows it again, _job.cancel() stops it." in shown.error
    assert "Traceback" not in shown.error
    assert "ended" not in shown.stdout
    assert not pool.client.job(kernel.value("_job.id").strip("'")).state.final
    again = kernel.run("_job.wait()")
    assert "begun\nended\n" in again.stdout
    assert again.result is None  # its card is already above the output
    again = kernel.run("_job.wait().outputs")
    assert "begun\nended\n" in again.stdout
    assert again.result == {"text/plain": "{'y': 9}"}


# -- waiting ------------------------------------------------------------------------------------------------


def test_a_waiting_job_shows_its_reason(kernel: Kernel, pool: RunningPool) -> None:
    gpus = int(pool.client.pool().train.gpus)
    kernel.run(f"%runai_train --detach --gpus {gpus} -- sleep 600")
    first = kernel.value("_job.id").strip("'")
    _until(lambda: pool.client.job(first).state is JobState.RUNNING)
    message = kernel.send("%%runai_train --gpus 1\nprint('at last')")
    shown = kernel.collect(message, until=": queued. ")
    kernel.collect(message, until="GPU", into=shown)
    pool.client.cancel(first)
    shown = kernel.collect(message, into=shown)
    assert "at last" in shown.stdout
    waiting = [said for said in shown.states if ": queued" in said]
    assert any("GPU" in said for said in waiting), waiting


# -- what is refused ----------------------------------------------------------------------------------------

REFUSED = {
    "%runai_train": "Say what to run",
    "%runai_train trian.py": "There is no file trian.py in",
    "%runai_train -- ": "Say what to run",
    "%runai_train train.py 3": "Put the arguments of train.py after `--`: %runai_train train.py -- 3 …",
    "%runai_train /etc/hostname": "/etc/hostname is outside ",
    "%runai_train --gpuz 1 train.py": "There is no option --gpuz; did you mean --gpus?",
    "%runai_train train.py --epochs 3": "There is no option --epochs; put the arguments of a script after `--`",
    "%runai_train --name bad! train.py": "--name must be 1 to 128 letters, digits, blanks or any of . _ @ / -, with",
    "%runai_train --gpus many train.py": "--gpus: 'many' is not an amount; write 0 or more, such as 2 or 0.5.",
    "%runai_train nofile.py": "There is no file nofile.py in",
    "%runai_train -p lr=1 train.py": "-p is for notebooks",
    "%runai_train --max-runtime 2h --expected-runtime 3h train.py": "--expected-runtime: 10800 s is longer than "
    "--max-runtime",
    "%runai_train --at-once 2 train.py": "--at-once: there is neither an array nor a sweep.",
    "%runai_train --out a train.py": "--out is for cells",
    "%runai_train --env A train.py": "--env: there is no variable A here; write A=VALUE.",
    "%runai_train --project vison train.py": "There is no project 'vison'",
    "%runai_train --gpus 64 train.py": "64 GPUs",
    "%runai_train --workers 64 --gpus 2 train.py": "64 workers of 2 GPUs",
    "%%runai_train --project vison\n1": "There is no project 'vison'",
    "%%runai_train --gpus 2000\n1": "gpus",
    "%%runai_train --out a, b\nb = 1": "--out: 'a,' is not a list of names; write names with commas and no spaces",
    "%%runai_train -- x\n1": "A cell takes no arguments after `--`",
    "%%runai_train --out acuracy\naccuracy = 1": "so --out can't return it; did you mean `accuracy`?",
    "%%runai_train --in dta\n1": "--in: there is neither a variable nor a file 'dta'; did you mean `data`?",
    "%%runai_train\nprint(lock)": "`lock` can't be sent: _thread.lock",
    "%%runai_train\nprint(data)": "`data` makes the variables larger than 1.0 MiB",
}


@pytest.mark.parametrize("cell", REFUSED)
def test_an_error_is_one_sentence_and_nothing_is_queued(cell: str, kernel: Kernel, pool: RunningPool) -> None:
    (kernel.folder / "train.py").write_text("print(1)\n")
    kernel.run(
        "import threading\nlock = threading.Lock()\ndata = bytes(2**21)\n%config RunaiMagics.max_capture = 2**20"
    )
    before = pool.client.jobs(limit=1).jobs
    shown = kernel.run(cell)
    kernel.run("%config RunaiMagics.max_capture = 2**32")
    assert shown.error is None
    assert shown.stderr.startswith("UsageError: ")
    assert REFUSED[cell] in shown.stderr
    assert "Traceback" not in shown.stderr + shown.stdout
    assert shown.stderr.count("\n") == 1
    assert shown.stdout == ""  # nothing has been captured yet
    assert [job.id for job in pool.client.jobs(limit=1).jobs] == [job.id for job in before]


def test_what_is_not_python_is_told_before_anything_is_sent(kernel: Kernel, pool: RunningPool) -> None:
    shown = kernel.run("%%runai_train\nx y")
    assert shown.error is not None
    assert re.search(r'File "Cell In\[\d+\]", line 2\n +x y\n', shown.error)
    assert "SyntaxError: invalid syntax" in shown.error
    assert "Traceback" not in shown.error


def test_help_is_what_ipython_users_expect(kernel: Kernel) -> None:
    reply = kernel.value("__import__('jupyter_ext.magic').magic.RunaiMagics.runai_train.__doc__")
    for option in ("--gpus N", "--out NAME", "--detach", "examples:"):
        assert option in reply
    lines = eval(reply).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert not any(line.startswith(("from ", "import ")) for line in lines)


def _until(condition: object, timeout: float = 30) -> None:
    """Poll until it is true: actions of other processes have no event here."""
    assert callable(condition)
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "It did not come to be."
        time.sleep(0.02)


def test_a_kernel_of_our_installation_has_the_magics_from_the_first_cell_on(pool: RunningPool, tmp_path: Path) -> None:
    """The wheel's files in `etc/ipython` of its environment, here put on IPython's path differently."""
    profile = tmp_path / "ipython" / "profile_default"
    profile.mkdir(parents=True)
    shipped = Path(__file__).parents[2] / "deploy/jupyter-config/ipython/ipython_kernel_config.json"
    shutil.copy(shipped, profile)
    (tmp_path / "work").mkdir()
    kernel = Kernel(tmp_path / "work", {**pool.environment, "IPYTHONDIR": str(tmp_path / "ipython")})
    try:
        assert "first" in kernel.run("%%runai_train\nprint('first')").stdout
    finally:
        kernel.close()


# -- many as one, templates, files --------------------------------------------------------------------------


def test_a_sweep_gives_each_job_its_values_and_the_best_ones_result(kernel: Kernel) -> None:
    kernel.run("scale = 10\ndef area():\n    return lr * size * scale")
    shown = kernel.run(
        """%%runai_train --gpus 0 --sweep "lr=0.5,0.1;size=1,2" --at-once 2 --minimize loss --out found
from jupyter_ext import job
found = area()
assert job.parameters == {"lr": lr, "size": size}
job.report(step=1, loss=100)
job.report(step=2, loss=found)"""
    )
    assert shown.error is None
    assert "Sending area, scale (" in shown.stdout
    last = [*shown.displays, *shown.updates][-1]
    assert "4 of 4 jobs ended. Best: cell-" in last["text/plain"]
    assert "(lr 0.1, size 1), loss 1." in last["text/plain"]
    assert last["text/html"].count("<polyline") == 4
    assert kernel.value("_job.best.result()") == "{'found': 1.0}"
    assert kernel.value("list(_job.results.loss)") == "[5.0, 10.0, 1.0, 2.0]"
    assert kernel.value("__import__('jupyter_ext').Sweep(_job.id, maximize='loss').best.seen.index") == "1"


def test_a_sweep_says_which_of_its_jobs_failed_and_why(kernel: Kernel) -> None:
    shown = kernel.run("%%runai_train --gpus 0 --sweep lr=1,2\nassert lr == 1, 'diverged'")
    head, _, first, second = [*shown.displays, *shown.updates][-1]["text/plain"].splitlines()
    assert head.endswith("2 of 2 jobs ended, 1 failed.")
    assert "succeeded" in first
    assert "failed: It ended with exit code 1: AssertionError: diverged" in second


def test_a_sweep_of_a_script_gives_its_values_as_arguments(kernel: Kernel) -> None:
    (kernel.folder / "train.py").write_text("import sys; print(*sys.argv[1:])")
    shown = kernel.run("%runai_train train.py --gpus 0 --sweep lr=1,2 -- -v")
    assert shown.error is None
    assert kernel.value("[job.logs() for job in _job]") == "['-v --lr 1\\n', '-v --lr 2\\n']"


def test_jobs_of_an_array_have_indices_and_can_be_a_dependency(kernel: Kernel, pool: RunningPool) -> None:
    kernel.run("%%runai_train --gpus 0 --array 3-4 --detach\nimport os\nprint(os.environ['RUNAI_ARRAY_INDEX'])")
    array = kernel.value("_job.id").strip("'")
    shown = kernel.run(f"%runai_train --gpus 0 --after {array} -- echo afterwards")
    assert shown.error is None
    assert [view.index for view in sorted(pool.client.jobs(array=array).jobs, key=lambda v: v.id)] == [3, 4]
    started = pool.client.jobs(mine=True, limit=1).jobs[0]
    assert started.after == [array]
    ended = max(view.ended or 0 for view in pool.client.jobs(array=array).jobs)
    assert (started.started or 0) >= ended


def test_a_template_is_overridden_by_the_line(kernel: Kernel, pool: RunningPool) -> None:
    assert "Saved in " in kernel.run("%runai_train --gpus 0.5 --env A=1 --env B=1 --save-template half").stdout
    shown = kernel.run("%runai_train --template half --env B=2 --name tried -- sh -c 'echo $A $B'")
    assert "1 2\n" in shown.stdout
    job = pool.client.jobs(mine=True, limit=1).jobs[0]
    assert (job.gpus, job.name) == (0.5, "tried")
    assert "did you mean half?" in kernel.run("%runai_train --template haf -- true").stderr


def test_a_job_of_a_template_is_called_as_the_template(kernel: Kernel) -> None:
    kernel.run("%runai_train --gpus 0 --save-template nightly -- sh -c true")
    kernel.run("%runai_train --template nightly")
    assert kernel.value("_job.name") == "'nightly'"
    kernel.run("%runai_train --template nightly -- echo fine")
    assert kernel.value("_job.name") == "'echo'"


def test_of_a_cells_template_a_script_takes_what_it_can(kernel: Kernel, pool: RunningPool) -> None:
    kernel.run("%%runai_train --gpus 0 --out y --save-template both\ny = 1")
    assert kernel.value("y") == "1"
    shown = kernel.run("%runai_train --template both -- echo fine")
    assert (shown.error, shown.stdout) == (None, "fine\n")
    kept = pool.state_dir.with_name("config") / "runai/templates/both.yaml"
    kept.write_text("sweep: lr\n")
    said = kernel.run("%%runai_train --template both\n1").stderr
    assert said.startswith("UsageError: sweep: 'lr' is not of the form NAME=VALUE")


def test_what_a_dry_run_prints_can_be_sent(kernel: Kernel, pool: RunningPool) -> None:
    before = len(pool.client.jobs().jobs)
    kernel.run("secret = 42")
    shown = kernel.run("%%runai_train --gpus 0 --dry-run --out twice\ntwice = 2 * secret\nprint(twice)")
    assert len(pool.client.jobs().jobs) == before
    text = shown.stdout[shown.stdout.index("name:") :]
    (kernel.folder / "job.yaml").write_text(text)
    sent = subprocess.run(
        [sys.executable, "-m", "scheduler.cli", "submit", "-f", "job.yaml", "--wait", "--name", "again"],
        cwd=kernel.folder,
        env={**os.environ, **pool.environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert sent.returncode == 0, sent.stderr
    assert "84" in sent.stdout
    assert pool.client.jobs(mine=True, limit=1).jobs[0].name == "again"


def test_a_stopped_attempt_does_not_report_missing_outputs(kernel: Kernel, pool: RunningPool) -> None:
    kernel.run(
        """%%runai_train --detach --no-files --out x
import time
from jupyter_ext import job
print("attempt", job.attempt, flush=True)
while job.attempt == 1:
    if job.should_stop(): raise SystemExit(0)
    time.sleep(0.02)
x = job.attempt
"""
    )
    job = kernel.value("_job.id").strip("'")
    _until(lambda: b"attempt 1" in pool.client.log(job))
    pool.client.pause(job)
    _until(lambda: pool.client.job(job).state is JobState.PAUSED)
    assert pool.client.log(job) == b"attempt 1\n"
    pool.client.resume(job)
    assert kernel.value("_job.result()") == "{'x': 2}"


def test_a_cell_is_scheduled_and_running_it_again_changes_its_schedule(kernel: Kernel, pool: RunningPool) -> None:
    shown = kernel.run(
        "%%runai_train --gpus 0 --schedule '0 2 * * *' --timezone Europe/Berlin --name nightly\nprint(1 + 1)"
    )
    assert shown.error is None
    assert re.search(r"nightly runs next on \w{3} \S+ 02:00 \(Europe/Berlin\), in project default\.", shown.stdout)
    kernel.run("%%runai_train --gpus 0 --schedule '0 3 * * *' --name nightly\nprint(2 + 2)")
    (schedule,) = pool.client.schedules()
    assert (schedule.name, schedule.cron, schedule.timezone) == ("nightly", "0 3 * * *", "UTC")
    job = pool.client.schedule_run(schedule.id)
    assert pool.client.wait(job.id, 60).state is JobState.SUCCEEDED
    assert pool.client.log(job.id) == b"4\n"
    pool.client.schedule_remove(schedule.id)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--schedule soon", "--schedule: 'soon' is not a cron expression"),
        ("--timezone UTC", "--timezone needs a schedule; say when the job is to run, too."),
        ("--schedule '0 2 * * *' --sweep x=1,2", "--sweep: a schedule submits one job at a time; leave it out."),
        ("--schedule '0 2 * * *' --search optuna --sweep x=1..2 --minimize x", "--schedule cannot be combined"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(kernel: Kernel, pool: RunningPool, line: str, sentence: str) -> None:
    shown = kernel.run(f"%%runai_train --gpus 0 {line}\nprint(1)")
    assert sentence in shown.stderr
    assert pool.client.schedules() == []
