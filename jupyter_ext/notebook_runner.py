"""Executes a whole notebook in a job: `python -P -m jupyter_ext.notebook_runner train.ipynb -p lr=0.1`.

Its cells run in order in their own kernel, in the notebook's folder, including those of `%%runai_train`. After each
cell the notebook with its outputs so far is written atomically to the output folder (`train.out.ipynb`). Outputs are
shown as they come, and the number of finished cells is reported. SIGTERM is passed to the kernel, so that
`jupyter_ext.job` works in cells; no further cell is started then.

Exit codes: 0, 1 for an exception or a dead kernel, 3 for a file that is not a notebook, 143 when it was stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from traitlets.config import Config

from jupyter_ext import job
from jupyter_ext.displays import Displays, text_of
from scheduler.errors import Invalid
from scheduler.model import Parameter
from scheduler.submission import notebooks

# Not a sweep or a search, whose jobs assign the variables.
_IN_PLACE = re.compile(r"\A(\s*)(%%runai_train)\b(?!.*--(?:sweep|search|array)\b)")

NOT_RUN, STOPPED = 3, 128 + signal.SIGTERM


class _Stopped(Exception):
    """The job was asked to stop."""


class _Client(NotebookClient):
    """An nbclient that shows outputs, saves the notebook after each cell and passes SIGTERM on."""

    def __init__(self, notebook: Any, to: Path, folder: Path, sockets: Path) -> None:
        named = notebook.metadata.get("kernelspec", {}).get("name")
        known = KernelSpecManager().find_kernel_specs()
        super().__init__(
            notebook,
            timeout=None,
            kernel_name=named if named in known else "python3",
            resources={"metadata": {"path": str(folder)}},
            # Unix sockets in a private folder: nothing passes through the network, and no other user can listen.
            config=Config(KernelManager={"transport": "ipc", "ip": str(sockets / "kernel")}),
            on_cell_start=self._begin,
            on_cell_execute=self._run_in_place,
            on_cell_complete=self._restore,
            on_cell_executed=self._done,
        )
        self._to = to
        self._displays = Displays.of_this_worker()
        self._cells = [at for at, cell in enumerate(notebook.cells) if _counts(cell)]
        self._source = ""
        self.stopping = False

    @property
    def cells(self) -> int:
        return len(self._cells)

    def number(self, index: int) -> int:
        """The number of this cell among the notebook's cells that run, from 1."""
        return sum(at <= index for at in self._cells)

    def keep(self) -> None:
        """Write the current notebook atomically."""
        handle, unfinished = tempfile.mkstemp(prefix=f".{self._to.name}.", dir=self._to.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            nbformat.write(self.nb, out)
            out.flush()
            os.fsync(out.fileno())
        os.replace(unfinished, self._to)

    def _begin(self, cell: Any, cell_index: int) -> None:
        # nbclient's own handler would discard the kernel.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stop)
        if self.stopping and _runs(cell):
            raise _Stopped
        if _counts(cell):
            print(f"--- cell {self.number(cell_index)} of {self.cells} ---", flush=True)

    def _run_in_place(self, cell: Any, cell_index: int) -> None:
        """A cell of `%%runai_train` runs in this job. Its lines keep their numbers."""
        self._source = cell.source
        if _IN_PLACE.match(cell.source):
            print("Runs in this job: the notebook is already a job.", flush=True)
            cell.source = _IN_PLACE.sub(r"\1# \2", cell.source)

    def _restore(self, cell: Any, cell_index: int) -> None:
        """The kernel has the cell: restore its original text for the output notebook."""
        cell.source = self._source

    def _done(self, cell: Any, cell_index: int, execute_reply: Any) -> None:
        self._displays.pictures.close()
        job.report(cell=self.number(cell_index), cells=self.cells)
        self.keep()

    def _stop(self) -> None:
        self.stopping = True
        kernel: Any = self.km
        os.kill(kernel.provisioner.process.pid, signal.SIGTERM)

    # -- outputs --------------------------------------------------------------------------------

    def output(self, outs: Any, msg: Any, display_id: str | None, cell_index: int) -> Any:
        shown = super().output(outs, msg, display_id, cell_index)
        content = msg["content"]
        match msg["msg_type"]:
            case "stream":
                sys.stdout.write(content["text"])
                sys.stdout.flush()
            case "error":
                print("\n".join(content["traceback"]), flush=True)
            case "display_data" | "execute_result":
                self._show(content)
        return shown

    def handle_comm_msg(self, outs: Any, msg: Any, cell_index: int) -> None:
        super().handle_comm_msg(outs, msg, cell_index)
        content = msg["content"]
        self._displays.pictures.told(msg["msg_type"], content["comm_id"], content["data"])

    def _update_display_id(self, display_id: str, msg: Any) -> None:
        if msg["msg_type"] == "update_display_data":
            self._show(msg["content"], update=True)
        super()._update_display_id(display_id, msg)

    def _show(self, content: Mapping[str, Any], *, update: bool = False) -> None:
        data = content["data"]
        if not self._displays.show_data(data, content["metadata"], content.get("transient"), update=update):
            print(text_of(data), end="", flush=True)


def _runs(cell: Any) -> bool:
    return cell.cell_type == "code" and bool(cell.source.strip())


def _counts(cell: Any) -> bool:
    """Whether it is one of the notebook's own cells, not the one that assigns the parameters."""
    return _runs(cell) and notebooks.INJECTED not in cell.metadata.get("tags", ())


async def _execute(client: _Client) -> int:
    job.report(cell=0, cells=client.cells)
    client.keep()
    try:
        await client.async_execute()
    except CellExecutionError as error:
        number = client.number(_failed(client.nb))
        print(f"Cell {number} of {client.cells} failed: {error.ename}: {error.evalue}", file=sys.stderr)
        return STOPPED if client.stopping else 1
    except DeadKernelError:
        if client.stopping:
            return STOPPED
        print("The kernel died; perhaps the machine ran out of memory.", file=sys.stderr)
        return 1
    except _Stopped:
        return STOPPED
    finally:
        client.keep()
    return 0


def _failed(notebook: Any) -> int:
    """The last cell with an error."""
    return max(
        at
        for at, cell in enumerate(notebook.cells)
        if any(output.output_type == "error" for output in cell.get("outputs", ()))
    )


def _parameter(text: str) -> tuple[str, Parameter]:
    name, _, value = text.partition("=")
    return name, json.loads(value)


def main() -> int:
    parser = argparse.ArgumentParser(prog="jupyter_ext.notebook_runner")
    parser.add_argument("notebook", type=Path)
    parser.add_argument("-p", dest="parameters", type=_parameter, action="append", default=[])
    asked = parser.parse_args()
    parameters = {**dict(asked.parameters), **job.parameters}
    try:
        notebooks.check(str(asked.notebook), asked.notebook.read_bytes(), parameters)
        notebook = nbformat.read(asked.notebook, as_version=4)
    except (OSError, ValueError, Invalid) as error:
        print(f"{asked.notebook} can't be executed: {error}", file=sys.stderr)
        return NOT_RUN
    about = {"tags": [notebooks.INJECTED]}
    assigned = notebooks.source(parameters)
    cell = nbformat.v4.new_code_cell(assigned, metadata=about)
    notebooks.inject(notebook.cells, parameters, cell)
    for each in notebook.cells:
        if each.cell_type == "code":
            each.outputs, each.execution_count = [], None
    folder = Path(os.environ.get("RUNAI_OUTPUT_DIR", asked.notebook.parent))
    to = folder / f"{asked.notebook.stem}.out{notebooks.SUFFIX}"
    with tempfile.TemporaryDirectory(prefix="runai-") as sockets:
        client = _Client(notebook, to, asked.notebook.resolve().parent, Path(sockets))
        return asyncio.run(_execute(client))


if __name__ == "__main__":
    sys.exit(main())
