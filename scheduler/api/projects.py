"""The projects and their current use, as a caller may see them."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from scheduler.api.access import Access, leaves
from scheduler.api.convert import from_milli
from scheduler.api.views import Guarantees
from scheduler.controller.usage import averages
from scheduler.model import Milli, Project, ProjectName
from scheduler.policy import quotas
from scheduler.policy.types import ProjectFigures
from scheduler.pool.file import bounds_entry, policy_entry, project_entry, quota_entries
from scheduler.pool.windows import window_entries
from scheduler.schema import GuaranteeChangeView, PartView, ProjectView

if TYPE_CHECKING:
    from scheduler.controller.book import Book

_NOTHING = ProjectFigures(fair_share=0, allocated=0, demand=0, could_start=0)


def etag(project: Project) -> str:
    """The entity tag of a project's declaration: its use does not change it."""
    return f'"{hashlib.sha256(project_entry(project).model_dump_json().encode()).hexdigest()[:16]}"'


def project_views(book: Book, access: Access, now: float) -> list[ProjectView]:
    """Every project in the pool's order."""
    views = ProjectViews(book, now)
    return [views.view(project, named=access.sees_project(project.name)) for project in book.pool.projects]


class ProjectViews:
    """Makes the views of projects; reads the book once. The jobs of a department are those of the projects below it."""

    def __init__(self, book: Book, now: float) -> None:
        self.projects = {project.name: project for project in book.pool.projects}
        self._pool = book.pool_at(now)
        self._figures = book.plan.projects
        self._accepting = {project.name for project in leaves(book.pool)}
        self._in_force = {project.name: project for project in self._pool.projects}
        self._guarantees = Guarantees(book)
        self._recent_use = averages(book.usage, book.pool, now)
        self._running, self._waiting = _counts(book)

    def source(self, project: Project) -> tuple[object, ...]:
        """What the view of a project is made of, except its recent use."""
        name = project.name
        figures = self._figures.get(name, _NOTHING)
        return project, self._pool, figures, self._running.get(name, 0), self._waiting.get(name, 0)

    def view(self, project: Project, *, named: bool) -> ProjectView:
        """`named`: with its members and groups."""
        figures = self._figures.get(project.name, _NOTHING)
        parts = [
            _part_view(project.name, part, figures.partitions.get(part, figures), self._guarantees)
            for part in self._guarantees.parts
        ]
        amounts, now = [part.guaranteed for part in parts], self._in_force[project.name]
        return ProjectView(
            name=project.name,
            parent=project.parent,
            guaranteed=_gpus(project.guaranteed),
            guaranteed_now=_gpus(now.guaranteed),
            guaranteed_in_all=None if None in amounts else sum(filter(None, amounts)),
            limit=None if project.limit is None else from_milli(project.limit),
            weight=None if project.weight is None else from_milli(project.weight),
            priority=project.priority,
            members=sorted(project.members) if named else [],
            groups=sorted(project.groups) if named else [],
            policy=policy_entry(project.policy),
            quotas=quota_entries(project),
            order=project.order,
            **bounds_entry(project),
            windows=window_entries(project),
            changes=[GuaranteeChangeView(at=each.at, guaranteed=_gpus(each.guaranteed)) for each in now.changes],
            allocated_cpus=from_milli(figures.cpus),
            allocated_memory_gib=figures.memory / 1024,
            parts=parts if len(parts) > 1 else [],
            takes_jobs=project.name in self._accepting,
            fair_share=from_milli(figures.fair_share),
            allocated=from_milli(figures.allocated),
            demand=from_milli(figures.demand),
            over_quota=sum(part.over_quota for part in parts),
            could_start=from_milli(figures.could_start),
            recent_use=from_milli(round(self._recent_use[project.name])),
            running=self._running[project.name],
            waiting=self._waiting[project.name],
        )


def _gpus(guaranteed: Milli | None) -> float | None:
    return None if guaranteed is None else from_milli(guaranteed)


def _part_view(
    project: ProjectName, part: quotas.PartitionKey, figures: ProjectFigures, guarantees: Guarantees
) -> PartView:
    node_pool, gpu_type = part
    guaranteed = guarantees.of(project, part)
    return PartView(
        node_pool=node_pool,
        gpu_type=gpu_type,
        guaranteed=_gpus(guaranteed),
        fair_share=from_milli(figures.fair_share),
        allocated=from_milli(figures.allocated),
        demand=from_milli(figures.demand),
        over_quota=from_milli(guarantees.beyond(project, part, figures.allocated)),
    )


def _counts(book: Book) -> tuple[Mapping[ProjectName, int], Mapping[ProjectName, int]]:
    parents = {project.name: project.parent for project in book.pool.projects}
    running: dict[ProjectName, int] = defaultdict(int)
    waiting: dict[ProjectName, int] = defaultdict(int)
    holding = Counter(job.request.project for job in book.holding.values())
    for counts, found in ((running, holding), (waiting, book.queued)):
        for project, jobs in found.items():
            name: ProjectName | None = project
            while name is not None:
                counts[name] += jobs
                name = parents.get(name)
    return running, waiting
