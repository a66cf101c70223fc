"""The user that runs jobs: the scheduler's own for all of them, or each job's owner as a system user.

What must hold where jobs run as their owners:
- No job runs as root.
- An owner can enter the working, checkpoint and output folders of their jobs, and read nothing else below the state
  folder.
- Ownership is transferred once, before the owner can reach the folder: no link of theirs is ever followed.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from scheduler.errors import Invalid


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this machine, with what a process needs to run as them."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str

    @property
    def environment(self) -> dict[str, str]:
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell}


def account(name: str) -> Account:
    """The system user of that name. Raises `Invalid` if it does not exist, or for root."""
    try:
        found = pwd.getpwnam(name)
    except (KeyError, ValueError):
        raise Invalid(
            f"This machine has no user {name!r} to run the job as; ask an administrator to add one.",
            field="user",
        ) from None
    if found.pw_uid == 0:
        raise Invalid("Jobs never run as root; submit it as another user.", field="user")
    groups = tuple(os.getgrouplist(found.pw_name, found.pw_gid))
    return Account(found.pw_name, found.pw_uid, found.pw_gid, groups, found.pw_dir, found.pw_shell)


def give(folder: Path, owner: Account) -> None:
    """Make a folder and all in it the owner's; no effect if it is already theirs."""
    if folder.stat().st_uid == owner.uid:
        return
    for _, folders, files, here in os.fwalk(folder, topdown=False, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, owner.uid, owner.gid, dir_fd=here, follow_symlinks=False)
    os.chown(folder, owner.uid, owner.gid, follow_symlinks=False)  # last: until then the owner cannot enter


def check(state_dir: Path) -> None:
    """Raises `Invalid` if jobs cannot run as their owners, or owners could not enter their folders."""
    if os.geteuid() != 0:
        raise Invalid("Only root can run jobs as their owners; leave jobs_as at `scheduler`.", field="jobs_as")
    closed = next((each for each in state_dir.resolve().parents if not each.stat().st_mode & 0o001), None)
    if closed is not None:
        raise Invalid(
            f"The owners of jobs cannot access {closed}, and so not the state folder {state_dir}; "
            "choose another with --state-dir, as /var/lib/runai.",
            field="state_dir",
        )
