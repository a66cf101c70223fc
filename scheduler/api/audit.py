"""The changes of the pool and their authors: `/audit`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from scheduler.api.access import Scope
from scheduler.api.base import ApiHandler
from scheduler.api.endpoint import endpoint
from scheduler.schema import AuditEntry, AuditPage
from scheduler.store import AuditFilter


class AuditQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    user: str | None = Field(None, description="only changes made by this user")
    kind: str | None = Field(None, description="only changes of this kind of thing, such as `project`")
    name: str | None = Field(None, description="only changes of things with this name")
    limit: int = Field(100, ge=1, le=500)
    after: int | None = Field(None, description="`next` of the previous page")


class AuditHandler(ApiHandler):
    @endpoint("Changes of the pool and who made them, newest first", Scope.ADMIN, query=AuditQuery, answer=AuditPage)
    async def get(self) -> None:
        query = self.query(AuditQuery)
        wanted = AuditFilter(query.user, query.kind, query.name, query.after)
        found = await self.api.controller.audit(wanted, limit=query.limit)
        entries = [AuditEntry.model_validate(record, from_attributes=True) for record in found]
        self.answer(AuditPage(entries=entries, next=found[-1].id if len(found) == query.limit else None))
