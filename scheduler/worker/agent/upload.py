"""Uploads what a worker writes."""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import Any

from scheduler.worker.agent.folders import WorkerFolders
from scheduler.worker.agent.requests import Refused, Scheduler

PIECE = 512 * 1024
"""Bytes of one request."""

SCAN = 1.0
"""Seconds between two looks at the folders."""

DEEPEST = 64
"""Files in folders that are nested more deeply are not uploaded."""


class Upload:
    """Uploads streams, which only grow, from the offset that the scheduler has, and other files when they change."""

    def __init__(self, scheduler: Scheduler, place: WorkerFolders, spec: dict[str, Any]) -> None:
        self._scheduler = scheduler
        self._areas = {**place.areas, **place.marks}
        self._kept = [(place.areas[area], mark) for area, mark in place.marks.items()]
        self._rank = spec["own"].get("RUNAI_RANK", "0")
        self._limit = int(spec["log_limit"])
        self._log = place.log
        self._streams = {"log": place.log}
        for name, path in spec["streams"].items():
            self._streams[name] = os.path.join(place.areas["output"], path)
        self._sent = dict.fromkeys(self._streams, 0)
        self._shown = 0
        self._known = {(area, path): about for area, top in self._areas.items() for path, about in self._files(top)}
        self._seen = dict(self._known)
        self._begun = (("", "", ""), 0)  # the version of a file that is being sent, and how much of it has arrived
        self._scanned = 0.0

    def go(self, *, last: bool = False) -> None:
        """Upload what is new. Raises `OSError` if this must be tried again."""
        self._grow()
        if last or time.monotonic() > self._scanned + SCAN:
            self._scan(last)
            self._grow()
            self._scanned = time.monotonic()

    def _grow(self) -> None:
        for name, path in self._streams.items():
            while True:
                piece = _part(path, self._sent[name])
                if name == "log":
                    piece = self._bounded(piece)
                if not piece:
                    break
                answer = self._scheduler.ask("PUT", "streams/" + name, piece, offset=self._sent[name])
                self._sent[name] = json.loads(answer)["size"]

    def _bounded(self, piece: bytes) -> bytes:
        """Return the part of a piece of the log that is within the limit, and print it as well; discard the rest."""
        sent, notice = self._sent["log"], b""
        if sent + len(piece) > self._limit:
            text = "\n[The log has reached its limit of %d bytes; further output is discarded.]\n"
            notice = (text % self._limit).encode()[max(0, sent - self._limit) :]
            piece = piece[: max(0, self._limit - sent)]
            with contextlib.suppress(OSError):
                os.truncate(self._log, self._limit)
        piece += notice
        with contextlib.suppress(OSError):
            os.write(1, piece[max(0, self._shown - sent) :])
        self._shown = max(self._shown, sent + len(piece))
        return piece

    def _files(self, top: str) -> list[tuple[str, tuple[int, int]]]:
        """The files below a folder, each with its size in bytes and its time of modification in ns."""
        found = []
        streams = set(self._streams.values())
        for where, folders, names in os.walk(top):
            inside = os.path.relpath(where, top)
            if inside.count(os.sep) >= DEEPEST:
                folders.clear()
            for name in names:
                path = os.path.join(where, name)
                with contextlib.suppress(OSError, UnicodeEncodeError):  # a name that a URL cannot contain
                    about = os.lstat(path)
                    if path not in streams and about.st_mode & 0o170000 == 0o100000:
                        below = os.path.normpath(os.path.join(inside, name))
                        below.encode()
                        found.append((below, (about.st_size, about.st_mtime_ns)))
        return found

    def _scan(self, last: bool) -> None:
        """Upload files that changed before the previous scan but not since (with `last`: all changed files), and report
        those that were deleted."""
        for folder, mark in self._kept:
            self._mark(folder, os.path.join(mark, f"saved-{self._rank}.json"))
        now = {(area, path): about for area, top in self._areas.items() for path, about in self._files(top)}
        for key, about in now.items():
            if about != self._known.get(key) and (last or about == self._seen.get(key)):
                try:
                    self._send(*key, *about)
                except Refused as refusal:
                    self._complain(f"{key[0]}/{key[1]} was not uploaded: {refusal}")
                self._known[key] = about
        for key in self._known.keys() - now.keys():
            with contextlib.suppress(Refused):
                self._scheduler.ask("DELETE", f"files/{key[0]}/{key[1]}")
            del self._known[key]
        self._seen = now

    def _mark(self, folder: str, mark: str) -> None:
        """Say in the file `mark` how much there is in a folder, as of the time of its last change."""
        about = [each for _, each in self._files(folder)]
        if about:
            size, modified = sum(size for size, _ in about), max(modified for _, modified in about)
            with open(mark, "w") as out:
                json.dump({"files": len(about), "bytes": size}, out)
            os.utime(mark, ns=(modified, modified))

    def _send(self, area: str, path: str, size: int, modified: int) -> None:
        full, file = os.path.join(self._areas[area], path), (area, path, f"{size}-{modified}")
        sent = self._begun[1] if self._begun[0] == file else 0
        about = {"size": size, "modified": modified / 1e9, "version": file[2]}
        while True:
            piece = _part(full, sent, size)
            if sent + len(piece) < min(size, sent + PIECE):
                return  # it has changed meanwhile; the next scan sends it
            answer = self._scheduler.ask("PUT", f"files/{area}/{path}", piece, offset=sent, **about)
            sent = json.loads(answer)["size"]
            self._begun = (file, sent if sent < size else 0)
            self._grow()
            if sent >= size:
                return

    def _complain(self, sentence: str) -> None:
        with contextlib.suppress(OSError), open(self._log, "ab") as log:
            log.write(f"\n[{sentence}]\n".encode())


def _part(path: str, offset: int, end: int | None = None) -> bytes:
    """Read a piece of a file from `offset` on, before `end`; empty if there is none."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(offset)
        return file.read(PIECE if end is None else max(0, min(PIECE, end - offset)))
    return b""
