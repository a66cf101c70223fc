"""A shared library in the place of NVIDIA's, built here, for processes that load it as they would load the driver's."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

A100 = "NVIDIA A100-SXM4-80GB|GPU-{0}|81920|1024|37|{1}|0|-1"


def reporting(
    gpu: int,
    *,
    power: float = 250.0,
    temperature: int = 61,
    throttle: int = 0,
    corrected: int = 0,
    uncorrected: int = 0,
    recovery: int = 0,
    xid: int = 0,
    pid: int = 0,
    mig: int = 0,
) -> str:
    """The line of a GPU that reports all of this; a `recovery` of -1 is a GPU that is lost."""
    more = (round(power * 1000), temperature, throttle, corrected, uncorrected, recovery, xid, pid)
    return "|".join((A100.format(gpu, mig), *map(str, more)))


def gpus_file(*gpus: str) -> str:
    """The file that the library reads."""
    return "\n".join(("init 0", *gpus, ""))


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the library."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs cc, which this machine does not have")
    folder = tmp_path_factory.mktemp("nvml")
    source = Path(__file__).with_name("nvml.c")
    library = str(folder / "libnvidia-ml.so.1")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", library, str(source)], check=True)
    return folder
