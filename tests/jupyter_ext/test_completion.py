"""Tab completes the options of a magic, their values, and the names of jobs."""

from __future__ import annotations

import pytest

from tests.jupyter_ext.pool import Kernel, RunningPool


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("%%runai_train --gpu-", {"--gpu-memory", "--gpu-type"}),
        ("%runai_train --project ", {"default"}),
        ("%runai_train --template ha", {"half"}),
        ("%runai_train --out my_", {"my_model"}),
        ("%runai_train --in other,my_", {"my_model"}),
        ("%runai_train -o ", {"yaml", "json"}),
    ],
)
def test_tab_offers_options_and_values(kernel: Kernel, line: str, offered: set[str]) -> None:
    kernel.run("my_model = 1")
    kernel.run("%runai_train --gpus 0.5 --save-template half")
    assert set(kernel.completions(line)) == offered


def test_tab_asks_the_pool_for_jobs_and_leaves_files_to_ipython(kernel: Kernel, pool: RunningPool) -> None:
    kernel.run("%runai_train --gpus 0 --name zebra -- true")
    job = pool.client.jobs(mine=True, limit=1).jobs[0]
    assert job.id in kernel.completions("%runai_train --after ")
    assert job.name not in kernel.completions("Job('zeb")
    kernel.run("from jupyter_ext import Job")
    assert kernel.completions("found = Job('zeb") == [job.name]
    (kernel.folder / "train_me.py").touch()
    assert any("train_me.py" in match for match in kernel.completions("%runai_train train_m"))
