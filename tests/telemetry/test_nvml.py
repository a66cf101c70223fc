"""GPUs are found through the real binding (`pynvml`) and a real shared library, built here, that reports them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scheduler.telemetry.nvml import short_name, visible
from tests.telemetry.standin import library

__all__ = ["library"]

MIG = "NVIDIA A100-SXM4-80GB|GPU-mig|81920|0|0|1|0|-1"
A100 = "NVIDIA A100-SXM4-80GB|GPU-{0}|81920|1024|37|0|{1}|-1"

ASK = """
import json, logging, sys
from dataclasses import asdict
from scheduler.errors import RunaiError
from scheduler.model import Pool
from scheduler.telemetry.local import find_gpus
logging.basicConfig(format="%(message)s")
try:
    gpus = find_gpus(*json.loads(sys.argv[1]))
except RunaiError as error:
    print(json.dumps({"refused": error.sentence}))
else:
    nodes = gpus.nodes(Pool())
    usage = [[*at, asdict(each)] for at, each in gpus.usage(nodes).items()]
    about = {"nodes": [asdict(node) for node in nodes], "usage": usage, "notes": gpus.notes}
    print(json.dumps({"declared": gpus.declared, **about}))
    gpus.close()
"""


class Driver:
    """Asks for the inventory of a machine with such GPUs, in a process that loads the library as any would."""

    def __init__(self, library: Path, folder: Path) -> None:
        self._library = library
        self._file = folder / "gpus"

    def __call__(self, *gpus: str, init: int = 0, declared: int | None = None, **env: str) -> dict[str, Any]:
        self._file.write_text("\n".join((f"init {init}", *gpus, "")))
        keep = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        done = subprocess.run(
            [sys.executable, "-c", ASK, json.dumps([declared])],
            env={**keep, "LD_LIBRARY_PATH": str(self._library), "FAKE_NVML": str(self._file), **env},
            cwd=Path(__file__).parents[2],
            check=True,
            capture_output=True,
            text=True,
        )
        answer: dict[str, Any] = json.loads(done.stdout)
        answer["log"] = done.stderr
        return answer


@pytest.fixture
def driver(library: Path, tmp_path: Path) -> Driver:
    return Driver(library, tmp_path)


def test_gpus_are_found_with_name_memory_and_use(driver: Driver) -> None:
    found = driver(*(A100.format(i, 0) for i in range(8)))
    build, train = found["nodes"]
    assert not found["declared"]
    assert (build["gpus"], build["gpu_type"], build["gpu_memory"]) == (2, "A100", 81920)
    assert build["devices"] == ["GPU-0", "GPU-1"]
    assert train["devices"] == [f"GPU-{i}" for i in range(2, 8)]
    assert train["gpu_links"] == [[0, 1, 2, 3, 4, 5]]
    assert [build["node_pool"], train["node_pool"]] == ["build", "train"]
    assert not build["declared"]
    assert len(found["usage"]) == 8
    assert found["usage"][0] == [build["name"], 0, {"utilisation": 0.37, "used": 1024, "memory": 81920}]


def test_pairs_joined_by_nvlink_are_groups(driver: Driver) -> None:
    train = driver(*(A100.format(i, i // 2) for i in range(8)))["nodes"][1]
    assert train["gpu_links"] == [[0, 1], [2, 3], [4, 5]]


def test_without_nvlink_those_behind_one_switch_are_groups(driver: Driver) -> None:
    gpu = "NVIDIA L4|GPU-{0}|23034|0|0|-1|-1|{1}"
    train = driver(*(gpu.format(i, i // 4) for i in range(8)))["nodes"][1]
    assert (train["gpu_type"], train["gpu_links"]) == ("L4", [[0, 1], [2, 3, 4, 5]])


def test_types_that_differ_are_nodes_of_their_own(driver: Driver) -> None:
    t4 = "Tesla T4|GPU-{0}|15360|0|0|-1|-1|-1"
    nodes = driver(*(A100.format(i, 0) for i in range(4)), *(t4.format(i) for i in range(4, 8)))["nodes"]
    assert [(node["name"].split("-", 1)[1], node["gpus"], node["gpu_type"]) for node in nodes] == [
        ("build", 2, "A100"),
        ("train:a100", 2, "A100"),
        ("train:t4", 4, "T4"),
    ]


def test_a_gpu_in_mig_mode_without_instances_stays_out_and_says_why(driver: Driver) -> None:
    found = driver(A100.format(0, 0), MIG, A100.format(2, 0))
    assert [device for node in found["nodes"] for device in node["devices"]] == ["GPU-0", "GPU-2"]
    assert "has no instances" in found["notes"][0]
    assert "`nvidia-smi -i 1 -mig 0`" in found["notes"][0]
    assert found["notes"][0] in found["log"]


def test_the_instances_of_a_gpu_in_mig_mode_are_gpus_of_a_type_of_their_own(driver: Driver) -> None:
    small = [f"+NVIDIA A100-SXM4-80GB MIG 1g.10gb|MIG-{n}|9728|100" for n in range(2)]
    build, whole, divided, large = driver(
        A100.format(0, 0), A100.format(1, 0), MIG, *small, "+NVIDIA A100-SXM4-80GB MIG 3g.40gb|MIG-2|40192|0"
    )["nodes"]
    assert (build["devices"], whole["devices"]) == (["GPU-0"], ["GPU-1"])
    assert (whole["gpu_parts"], whole["isolation"]) == (0, "unknown")
    assert divided["name"].endswith("-train:a100-1g.10gb")
    assert (divided["gpus"], divided["gpu_type"], divided["gpu_memory"]) == (2, "A100-1g.10gb", 9728)
    assert (divided["devices"], divided["gpu_links"]) == (["MIG-0", "MIG-1"], [])
    assert (divided["gpu_parts"], divided["isolation"]) == (1, "mig")
    assert (large["devices"], large["gpu_type"]) == (["MIG-2"], "A100-3g.40gb")


def test_a_gpu_that_is_lost_stays_out_and_the_others_work(driver: Driver) -> None:
    found = driver(A100.format(0, 0), "x|lost|0|0|0|0|0|0", A100.format(2, 0))
    assert [device for node in found["nodes"] for device in node["devices"]] == ["GPU-0", "GPU-2"]
    assert found["notes"][0].startswith("GPU 1 does not respond")


def test_unknown_properties_of_a_gpu_stay_unknown(driver: Driver) -> None:
    found = driver("NVIDIA GB10|GPU-0|-1|0|-1|-1|-1|-1", "NVIDIA GB10|GPU-1|100|7|-1|-1|-1|-1")
    assert found["nodes"][0]["gpu_memory"] is None
    assert found["usage"] == [[found["nodes"][1]["name"], 0, {"utilisation": None, "used": 7, "memory": 100}]]


def test_only_the_gpus_that_the_scheduler_may_see_are_the_pool(driver: Driver) -> None:
    found = driver(*(A100.format(i, 0) for i in range(4)), CUDA_VISIBLE_DEVICES="3,GPU-1")
    assert [device for node in found["nodes"] for device in node["devices"]] == ["GPU-3", "GPU-1"]


@pytest.mark.parametrize("init", [9])
def test_a_library_without_a_driver_means_declared_gpus(driver: Driver, init: int) -> None:
    found = driver(init=init)
    assert found["declared"]
    assert sum(node["gpus"] for node in found["nodes"]) == 8


def test_a_machine_without_gpus_means_declared_gpus(driver: Driver) -> None:
    assert sum(node["gpus"] for node in driver(declared=3)["nodes"]) == 3


def test_a_broken_driver_is_not_treated_as_no_driver(driver: Driver) -> None:
    refused = driver(init=18)["refused"]
    assert refused == (
        "NVIDIA's driver does not answer (RM has detected an NVML/RM version mismatch); check nvidia-smi, "
        "or declare GPUs instead with --declared-gpus."
    )


def test_gpus_may_be_declared_in_the_place_of_a_broken_driver(driver: Driver) -> None:
    found = driver(init=18, declared=2)
    assert found["declared"]
    assert "does not answer" in found["log"]


def test_gpus_that_cannot_be_used_are_not_replaced_by_declared_ones(driver: Driver) -> None:
    assert "mig 0" in driver("NVIDIA A100|GPU-mig|81920|0|0|1|0|-1")["refused"]
    assert "unset it" in driver(A100.format(0, 0), CUDA_VISIBLE_DEVICES="")["refused"]


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A100-PCIE-40GB", "A100"),
        ("NVIDIA A100 80GB PCIe", "A100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 NVL", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA B200", "B200"),
        ("Tesla V100-SXM2-32GB", "V100"),
        ("Tesla T4", "T4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA GeForce RTX 3080 Ti", "RTX-3080-Ti"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "RTX-4090"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX-6000-Ada"),
        ("NVIDIA RTX A6000", "RTX-A6000"),
        ("Quadro RTX 8000", "RTX-8000"),
        ("NVIDIA TITAN RTX", "TITAN-RTX"),
        ("NVIDIA", "NVIDIA"),
    ],
)
def test_a_gpu_has_its_common_name(name: str, short: str) -> None:
    assert short_name(name) == short


@pytest.mark.parametrize(
    ("setting", "positions"),
    [
        (None, [0, 1, 2]),
        ("", []),
        ("1", [1]),
        ("2,0", [2, 0]),
        ("0, 1", [0, 1]),
        ("0,7,1", [0]),
        ("-1", []),
        ("0,-1,1", [0]),
        ("GPU-bb", [1]),
        ("GPU-b", [1]),
        ("GPU-", []),
        ("0,0", [0]),
        ("MIG-x", []),
    ],
)
def test_visible_devices_are_read_as_cuda_reads_them(setting: str | None, positions: list[int]) -> None:
    assert visible(setting, ["GPU-aa", "GPU-bb", None]) == positions
