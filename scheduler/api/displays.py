"""A job's output as a notebook would show it: its text and its displays in one stream, for its owner.

The answer is JSON, one message a line: it may contain a user's HTML, which is never rendered on the scheduler's origin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from scheduler.api.access import Scope
from scheduler.api.endpoint import LINES, endpoint
from scheduler.api.interleave import displays, interleave
from scheduler.api.logs import PAGE, FollowHandler
from scheduler.engines.files import log_file, output_file
from scheduler.errors import Forbidden, Invalid, NotFound
from scheduler.model import JobId
from scheduler.schema import ATTEMPT_LINE, DisplayLine

if TYPE_CHECKING:
    from scheduler.engines.files import JobFiles

FILE = ".runai-cell/displays.{}.jsonl"
"""The file in the output folder to which `jupyter_ext.displays` writes the displays of an attempt."""

LONGEST = 16 * PAGE
"""The longest display, in bytes."""


class DisplayQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    attempt: int | None = Field(None, ge=1, description="where to begin; absent: with the latest")
    log: int = Field(0, ge=0, description="`log` of the last line received")
    display: int = Field(0, ge=0, description="`display` of the last line received")
    follow: bool = False


class DisplayHandler(FollowHandler):
    @endpoint(
        "What the first worker shows, as Jupyter's output messages: a page, or with `follow` all that comes until the "
        "job has ended",
        Scope.SUBMIT,
        query=DisplayQuery,
        answer=DisplayLine,
        media=LINES,
        refuses=(NotFound, Forbidden, Invalid),
    )
    async def get(self, job_id: JobId) -> None:
        query = self.query(DisplayQuery)
        job = await self.owned(job_id)
        attempt = self.first(job, query.attempt, query.follow)
        self.set_header("Content-Type", LINES)
        reading = _Shown(self.api.files, job_id, attempt, query.log, query.display)
        await self.send(job, reading, follow=query.follow, only=False)


@dataclass
class _Shown:
    """The log of an attempt's first worker, with its displays."""

    files: JobFiles
    job: JobId
    attempt: int
    log: int
    display: int
    seen: int = 0
    rank: int = 0

    async def take(self, over: bool) -> bytes:
        # Read the log first: each display is written before its text.
        text = await self.files.read(log_file(self.job, self.attempt, 0), self.log, PAGE)
        self.seen = self.log + len(text)
        data, more = await self._displays()
        found = list(displays(data, self.display))
        over = over and len(text) < PAGE
        pieces = list(interleave(text, self.log, self.display, found, more=more, over=over))
        if pieces:
            self.log, self.display = pieces[-1].log, pieces[-1].display
        elif more and not found:
            self.display += data.rfind(b"\n") + 1 or len(data)  # written by the job itself, not displays
        lines = (
            DisplayLine(attempt=self.attempt, log=piece.log, display=piece.display, output=piece.output)
            for piece in pieces
        )
        return b"".join(line.model_dump_json().encode() + b"\n" for line in lines)

    async def _displays(self) -> tuple[bytes, bool]:
        """The next whole lines for this reader, and whether there may be more."""
        file = output_file(self.job, FILE.format(self.attempt))
        data = await self.files.read(file, self.display, PAGE)
        more = len(data) == PAGE
        if more and b"\n" not in data:
            line, end, _ = (await self.files.read(file, self.display + PAGE, LONGEST)).partition(b"\n")
            data += line + end
        return data, more

    def next_attempt(self) -> bytes:
        self.attempt, self.log, self.display = self.attempt + 1, 0, 0
        output = {"output_type": "stream", "name": "stdout", "text": ATTEMPT_LINE.format(self.attempt)}
        line = DisplayLine(attempt=self.attempt, log=0, display=0, output=output)
        return line.model_dump_json().encode() + b"\n"
