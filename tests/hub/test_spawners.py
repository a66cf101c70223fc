"""A notebook server begins in the control group in which the driver limits its GPU memory, and ends within seconds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from traitlets.config import Config

from hub_spawner.lease import Lease
from hub_spawner.spawners import CGROUP, SimpleLeaseSpawner
from scheduler import telemetry
from tests.cgroups import group

__all__ = ["group"]

WHERE = "print(open('/proc/self/cgroup').read())"


def test_a_server_and_all_that_it_starts_are_in_the_group_of_its_lease(group: Path, tmp_path: Path) -> None:
    assert CGROUP == telemetry.CGROUP
    spawner = SimpleLeaseSpawner(home_dir=str(tmp_path))
    for folder, expected in ((str(group), True), (str(group / "gone"), False), ("", False)):
        spawner.lease = Lease("s1", 0.5, {CGROUP: folder} if folder else {})
        server = [sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WHERE!r}])"]
        done = subprocess.run(server, preexec_fn=spawner.make_preexec_fn("ann"), capture_output=True, check=True)
        assert (f"0::/{group.name}\n" in done.stdout.decode()) == expected


def test_a_server_that_hangs_at_its_end_is_killed_soon_unless_the_hub_is_configured_otherwise() -> None:
    spawner = SimpleLeaseSpawner()
    assert (spawner.interrupt_timeout, spawner.term_timeout) == (10, 5)
    patient = SimpleLeaseSpawner(config=Config(LocalProcessSpawner={"interrupt_timeout": 60}))
    assert (patient.interrupt_timeout, patient.term_timeout) == (60, 5)
