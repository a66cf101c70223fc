"""`%%runai_train` for a cell, `%runai_train` for a script or a command: from a line in the notebook to a job in the pool.

What must hold: whatever is wrong is said in one sentence before anything is queued; once a job is queued, nothing that
happens here stops it but its owner.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import re
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class
from traitlets import Float, Int, Unicode

from jupyter_ext import options
from jupyter_ext.capture import CannotTravel, Cell, capture
from scheduler.bundle import Content, in_words

PYTHON = (sys.executable, "-P", "-m", "jupyter_ext.cell_runner")
"""`-P`: a `random.py` in the working directory must not come before the standard library's while the runner starts."""

ALONG = (
    "PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "LD_LIBRARY_PATH",
    "PYTHONPATH",
    "LANG",
    "LC_ALL",
    "TZ",
)
"""The variables that make the job's Python environment the kernel's."""


@dataclass(frozen=True, slots=True)
class _What:
    """What is to be run: the program and the files that it needs beside those of the folder."""

    kind: str
    name: str
    command: tuple[str, ...]
    files: Mapping[str, Content] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    patterns: Sequence[str] = ()


@magics_class
class RunaiMagics(Magics):
    """The magics; their defaults are configured in `ipython_kernel_config.py` (`c.RunaiMagics.project = "vision"`)."""

    gpus = Float(1.0, min=0, help="GPUs of a worker where --gpus says nothing.").tag(config=True)
    project = Unicode(None, allow_none=True, help="The project where --project says nothing.").tag(
        config=True
    )
    max_capture = Int(4 * 2**30, min=0, help="The most bytes of variables that a cell takes along.").tag(
        config=True
    )

    @line_cell_magic
    def runai_train(self, line: str, cell: str | None = None) -> Any:
        from jupyter_ext.connection import connect
        from jupyter_ext.handle import Job

        shell: Any = self.shell
        with _in_one_sentence():
            asked = options.read(line)
            with _interrupted("Interrupted before anything was queued."):
                what = self._command(asked) if cell is None else self._cell(asked, line, cell)
                submission = self._prepare(asked, what)
            with _interrupted("Interrupted while it was being queued; the panel shows whether it was."):
                job = Job(connect().submit(submission))
        shell.user_ns["_job"] = job
        if asked.detach:
            return job
        job.shown_in = shell.execution_count
        job.wait()
        with _in_one_sentence():
            shell.push(job.outputs)
        return job

    # -- what is to be run ----------------------------------------------------------------------------------

    def _cell(self, asked: argparse.Namespace, line: str, text: str) -> _What:
        if asked.script:
            word = asked.script[0]
            raise UsageError(
                f"{word!r} is no option. A list such as --out a,b has no spaces; a script runs with one percent sign, "
                "%runai_train."
            )
        if asked.tail is not None:
            raise UsageError(
                "A cell takes no words after `--`; for a command use %runai_train, one percent sign."
            )
        shell: Any = self.shell
        only, patterns = self._takes(asked)
        cell = Cell(text, shell.execution_count, f"%%runai_train {line}".rstrip())
        try:
            captured = capture(cell, shell, outputs=asked.out, only=only, limit=self.max_capture)
        except SyntaxError as error:
            raise _not_python(error, cell) from None
        return _What("cell", f"cell-{cell.number}", PYTHON, captured.files, captured.sizes, patterns)

    def _takes(self, asked: argparse.Namespace) -> tuple[Sequence[str] | None, Sequence[str]]:
        """`--in` as the variables (`None`: those the cell uses) and the patterns of files that it names."""
        if asked.takes is None:
            return ([] if asked.no_capture else None), ()
        namespace: Mapping[str, Any] = self.shell.user_ns  # type: ignore[union-attr]
        variables = [name for name in asked.takes if name in namespace]
        patterns = [name for name in asked.takes if name not in namespace]
        for name in patterns:
            if name.isidentifier() and not Path(name).exists():
                close = difflib.get_close_matches(name, [n for n in namespace if not n.startswith("_")], n=1)
                meant = f"; did you mean `{close[0]}`?" if close else "."
                raise UsageError(f"--in: there is neither a variable nor a file {name!r}{meant}")
        if asked.no_capture and variables:
            raise UsageError(
                f"--in names the variable `{variables[0]}`, and --no-capture takes none; leave one of them out."
            )
        return (variables or ([] if asked.no_capture else None)), patterns

    def _command(self, asked: argparse.Namespace) -> _What:
        for option, given in (("--out", asked.out), ("--no-capture", asked.no_capture)):
            if given:
                raise UsageError(
                    f"{option} is for cells (%%runai_train); a script leaves files in $RUNAI_OUTPUT_DIR."
                )
        patterns: Sequence[str] = asked.takes or ()
        match asked.script:
            case []:
                if not asked.tail:
                    raise UsageError(
                        "Say what to run: a script (%runai_train train.py), a command after `--`, or a cell "
                        "(%%runai_train above it)."
                    )
                return _What("command", _name(asked.tail[0]), tuple(asked.tail), patterns=patterns)
            case [script]:
                path = _script(script)
                program = (sys.executable, str(path)) if path.suffix == ".py" else (f"./{path}",)
                files = {path.as_posix(): path.read_bytes()} if path.suffix == ".py" else {}
                return _What(
                    "script", _name(path.name), (*program, *(asked.tail or ())), files, patterns=patterns
                )
            case [script, word, *_]:
                raise UsageError(f"Words for {script} come after `--`: %runai_train {script} -- {word} …")
        raise AssertionError(asked.script)

    # -- sending --------------------------------------------------------------------------------------------

    def _prepare(self, asked: argparse.Namespace, what: _What) -> Any:
        """Put the bundle where the scheduler finds it; what is to be submitted then."""
        from jupyter_ext.connection import connect
        from scheduler.bundle import Listing, pack, survey
        from scheduler.client.uploading import upload

        client = connect()
        here = Path.cwd()
        listing = Listing(here, ()) if asked.no_files else survey(here, what.patterns)
        files = [entry for entry in listing.entries if entry.path not in what.files]
        bundle = pack(listing, what.files)
        submission = self._submission(asked, what)
        if what.sizes or files:
            print(_what_goes(what.sizes, len(files), sum(entry.size for entry in files)), flush=True)
        uploaded = upload(client, bundle)
        if uploaded.unchanged:
            print(f"{in_words(uploaded.unchanged)} of it are in the pool already.", flush=True)
        return submission.model_copy(update=uploaded.fields)

    def _submission(self, asked: argparse.Namespace, what: _What) -> Any:
        from pydantic import ValidationError

        from scheduler.api.schema import JobSubmit

        given = {
            "name": asked.name or what.name,
            "project": asked.project or self.project,
            "kind": what.kind,
            "command": list(what.command),
            "env": {**_environment(), **dict(asked.env)},
            "outputs": asked.out,
            "gpus": self.gpus if asked.gpus is None and asked.gpu_memory is None else asked.gpus,
            "gpu_memory_gib": asked.gpu_memory,
            "gpu_types": asked.gpu_type,
            "cpus": asked.cpus,
            "memory_gib": asked.memory,
            "workers": asked.workers,
            "min_workers": asked.min_workers,
            "priority": asked.priority,
            "max_runtime": asked.max_runtime,
            "expected_runtime": asked.expected_runtime,
            "retries": asked.retries,
        }
        try:
            return JobSubmit.model_validate(
                {name: value for name, value in given.items() if value is not None}
            )
        except ValidationError as error:
            raise _wrong_option(error) from None


RunaiMagics.runai_train.__doc__ = options.help_text()


@contextlib.contextmanager
def _in_one_sentence() -> Iterator[None]:
    """What is refused is told as IPython tells wrong usage: without a traceback."""
    from scheduler.errors import RunaiError

    try:
        yield
    except RunaiError as error:
        raise UsageError(error.sentence) from None
    except CannotTravel as error:
        raise UsageError(str(error)) from None


@contextlib.contextmanager
def _interrupted(sentence: str) -> Iterator[None]:
    from jupyter_ext.handle import LetGo

    try:
        yield
    except KeyboardInterrupt:
        raise LetGo(sentence) from None


def _wrong_option(error: Any) -> UsageError:
    """pydantic's first complaint, in the words of the magic's options."""
    first = error.errors(include_url=False)[0]
    field = str(first["loc"][0])
    option = {"gpu_types": "gpu-type", "outputs": "out"}.get(
        field, field.removesuffix("_gib").replace("_", "-")
    )
    message = first["msg"].removeprefix("Input ").removeprefix("Value ")
    given = first["input"]
    return UsageError(f"--{option} {message}, not {given!r}.")


def _not_python(error: SyntaxError, cell: Cell) -> Exception:
    """What Python says of a cell that it can't read, with the line counted as in the notebook."""
    from jupyter_ext.handle import Calm

    error.filename = f"Cell In[{cell.number}]"
    if error.lineno is not None:
        error.lineno += 1  # the magic's own line
    return Calm("".join(traceback.format_exception_only(error)))


def _environment() -> dict[str, str]:
    """The kernel's Python environment: `python` in a command of the job is the kernel's own."""
    own = {name: os.environ[name] for name in ALONG if name in os.environ}
    folder = os.path.dirname(sys.executable)
    return {**own, "PATH": os.pathsep.join([folder, own.get("PATH", os.defpath)])}


def _script(given: str) -> Path:
    """A script as a path below the working directory."""
    path = Path(given).expanduser()
    if not path.is_file():
        folder = path.parent
        names = os.listdir(folder) if folder.is_dir() else []
        close = difflib.get_close_matches(path.name, names, n=1)
        meant = f"; did you mean {folder / close[0]}?" if close else "."
        raise UsageError(f"There is no file {given} in {Path.cwd()}{meant}")
    here = Path.cwd().resolve()
    whole = path.resolve()
    if not whole.is_relative_to(here):
        raise UsageError(
            f"{given} lies outside of {here}, whose files the job takes along; go there first with %cd."
        )
    if path.suffix != ".py" and not os.access(path, os.X_OK):
        raise UsageError(f"{given} is neither a Python script nor a program; say how to run it after `--`.")
    return whole.relative_to(here)


def _name(text: str) -> str:
    """A name for the job from a file or a program; what a name can't have is left out."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", Path(text).name).strip("._-")[:128] or "job"


def _what_goes(sizes: Mapping[str, int], files: int, size: int) -> str:
    """`Takes along train (1.2 MiB), config, fit (in all 1.3 MiB) and 3 files of this folder (12 KiB).`"""
    names = sorted(sizes, key=lambda name: -sizes[name])
    large = [name for name in names if sizes[name] >= 100 * 1024 and len(names) > 1]
    shown = [f"{name} ({in_words(sizes[name])})" if name in large else name for name in names[:8]]
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    total = f"({'in all ' if large else ''}{in_words(sum(sizes.values()))})"
    variables = f"{', '.join(shown)}{more} {total}" if names else ""
    folder = f"{files} file{'' if files == 1 else 's'} of this folder ({in_words(size)})" if files else ""
    return f"Takes along {' and '.join(filter(None, (variables, folder)))}."
