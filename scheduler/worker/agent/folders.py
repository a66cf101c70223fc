"""The folders of a worker: filled with its files, and the worker started in them."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from typing import Any

from scheduler.worker.agent.requests import Refused, Scheduler
from scheduler.worker.processes import die_with, why_not


class WorkerFolders:
    """The folders of the worker, inside `home`. The areas in `keeps` are on a volume, and neither fetched nor uploaded:
    the scheduler only gets a mark in their place, in a folder of `marks`."""

    def __init__(self, home: str, spec: dict[str, Any], keeps: Sequence[str] = ()) -> None:
        self.work = os.path.join(home, "work")
        self.tools = os.path.join(home, "tools")
        self.log = os.path.join(home, "log")
        self.save_request = os.path.join(home, "save")
        self.areas = {area: os.path.join(home, area) for area in ("output", "checkpoint")}
        self.marks = {area: os.path.join(home, "marks", area) for area in keeps}
        for folder in (self.work, self.tools, *self.areas.values(), *self.marks.values()):
            os.makedirs(folder, exist_ok=True)
        self._spec = spec

    def fill(self, scheduler: Scheduler) -> None:
        """Fetch the job's files, the checkpoints of earlier attempts, and the tools that its framework needs."""
        if self._spec["bundle"]:
            packed = os.path.join(self.tools, "bundle")
            self._fetch(scheduler, self._spec["bundle"], packed)
            with tarfile.open(packed, "r:gz") as archive:
                members = [_inside(member) for member in archive.getmembers()]
                archive.extraction_filter = getattr(tarfile, "data_filter", None)  # an older Python has none
                archive.extractall(self.work, members)
            os.unlink(packed)
        for file in self._spec["files"]:
            path = os.path.join(self.work, file["path"])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            open(path, "wb").close()
            for blob in file["blobs"]:
                self._fetch(scheduler, blob, path)
            os.chmod(path, 0o755 if file["executable"] else 0o644)
        for name in self._spec["tools"]:
            path = os.path.join(self.tools, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as out:
                out.writelines(scheduler.read("tools/" + name))
        if "checkpoint" in self.marks:
            return
        for file in json.loads(scheduler.ask_until_answered("GET", "files/checkpoint"))["files"]:
            path = os.path.join(self.areas["checkpoint"], file["path"])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as out:
                out.writelines(scheduler.read("files/checkpoint/" + file["path"]))
            os.utime(path, (file["modified"], file["modified"]))

    def _fetch(self, scheduler: Scheduler, digest: str, path: str) -> None:
        """Append a blob to a file. Raises `Refused` if its content does not match its digest."""
        found = hashlib.sha256()
        with open(path, "ab") as out:
            for piece in scheduler.read("blobs/" + digest):
                found.update(piece)
                out.write(piece)
        if found.hexdigest() != digest:
            raise Refused("A file of the job was damaged in transit.")

    def start(self) -> subprocess.Popen[bytes]:
        """Start the worker. Raises `Refused` with the reason if that is impossible."""
        spec, agent = self._spec, os.getpid()
        env = {**os.environ, **spec["env"]}
        if spec["python_path"]:
            before = os.path.join(self.tools, spec["python_path"])
            env["PYTHONPATH"] = os.pathsep.join(filter(None, (before, env.get("PYTHONPATH"))))
        env.update(spec["own"])
        for area, folder in self.areas.items():
            env[f"RUNAI_{area.upper()}_DIR"] = folder
        env["RUNAI_SAVE_REQUEST"] = self.save_request
        command = list(spec["command"])
        if spec["wrapper"]:
            file = os.path.join(self.tools, spec["wrapper"]["file"])
            command[:0] = [sys.executable, "-I", "-S", file, *spec["wrapper"]["arguments"]]

        def in_the_worker() -> None:
            os.setpgid(0, 0)
            die_with(agent)

        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            return subprocess.Popen(
                command,
                cwd=self.work,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=in_the_worker,
            )
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            sentence = why_not(error, spec["command"][0], self.work)
            os.write(log, (sentence + "\n").encode())
            raise Refused(sentence) from None
        finally:
            os.close(log)


def _inside(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Refuse a member outside the folder: the tarfile of an older Python does not check this."""
    names = [member.name] + ([member.linkname] if member.issym() or member.islnk() else [])
    if any(os.path.isabs(name) or ".." in name.split("/") for name in names[:1]) or os.path.isabs(names[-1]):
        raise Refused(f"The bundle holds {member.name!r}, which is outside the job's folder.")
    return member
