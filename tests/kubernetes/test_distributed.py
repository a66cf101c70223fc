"""Distributed jobs on a real cluster: their workers are pods that find each other by DNS names."""

from __future__ import annotations

import os
import re
import sysconfig
from pathlib import Path

import pytest

from scheduler.model import Framework
from tests.frameworks.conftest import frameworks_python, scripts_of_the_page
from tests.kubernetes.service import KubernetesService

SAID = re.compile(r"rank (\d+) of (\d+): weights (-?\d+\.\d+)")


@pytest.fixture
def frameworks(service: KubernetesService) -> Path:
    """The frameworks' programs, with a running scheduler whose pods have them at the same paths."""
    programs = Path(frameworks_python()).parent
    interpreter = Path(os.path.realpath(programs / "python")).parents[1]
    libraries = f"/lib/{sysconfig.get_config_var('MULTIARCH')}"
    service.mount({"frameworks": str(programs.parent), "interpreter": str(interpreter), "libraries": libraries})
    service.start()
    return programs


@pytest.mark.parametrize(
    ("framework", "script"),
    [
        (Framework.TORCH, "train_torch.py"),
        (Framework.TENSORFLOW, "train_tensorflow.py"),
        (Framework.JAX, "train_jax.py"),
        (Framework.MPI, "train_mpi.py"),
    ],
)
def test_pods_meet(service: KubernetesService, frameworks: Path, framework: Framework, script: str) -> None:
    code = scripts_of_the_page()[script].decode()
    env = {"PATH": f"{frameworks}:/usr/bin:/bin"}
    job = service.submit("python", "-c", code, framework=framework, workers=2, gpus=1, env=env)
    ended = service.ended(job)
    logs = [service.log_of(job, rank) for rank in (0, 1)]
    assert ended.state == "succeeded", (ended.reason, *logs)
    said = [SAID.findall(log) for log in logs]
    assert [[(rank, size) for rank, size, _ in each] for each in said] == [[("0", "2")], [("1", "2")]], logs
    assert said[0][0][2] == said[1][0][2]
    service.leaves_nothing()
