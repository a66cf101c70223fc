"""Container images without a registry: archives in the format of `docker save`, from files of this machine."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path

PAUSE = "tests.local/pause:1"
PYTHON = "tests.local/python:1"
"""PYTHON has the tests' interpreter as `python3`, its standard library, `sh` and a few commands."""

USER = 1000
COMMANDS_AT = "/usr/local/bin:/usr/bin:/bin"
COMMANDS = ("sh", "cat", "ls", "env", "sleep", "id")
LEFT_OUT = ("test", "tests", "idlelib", "turtledemo", "lib2to3", "ensurepip", "site-packages", "dist-packages")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Layer:
    """The files of an image, with their parent folders."""

    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        self._tar = tarfile.TarFile(fileobj=self._bytes, mode="w")
        self._added = {"."}

    def folder(self, path: str, mode: int = 0o755) -> None:
        for parent in reversed(Path(path).parents):
            if str(parent) not in self._added:
                self.folder(str(parent))
        if path not in self._added:
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            self._add(entry)

    def text(self, path: str, content: str) -> None:
        self._parents(path)
        entry = tarfile.TarInfo(path)
        entry.size = len(content)
        self._add(entry, io.BytesIO(content.encode()))

    def link(self, path: str, target: str) -> None:
        self._parents(path)
        entry = tarfile.TarInfo(path)
        entry.type, entry.linkname = tarfile.SYMTYPE, target
        self._add(entry)

    def copy(self, source: Path, path: str | None = None) -> None:
        """A file of this machine, at the same path or at another."""
        path = path or str(source).lstrip("/")
        self._parents(path)
        entry = tarfile.TarInfo(path)
        entry.size, entry.mode = source.stat().st_size, source.stat().st_mode & 0o777
        with source.open("rb") as opened:
            self._add(entry, opened)

    def program(self, source: Path, path: str | None = None) -> None:
        """A program with its linked libraries."""
        self.copy(source, path)
        self.libraries([source])

    def libraries(self, programs: Sequence[Path]) -> None:
        """The linked libraries of programs and modules."""
        listed = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
        for library in dict.fromkeys(re.findall(r"(/\S+) \(0x", listed)):
            self.copy(Path(library))

    def tree(self, files: Iterable[Path]) -> None:
        """Files of this machine at the same paths, with the linked libraries of modules."""
        modules = []
        for file in files:
            if file.is_symlink():
                self.link(str(file).lstrip("/"), str(file.readlink()))
            elif file.is_file():
                self.copy(file)
                if ".so" in file.suffixes:
                    modules.append(file)
        if modules:
            self.libraries(modules)

    def _parents(self, path: str) -> None:
        self.folder(str(Path(path).parent))

    def _add(self, entry: tarfile.TarInfo, content: io.BufferedIOBase | None = None) -> None:
        if entry.name not in self._added:
            self._added.add(entry.name)
            self._tar.addfile(entry, content)

    def close(self) -> bytes:
        self._tar.close()
        return self._bytes.getvalue()


def write_image(
    archive: Path, name: str, layer: bytes, entrypoint: Iterable[str] = (), path: str = COMMANDS_AT
) -> Path:
    config = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": list(entrypoint), "Env": [f"PATH={path}"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as tar:
        for inside, content in (
            ("manifest.json", json.dumps(manifest).encode()),
            ("config.json", json.dumps(config).encode()),
            ("layer.tar", layer),
        ):
            entry = tarfile.TarInfo(inside)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return archive


def pause_image(folder: Path) -> Path:
    program = folder / "pause"
    source = Path(__file__).with_name("pause.c")
    subprocess.run(["gcc", "-static", "-O2", "-o", program, source], check=True, timeout=60)
    layer = Layer()
    layer.copy(program, "pause")
    return write_image(folder / "pause.tar", PAUSE, layer.close(), ["/pause"])


def python_image(folder: Path) -> Path:
    return write_image(folder / "python.tar", PYTHON, _python().close())


def environment_image(folder: Path, name: str, environment: Path) -> Path:
    """The image PYTHON with a virtual environment of the tests' interpreter, at the same path."""
    layer = _python()
    layer.tree(sorted(environment.rglob("*")))
    return write_image(folder / "environment.tar", name, layer.close(), path=f"{environment / 'bin'}:{COMMANDS_AT}")


def _python() -> Layer:
    layer = Layer()
    layer.folder("tmp", 0o1777)
    layer.text("etc/passwd", f"root:x:0:0::/root:/bin/sh\nuser:x:{USER}:{USER}::/tmp:/bin/sh\n")
    layer.text("etc/group", f"root:x:0:\nuser:x:{USER}:\n")
    interpreter = Path(sys.executable).resolve()
    layer.program(interpreter)
    layer.link("usr/bin/python3", str(interpreter))
    library = Path(sysconfig.get_path("stdlib"))
    layer.tree(file for file in sorted(library.rglob("*")) if _is_needed(file.relative_to(library)))
    for command in COMMANDS:
        found = shutil.which(command)
        assert found is not None
        layer.program(Path(found).resolve(), f"usr/bin/{command}")
    layer.link("bin", "usr/bin")
    return layer


def _is_needed(file: Path) -> bool:
    """Whether pods need a file of the standard library."""
    return not {*file.parts} & {*LEFT_OUT} and not file.parts[0].startswith("config-") and file.suffix != ".pyc"
