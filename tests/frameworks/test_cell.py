"""A cell in two workers: it runs in each, they connect, and rank 0 returns the variables."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.frameworks.conftest import ROOT
from tests.jupyter_ext.pool import RunningPool

NOTEBOOK = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "jupyter_ext")
shell.run_cell("scale = 10")
shell.run_cell('''%%runai_train --workers 2 --framework torch --out total,world
import torch, torch.distributed as dist
from jupyter_ext import job
dist.init_process_group("gloo")
total = torch.tensor([scale * (job.rank + 1)])
dist.all_reduce(total)
world = job.world_size
print("rank", job.rank, "has", int(total))
dist.barrier()
dist.destroy_process_group()
''').raise_error()
print("came back:", int(shell.user_ns["total"]), shell.user_ns["world"])
print("the other:", shell.user_ns["_job"].logs(rank=1))
"""


def test_a_cell_runs_in_each_worker(pool: RunningPool, python: str, tmp_path: Path) -> None:
    about = {**pool.environment, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    ended = subprocess.run([python, "-c", NOTEBOOK], env=about, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "This is the output of rank 0 of 2; _job.logs(rank=1) shows another rank." in ended.stdout
    assert "rank 0 has 30" in ended.stdout
    assert "came back: 30 2" in ended.stdout
    assert "the other: rank 1 has 30" in ended.stdout
