"""The files of a job's output folder, as a list of paths that is displayed with sizes and times."""

from __future__ import annotations

import html
import time
from collections.abc import Iterable

from scheduler.files.bundle import in_words
from scheduler.schema import OutputFile


class Files(list[str]):
    """Paths below the output folder; `job.download(path, to)` downloads one."""

    def __init__(self, files: Iterable[OutputFile]) -> None:
        self._files = list(files)
        super().__init__(file.path for file in self._files)

    def _repr_html_(self) -> str:
        """A path is a user's text: escaped, always."""
        rows = "".join(
            f'<tr><td style="text-align: left">{html.escape(file.path)}</td><td>{in_words(file.size)}</td>'
            f"<td>{time.strftime('%d %b %H:%M', time.localtime(file.modified))}</td></tr>"
            for file in self._files
        )
        return (
            f"<table><thead><tr><th>file</th><th>size</th><th>written</th></tr></thead><tbody>{rows}</tbody></table>"
            if rows
            else "<i>no files</i>"
        )
