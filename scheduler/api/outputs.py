"""The files of a job's output folder, for its owner."""

from __future__ import annotations

from urllib.parse import quote

from tornado.iostream import StreamClosedError

from scheduler.api.access import Scope
from scheduler.api.base import ApiHandler
from scheduler.api.endpoint import BYTES, endpoint
from scheduler.engines.files import Area, output_file
from scheduler.errors import Forbidden, NotFound
from scheduler.model import Job, JobId
from scheduler.schema import OutputFile, OutputList

PIECE = 256 * 1024


class OutputsBase(ApiHandler):
    async def owned(self, job_id: JobId) -> Job:
        return self.access.owned_job(await self.find(job_id), job_id)


class OutputsHandler(OutputsBase):
    @endpoint("The output files of a job", Scope.SUBMIT, answer=OutputList, refuses=(NotFound, Forbidden))
    async def get(self, job_id: JobId) -> None:
        job = await self.owned(job_id)
        files = await self.api.files.list(job.id, Area.OUTPUT)
        self.answer(OutputList(files=[OutputFile(path=f.path, size=f.size, modified=f.modified) for f in files]))


class OutputHandler(OutputsBase):
    @endpoint("One output file of a job", Scope.SUBMIT, media=BYTES, refuses=(NotFound, Forbidden))
    async def get(self, job_id: JobId, path: str) -> None:
        job = await self.owned(job_id)
        file = await self.api.files.open_file(output_file(job.id, path))
        try:
            left = file.size
            name = quote(path.rsplit("/", 1)[-1], safe="")
            self.set_header("Content-Type", BYTES)
            self.set_header("Content-Length", str(left))
            self.set_header("Content-Disposition", f"attachment; filename*=UTF-8''{name}")
            while left and (piece := await file.read(min(PIECE, left))):
                left -= len(piece)
                self.write(piece)
                await self.flush()
        except StreamClosedError:
            return
        finally:
            await file.close()
        if left:
            # The file has become shorter meanwhile: abort, as a complete answer would be wrong.
            self.close_connection()
        else:
            self.finish()
