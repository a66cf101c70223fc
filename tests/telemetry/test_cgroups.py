"""Where control groups are, and that they account for GPU memory where the kernel can."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.errors import Unavailable
from scheduler.telemetry.cgroups import ControlGroups, root


@pytest.mark.parametrize(("controllers", "enabled"), [("cpu dmem memory", "+dmem"), ("cpu memory", "")])
def test_a_group_accounts_for_gpu_memory_where_the_kernel_has_dmem(
    tmp_path: Path, controllers: str, enabled: str
) -> None:
    (tmp_path / "cgroup.controllers").write_text(f"{controllers}\n")
    (tmp_path / "cgroup.subtree_control").write_text("")
    groups = ControlGroups("runai-1-", tmp_path)
    (tmp_path / "runai-2-other").mkdir()
    assert groups.make("j1.1.0") == groups.make("j1.1.0") == tmp_path / "runai-1-j1.1.0"
    assert (tmp_path / "cgroup.subtree_control").read_text() == enabled
    assert list(groups.all()) == [("j1.1.0", tmp_path / "runai-1-j1.1.0")]


def test_the_hierarchy_of_version_2_is_found(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n")
    assert root(mounts) == Path("/sys/fs/cgroup/unified")
    mounts.write_text("tmpfs /tmp tmpfs rw 0 0\n")
    with pytest.raises(Unavailable, match="not mounted"):
        root(mounts)
