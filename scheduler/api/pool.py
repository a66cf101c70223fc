"""The pool, its projects and the caller: `/me`, `/pool`, `/pool/file`, `/pool/apply`, `/projects`."""

from __future__ import annotations

import asyncio
import hashlib
import json

from pydantic import BaseModel, ConfigDict, Field

from scheduler.api import views
from scheduler.api.access import Scope
from scheduler.api.base import ApiHandler
from scheduler.api.caller import me
from scheduler.api.endpoint import endpoint
from scheduler.api.preview import previewed
from scheduler.api.projects import etag, project_views
from scheduler.errors import Changed, Conflict, Invalid, NotFound
from scheduler.pool.changes import changes, warnings
from scheduler.pool.file import file_of, pool_of, with_project, without_project
from scheduler.pool.nodes import as_declared
from scheduler.scenario import scenario_of, without_defaults
from scheduler.schema import Applied, Me, PoolFile, PoolView, ProjectEntry, ProjectList, ProjectView


class ApplyQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    preview: bool = False


class PreviewQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    remove: bool = Field(False, description="preview the removal of the project with this name")


class MeHandler(ApiHandler):
    @endpoint("Who the caller is, and what they may do", Scope.READ, answer=Me)
    async def get(self) -> None:
        self.answer(me(self.access, self.api.book))


class PoolHandler(ApiHandler):
    @endpoint("All GPUs and who holds them, as far as the caller may see", Scope.READ, answer=PoolView)
    async def get(self) -> None:
        book = self.api.book
        self.tell_event()
        self.answer(views.pool_view(book, self.api.gpu_usage(), self.access))


class PoolFileHandler(ApiHandler):
    @endpoint("The pool file that describes the current pool; its ETag is its version", Scope.ADMIN, answer=PoolFile)
    async def get(self) -> None:
        file = file_of(self.api.book.pool)
        self.set_header("ETag", _version(file))
        self.answer(file)


def _version(file: PoolFile) -> str:
    return f'"{hashlib.sha256(file.model_dump_json().encode()).hexdigest()[:16]}"'


_IF_MATCH = ("If-Match", "the ETag of the version that the caller has read; absent: any version")


class SnapshotHandler(ApiHandler):
    @endpoint("The current pool as the policy sees it, as a scenario for `jupyter runai plan`", Scope.ADMIN)
    async def get(self) -> None:
        snapshot = self.api.controller.snapshot()
        text = await asyncio.to_thread(lambda: json.dumps(without_defaults(scenario_of(snapshot))))
        self.set_header("Content-Type", "application/json")
        self.finish(text)


class PoolApplyHandler(ApiHandler):
    @endpoint(
        "Apply a pool file, or preview what it would change",
        Scope.ADMIN,
        body=PoolFile,
        query=ApplyQuery,
        answer=Applied,
        headers=(_IF_MATCH,),
        refuses=(Invalid, Conflict, Changed),
    )
    async def post(self) -> None:
        preview = self.query(ApplyQuery).preview
        file = self.body(PoolFile)
        seen = self.request.headers.get("If-Match")
        async with self.api.changing:
            before = self.api.book.pool
            if seen is not None and seen.removeprefix("W/") != _version(file_of(before)):
                raise Changed("The pool has been changed meanwhile; look at it again, then repeat your change.")
            after = pool_of(file, before, self.api.clock())
            nodes = as_declared(self.api.inventory.nodes(after), after)
            found = changes(before, after)
            if not preview and found:
                await self.api.controller.apply(after, self.caller.name)
        if preview:
            self.answer(await previewed(self.api, after))
        else:
            self.answer(Applied(preview=False, changes=found, warnings=warnings(after, nodes, self.api.clock())))


class PoolPreviewHandler(ApiHandler):
    @endpoint(
        "Preview the effects and new warnings of adding, changing or removing a project",
        Scope.ADMIN,
        body=ProjectEntry,
        query=PreviewQuery,
        answer=Applied,
        refuses=(Invalid, Conflict),
    )
    async def post(self) -> None:
        before, entry, now = self.api.book.pool, self.body(ProjectEntry), self.api.clock()
        remove = self.query(PreviewQuery).remove
        after = without_project(before, entry.name, now) if remove else with_project(before, entry, now)
        found = await previewed(self.api, after)
        known = warnings(before, self.api.book.nodes, now)
        self.answer(found.model_copy(update={"warnings": [w for w in found.warnings if w not in known]}))


class ProjectsHandler(ApiHandler):
    @endpoint("All projects with their figures", Scope.READ, answer=ProjectList)
    async def get(self) -> None:
        self.tell_event()
        self.answer(ProjectList(projects=project_views(self.api.book, self.access, self.api.clock())))


class ProjectHandler(ApiHandler):
    @endpoint(
        "One project; its ETag identifies the version of its declaration",
        Scope.READ,
        answer=ProjectView,
        refuses=(NotFound,),
    )
    async def get(self, name: str) -> None:
        self._answer(name)

    @endpoint(
        "Add a project or change it",
        Scope.ADMIN,
        body=ProjectEntry,
        answer=ProjectView,
        headers=(_IF_MATCH, ("If-None-Match", "`*`: add a project, but do not change an existing one")),
        refuses=(Invalid, Conflict, Changed),
    )
    async def put(self, name: str) -> None:
        entry = self.body(ProjectEntry)
        if entry.name != name:
            raise Invalid(f"name is {entry.name!r}, and the path says {name!r}; make them the same.", field="name")
        async with self.api.changing:
            self._refuse_changed(name)
            after = with_project(self.api.book.pool, entry, self.api.clock())
            await self.api.controller.apply(after, self.caller.name)
        self._answer(name)

    @endpoint(
        "Remove a project",
        Scope.ADMIN,
        status=204,
        headers=(_IF_MATCH,),
        refuses=(NotFound, Invalid, Conflict, Changed),
    )
    async def delete(self, name: str) -> None:
        async with self.api.changing:
            self._view(name)
            self._refuse_changed(name)
            after = without_project(self.api.book.pool, name, self.api.clock())
            await self.api.controller.apply(after, self.caller.name)
        self.set_status(204)
        self.finish()

    def _refuse_changed(self, name: str) -> None:
        """Raise `Changed` where the project has changed since the caller read it."""
        headers = self.request.headers
        now = self._etag(name)
        if now is not None and headers.get("If-None-Match") == "*":
            raise Changed(f"There is a project {name!r} already; choose another name, or edit that one.", field="name")
        seen = headers.get("If-Match")
        if seen is not None and now is None:
            raise Changed(f"Project {name!r} has been removed meanwhile; add it again if it is still needed.")
        if seen is not None and seen.removeprefix("W/") != now:
            raise Changed(f"Project {name!r} has been changed meanwhile; look at it again, then repeat your change.")

    def _etag(self, name: str) -> str | None:
        return next((etag(project) for project in self.api.book.pool.projects if project.name == name), None)

    def _answer(self, name: str) -> None:
        view = self._view(name)
        self.set_header("ETag", self._etag(name) or "")
        self.answer(view)

    def _view(self, name: str) -> ProjectView:
        found = (view for view in project_views(self.api.book, self.access, self.api.clock()) if view.name == name)
        view = next(found, None)
        if view is None:
            raise NotFound(f"There is no project {name!r}.")
        return view
