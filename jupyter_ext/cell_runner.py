"""Runs a cell in a job: `python -P -m jupyter_ext.cell_runner`, in a working directory that has `.runai-cell/`.

The cell finds the variables it had in the notebook and runs as IPython runs a cell: magics, `await`, the last
expression shown, plots and tables displayed (`jupyter_ext.displays`), tracebacks with the notebook's own lines. The
variables that `--out` names are written to the job's output folder when the cell has ended; an exception makes the job
fail, with the traceback in its log and, machine-readable, in `result.json`.

Exit codes: 0, 1 for an exception, the code that the cell passed to `sys.exit`, and 3 where the cell could not be run.
"""

from __future__ import annotations

import builtins
import getpass
import importlib
import json
import linecache
import mmap
import os
import sys
import tempfile
import traceback
import types
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
from traitlets.config import Config

from jupyter_ext import job, pictures
from jupyter_ext.displays import Displays, LastValue, Publisher
from jupyter_ext.serialization import BUFFERS, CELL, FOLDER, RESULT, VARIABLES, TooLarge, Unreadable, pack, unpack

NOT_RUN = 3


class _Output(LastValue):
    shell: _Shell

    def quiet(self) -> bool:
        """Whether the cell ends in a semicolon."""
        return bool(self.semicolon_at_end_of_expression(self.shell.source))  # type: ignore[no-untyped-call]


class _Shell(InteractiveShell):
    """A non-interactive IPython: it reads no configuration, keeps no history and records how the cell failed."""

    displayhook_class = _Output
    display_pub_class = Publisher
    displays: Displays
    failure: Mapping[str, Any] | None = None
    source = ""

    def enable_gui(self, gui: str | None = None) -> None:
        """There is no GUI; `%matplotlib inline` needs none."""

    def showtraceback(self, *args: Any, **options: Any) -> None:
        """`sys.exit` in a cell is a normal end: only its message, if any, is shown."""
        error = sys.exc_info()[1]
        if not isinstance(error, SystemExit):
            super().showtraceback(*args, **options)
        elif isinstance(error.code, str):
            print(error.code, file=sys.stderr)

    def _showtraceback(self, etype: type[BaseException], evalue: BaseException, stb: Any) -> None:
        lines = stb if isinstance(stb, list) else [str(stb)]
        self.failure = {"name": etype.__name__, "message": str(evalue), "traceback": lines}
        super()._showtraceback(etype, evalue, stb)


def main() -> int:
    about = json.loads(Path(CELL).read_text("utf-8"))
    theirs = ".".join(map(str, about["python"]))
    mine = ".".join(map(str, sys.version_info[:2]))
    if theirs != mine:
        print(
            f"The cell was sent from Python {theirs} and this is {mine}; its variables can't be read.",
            file=sys.stderr,
        )
        return NOT_RUN
    if _brings_back():
        # The result of an earlier attempt does not count for this one.
        (_output_folder() / RESULT).unlink(missing_ok=True)
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    module = _main_module(about)
    try:
        buffers = map(_memory, range(about["buffers"]))
        variables = unpack(Path(VARIABLES).read_bytes(), tuple(about["variables"]), module.__dict__, buffers)
    except Unreadable as error:
        traceback.print_exception(error.__cause__)
        print(
            f"The variable `{error.name}` can't be read in the job; the traceback above says why.",
            file=sys.stderr,
        )
        return NOT_RUN
    module.__dict__.update(variables, **json.loads(os.environ.get("RUNAI_PARAMETERS", "{}")))
    builtins.input = getpass.getpass = _nobody_answers
    shell = _shell(about, module)
    warnings.filterwarnings("ignore", "To exit: use 'exit'")
    result = shell.run_cell(_text(about))  # type: ignore[no-untyped-call]
    shell.displays.pictures.close()
    code = _exit_code(result)
    sys.stdout.flush()
    sys.stderr.flush()
    if _brings_back():
        _write_result(_output_folder(), about, shell, code)
    return code


def _nobody_answers(prompt: object = "", stream: object = None) -> str:
    raise EOFError(f"{prompt} A job has no keyboard; pass the answer as a variable.".lstrip())


def _memory(number: int) -> mmap.mmap:
    """An array's bytes, mapped copy-on-write: read on use, and changes stay in memory."""
    with Path(BUFFERS, str(number)).open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


def _brings_back() -> bool:
    """Whether this worker returns the variables: the first of several does."""
    return os.environ.get("RUNAI_RANK", "0") == "0"


def _output_folder() -> Path:
    return Path(os.environ["RUNAI_OUTPUT_DIR"])


def _text(about: Mapping[str, Any]) -> str:
    """The cell, with the line numbers of the notebook; but a magic for the whole cell must come first."""
    source = str(about["source"])
    return source if source.lstrip().startswith("%%") else f"#{about['head']}\n{source}"


def _main_module(about: Mapping[str, Any]) -> types.ModuleType:
    """A fresh `__main__` for the cell, with the search path that a notebook in this folder has."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.path[:0] = ["", *about["path"]]
    return module


def _shell(about: Mapping[str, Any], module: types.ModuleType) -> _Shell:
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = about["colors"]
    config.InteractiveShell.cache_size = 0
    if about["widgets"]:
        config.IPKernelApp = Config()
        sys.meta_path.insert(0, _LikeANotebook())
    shell: _Shell = _Shell.instance(config=config, user_module=module, user_ns=module.__dict__)
    shell.displays = Displays.of_this_worker()
    pictures.listen(shell.displays.pictures)
    shell.compile.flags |= about["flags"]
    shell.execution_count = about["number"]
    shell.source = about["source"]
    for file, cell in about["cells"].items():
        text: str = cell["text"]
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        if cell["number"] is not None:
            shell.compile._filename_map[file] = cell["number"]
    return shell


class _LikeANotebook(MetaPathFinder):
    """Makes `tqdm.auto` draw bars as in the notebook that sent the cell. It detects a notebook by the configuration of
    an `IPKernelApp`, or, in newer versions, by this module, which is imported only then."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "tqdm.autonotebook":
            with suppress(ImportError):
                importlib.import_module("ipykernel.zmqshell")


def _exit_code(result: ExecutionResult) -> int:
    error = result.error_in_exec or result.error_before_exec
    match error:
        case None:
            return 0
        case SystemExit(code=None):
            return 0
        case SystemExit(code=int(code)):
            return code
        case _:
            return 1


# -- results ----------------------------------------------------------------------------------------


def _write_result(folder: Path, about: Mapping[str, Any], shell: _Shell, code: int) -> None:
    """Write the variables first and then `result.json`, which marks them as complete; each file is written
    atomically."""
    (folder / FOLDER).mkdir(exist_ok=True)
    # A cell that saves its state and ends because it was stopped has more to do: the next attempt returns them.
    outputs: Sequence[str] = about["outputs"] if code == 0 and not job.should_stop() else []
    present = {name: shell.user_ns[name] for name in outputs if name in shell.user_ns}
    missing = [name for name in outputs if name not in present]
    refused: dict[str, str] = {}
    sizes: Mapping[str, int] = {}
    try:
        packed = pack(present, limit=about["limit"])
    except TooLarge as error:
        refused = dict.fromkeys(present, f"with `{error.name}` they exceed the limit for variables")
    else:
        refused = {name: str(error) for name, error in packed.refused.items()}
        sizes = packed.sizes
        _whole(folder / VARIABLES, packed.data)
    for name in missing:
        print(
            f"`{name}` was named in --out, but the cell did not assign it, so it is not returned.",
            file=sys.stderr,
        )
    for name, reason in refused.items():
        print(f"`{name}` can't be returned: {reason}. Write it to a file in RUNAI_OUTPUT_DIR.", file=sys.stderr)
    result = {
        "exit_code": code,
        "error": shell.failure if code else None,
        "variables": list(sizes),
        "missing": missing,
        "refused": refused,
    }
    _whole(folder / RESULT, json.dumps(result).encode())


def _whole(file: Path, data: bytes) -> None:
    handle, unfinished = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    with os.fdopen(handle, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    os.replace(unfinished, file)


if __name__ == "__main__":
    sys.exit(main())
