"""The agent as one file for machines without the scheduler: an archive that Python runs."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from scheduler.worker import agent, processes

START = "from scheduler.worker.agent.run import main\n\nmain()\n"


def agent_archive() -> bytes:
    """The archive (`python agent.pyz`); the same bytes for the same sources."""
    folder = Path(processes.__file__).parents[2]
    sources = [Path(processes.__file__), *sorted(Path(agent.__file__).parent.glob("*.py"))]
    files = {"__main__.py": START, "scheduler/__init__.py": "", "scheduler/worker/__init__.py": ""}
    files |= {source.relative_to(folder).as_posix(): source.read_text() for source in sources}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return content.getvalue()
