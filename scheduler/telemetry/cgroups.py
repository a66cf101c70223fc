"""Control groups (version 2) for processes that share a GPU: a group for each worker and notebook server, at the top of
the hierarchy.

The groups are siblings because the driver adds up what it reserves in a group to those above it
(https://docs.nvidia.com/deploy/mps/latest/mpsv3-memory-partitioning.html).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from scheduler.errors import Unavailable

MOUNTS = Path("/proc/self/mounts")


def root(mounts: Path = MOUNTS) -> Path:
    """Where the hierarchy is mounted. Raises `Unavailable` where it is not."""
    for line in mounts.read_text().splitlines():
        _, folder, kind, *_ = line.split(" ")
        if kind == "cgroup2":
            return Path(folder)
    raise Unavailable("Control groups of version 2 are not mounted.")


class ControlGroups:
    """The groups whose names begin with `prefix`."""

    def __init__(self, prefix: str, root: Path) -> None:
        self._prefix = prefix
        self._root = root

    def make(self, name: str) -> Path:
        """A group of that name, new or not. Raises `OSError`."""
        folder = self._root / f"{self._prefix}{name}"
        folder.mkdir(exist_ok=True)
        if "dmem" in (self._root / "cgroup.controllers").read_text().split():
            (self._root / "cgroup.subtree_control").write_text("+dmem")
        return folder

    def all(self) -> Iterator[tuple[str, Path]]:
        """The groups by name."""
        for folder in self._root.glob(f"{self._prefix}*"):
            yield folder.name.removeprefix(self._prefix), folder
