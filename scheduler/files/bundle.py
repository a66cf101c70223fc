"""Packs the files of a job: a folder becomes one deterministic tar.gz and separate large files. It needs neither the
network nor the scheduler.

What must hold:
- The same files give the same bytes, and so the same digest: order, owners and times are not included.
- A large file is not in the tar.gz: it is stored separately, in parts, so that unchanged parts are sent once.
- Nothing is packed unintentionally: hidden files and folders (`.git`, `.ssh`, `.env`, …), caches, virtual environments,
  files that `.gitignore` names, and links that lead out of the folder are left out.
- With patterns (`--in`), in the syntax of `.gitignore`, only what they match is packed. A hidden name is packed if a
  pattern names it explicitly.
- A folder that is too large is refused before anything is read, with a sentence that names what is large.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from pathspec import GitIgnoreSpec, PathSpec

from scheduler.errors import Invalid, NotFound, TooLarge
from scheduler.files.gzipped import GzipWriter

Content = bytes | memoryview

MAX_BYTES = 256 * 2**20
MAX_FILES = 20_000

LARGE = 2**20
"""Files of at least this many bytes are not in the archive."""
PART = 16 * 2**20
"""Bytes of a part of a large file: small enough that glibc reuses the memory for the next part, unlike 32 MiB."""

_STAY_BEHIND = frozenset({"__pycache__", "node_modules"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One file (or a link within the folder): its path below the folder, with `/`, and its size in bytes."""

    path: str
    size: int
    executable: bool = False
    link: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The files to pack from `folder`, in order; `outside` names the links that are left out because they lead out of
    it."""

    folder: Path
    entries: tuple[Entry, ...]
    outside: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return sum(entry.size for entry in self.entries)


@dataclass(frozen=True, slots=True)
class Large:
    """A large file: its name in the job, and its bytes or their path."""

    entry: Entry
    source: Content | Path = field(repr=False)

    def part(self, start: int) -> bytes:
        """The part that begins at byte `start`. Raises `Invalid` where the file has changed since it was listed."""
        size = min(PART, self.entry.size - start)
        if not isinstance(self.source, Path):
            return bytes(self.source[start : start + size])
        try:
            with self.source.open("rb") as file:
                file.seek(start)
                part = file.read(size)
                same = len(part) == size and os.fstat(file.fileno()).st_size == self.entry.size
        except OSError as error:
            raise _changed(self.source, error.strerror) from error
        if not same:
            raise _changed(self.source, None)
        return part


@dataclass(frozen=True, slots=True)
class Bundle:
    """A tar.gz, the SHA-256 of its bytes, and the large files that are not in it."""

    data: bytes = field(repr=False)
    digest: str
    listing: Listing
    large: tuple[Large, ...] = ()


def snapshot(
    folder: Path,
    patterns: Sequence[str] = (),
    *,
    extra: Mapping[str, Content] | None = None,
    max_bytes: int = MAX_BYTES,
    max_files: int = MAX_FILES,
) -> Bundle:
    """List `folder` and pack it; the files of `extra` (path → content) are added or replace others."""
    return pack(survey(folder, patterns, max_bytes=max_bytes, max_files=max_files), extra or {})


# -- which files ------------------------------------------------------------------------------------------


def survey(
    folder: Path,
    patterns: Sequence[str] = (),
    *,
    ignored: Sequence[str] = (),
    max_bytes: int = MAX_BYTES,
    max_files: int = MAX_FILES,
) -> Listing:
    """List the files of `folder` for a job: those that match `patterns` or, without patterns, all but those that
    `ignored` and `.gitignore` name.

    Raises `NotFound` for a missing folder, `Invalid` for a pattern that matches nothing or leads out of the folder,
    `TooLarge` for more than `max_bytes` or `max_files`.
    """
    folder = Path(folder).absolute()
    if not folder.is_dir():
        raise NotFound(f"There is no folder {folder}.")
    chosen = [_relative(pattern, folder) for pattern in patterns]
    walk = _Walk(folder, chosen, ignored)
    entries: list[Entry] = []
    size = 0
    too_many = False
    for entry in walk:
        entries.append(entry)
        size += entry.size
        if len(entries) == 10 * max_files:  # enough to report what is large
            too_many = True
            break
    if size > max_bytes:
        raise TooLarge(_too_large(folder, entries, size, max_bytes))
    if too_many or len(entries) > max_files:
        raise TooLarge(_too_many(folder, entries, max_files, too_many))
    for pattern, text in zip(chosen, patterns, strict=True):
        if not pattern.startswith("!") and not _matches_any(pattern, entries):
            raise Invalid(f"No file in {folder} matches {text!r}; look at --in.", field="in")
    entries.sort(key=lambda entry: entry.path)
    return Listing(folder, tuple(entries), tuple(sorted(walk.outside)))


class _Walk:
    """Yields the entries of a folder, and collects the links that lead out of it."""

    def __init__(self, folder: Path, chosen: Sequence[str], ignored: Sequence[str]) -> None:
        self.folder = folder
        self.real = folder.resolve()
        self.outside: list[str] = []
        self._chosen = PathSpec.from_lines("gitignore", chosen) if chosen else None
        self._ignored = (str(folder), GitIgnoreSpec.from_lines(ignored))
        self._spelled = {part for pattern in chosen for part in pattern.lstrip("!").strip("/").split("/")}

    def __iter__(self) -> Iterator[Entry]:
        rules = [] if self._chosen else [self._ignored, *_rules_above(self.folder)]
        yield from self._folder("", rules)

    def _folder(self, below: str, rules: list[tuple[str, GitIgnoreSpec]]) -> Iterator[Entry]:
        try:
            with os.scandir(self.folder / below) as listing:
                found = sorted(listing, key=lambda item: item.name)
        except PermissionError as error:
            raise Invalid(f"{error.filename} cannot be read; choose the files to send with --in.") from None
        if not self._chosen and any(item.name == ".gitignore" and item.is_file() for item in found):
            rules = [*rules, (str(self.folder / below), _read_rules(self.folder / below / ".gitignore"))]
        for item in found:
            path = f"{below}/{item.name}" if below else item.name
            is_folder = item.is_dir(follow_symlinks=False)
            if self._stays_behind(item, is_folder) or (rules and _ignored(str(self.folder / path), is_folder, rules)):
                continue
            if is_folder:
                yield from self._folder(path, rules)
            elif self._chosen is None or self._chosen.match_file(path):
                entry = self._entry(item, path)
                if entry is not None:
                    yield entry

    def _stays_behind(self, item: os.DirEntry[str], is_folder: bool) -> bool:
        if item.name in self._spelled:
            return False
        return (
            item.name.startswith(".")
            or item.name in _STAY_BEHIND
            or (is_folder and os.path.exists(os.path.join(item.path, "pyvenv.cfg")))
        )

    def _entry(self, item: os.DirEntry[str], path: str) -> Entry | None:
        about = item.stat(follow_symlinks=False)
        if stat.S_ISLNK(about.st_mode):
            target = os.readlink(item.path)
            real = Path(item.path).resolve()
            if os.path.isabs(target) or not real.is_relative_to(self.real):
                self.outside.append(path)
                return None
            return Entry(path, 0, link=target)
        if not stat.S_ISREG(about.st_mode):
            return None  # sockets, pipes and devices are not packed
        return Entry(path, about.st_size, executable=bool(about.st_mode & stat.S_IXUSR))


def _relative(pattern: str, folder: Path) -> str:
    """A pattern in the syntax of `.gitignore`: relative to the folder, without `./` in front."""
    negated, text = ("!", pattern[1:]) if pattern.startswith("!") else ("", pattern)
    if os.path.isabs(text) and (text == str(folder) or text.startswith(f"{folder}/")):
        text = "/" + text[len(str(folder)) :].lstrip("/")
    anchored = text.startswith("./")
    text = text.removeprefix("./")
    if not text.strip("/."):
        text = "*"
    if ".." in PurePosixPath(text).parts:
        raise Invalid(f"{pattern!r} is outside {folder}; a job can only send files below it.", field="in")
    return f"{negated}{'/' if anchored and text != '*' else ''}{text}"


def _matches_any(pattern: str, entries: Iterable[Entry]) -> bool:
    spec = PathSpec.from_lines("gitignore", [pattern])
    return any(spec.match_file(entry.path) for entry in entries)


# -- .gitignore ---------------------------------------------------------------------------------------------


def _read_rules(file: Path) -> GitIgnoreSpec:
    return GitIgnoreSpec.from_lines(file.read_text("utf-8", errors="replace").splitlines())


def _rules_above(folder: Path) -> list[tuple[str, GitIgnoreSpec]]:
    """The rules of the folders above, up to the root of the repository that `folder` is in.

    Empty where it is in no repository, or where the repository ignores the whole folder: its rules then do not apply.
    """
    if (folder / ".git").exists():
        return []
    rules: list[tuple[str, GitIgnoreSpec]] = []
    for parent in folder.parents:
        if (parent / ".gitignore").is_file():
            rules.append((str(parent), _read_rules(parent / ".gitignore")))
        if (parent / ".git").exists():
            rules.reverse()
            return [] if _outside(folder, parent, rules) else rules
    return []


def _outside(folder: Path, root: Path, rules: Sequence[tuple[str, GitIgnoreSpec]]) -> bool:
    """Whether the repository ignores `folder` or one above it."""
    within = [folder, *folder.parents]
    return any(_ignored(str(each), True, rules) for each in within[: within.index(root)])


def _ignored(path: str, is_folder: bool, rules: Sequence[tuple[str, GitIgnoreSpec]]) -> bool:
    """Whether the innermost rules that match `path` ignore it, as in git."""
    for base, spec in reversed(rules):
        verdict = spec.check_file(os.path.relpath(path, base) + ("/" if is_folder else "")).include
        if verdict is not None:
            return verdict
    return False


# -- packing ------------------------------------------------------------------------------------------------


def pack(listing: Listing, extra: Mapping[str, Content]) -> Bundle:
    """Read the listed files, except the large ones, into a tar.gz. Raises `Invalid` where one disappears or shrinks
    meanwhile."""
    raw = io.BytesIO()
    large: list[Large] = []
    with (
        GzipWriter(raw) as packed,
        tarfile.open(fileobj=cast(BinaryIO, packed), mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        members = {entry.path: entry for entry in listing.entries}
        for path in sorted(members.keys() | extra.keys()):
            source = extra.get(path, listing.folder / path)
            entry = members[path] if isinstance(source, Path) else Entry(path, len(source))
            if entry.size >= LARGE:
                large.append(Large(entry, source))
            elif isinstance(source, Path):
                _add_file(archive, entry, source)
            else:
                _add(archive, entry, io.BytesIO(source))
    data = raw.getvalue()
    return Bundle(data, hashlib.sha256(data).hexdigest(), listing, tuple(large))


def _add_file(archive: tarfile.TarFile, entry: Entry, file: Path) -> None:
    if entry.link is not None:
        _add(archive, entry, None)
        return
    try:
        with file.open("rb") as content:
            _add(archive, entry, content)
    except OSError as error:
        raise _changed(file, error.strerror) from error


def _add(archive: tarfile.TarFile, entry: Entry, content: io.BufferedIOBase | None) -> None:
    info = tarfile.TarInfo(entry.path)
    if entry.link is not None:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, entry.link, 0o777
    else:
        info.size, info.mode = entry.size, 0o755 if entry.executable else 0o644
    archive.addfile(info, content)


def _changed(file: Path, why: str | None) -> Invalid:
    why = why or "it changed while it was being read"
    return Invalid(f"{file} could not be sent ({why}); try again.")


# -- what is too large --------------------------------------------------------------------------------------

_CHOOSE = "Choose what the job needs with --in, list the rest in .gitignore, or send nothing with --no-files."


def _too_large(folder: Path, entries: Iterable[Entry], size: int, most: int) -> str:
    by_top = Counter[str]()
    for entry in entries:
        top, slash, _ = entry.path.partition("/")
        by_top[top + slash] += entry.size
    largest = ", ".join(f"{path} ({in_words(size)})" for path, size in by_top.most_common(3))
    return (
        f"The files in {folder} come to {in_words(size)}, and a job may send {in_words(most)} at most; "
        f"the largest are {largest}. {_CHOOSE}"
    )


def _too_many(folder: Path, entries: Iterable[Entry], most: int, stopped: bool) -> str:
    by_top = Counter(entry.path.partition("/")[0] + "/" for entry in entries if "/" in entry.path)
    largest = ", ".join(f"{path} ({count:,})" for path, count in by_top.most_common(3))
    count = f"{len(list(entries)):,} and more" if stopped else f"{len(list(entries)):,}"
    return (
        f"There are {count} files in {folder}, and a job may send {most:,} at most"
        f"{f'; most are in {largest}' if largest else ''}. {_CHOOSE}"
    )


def in_words(size: float) -> str:
    """A number of bytes for people: `12 B`, `3.4 MiB`."""
    if size < 1024:
        return f"{size:.0f} B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        size /= 1024
        if size < 1024 or unit == "TiB":
            return f"{size:.0f} {unit}" if size >= 100 else f"{size:.1f} {unit}"
    raise AssertionError  # the loop always returns
