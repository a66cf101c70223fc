"""The figures of every project once a plan is carried out, made when they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from scheduler.model import Milli, ProjectName
from scheduler.policy.partitions import Partition
from scheduler.policy.plannerstate import PlannerState
from scheduler.policy.projects import ProjectState, held_beside
from scheduler.policy.types import ProjectFigures, together

Frozen = Mapping[ProjectState, ProjectState]


def project_figures(planner: PlannerState, frozen: Frozen) -> Mapping[ProjectName, ProjectFigures]:
    """The figures of all projects; `frozen` has the projects as they are now."""
    by_partition = {partition.key: PartitionFigures(planner, partition, frozen) for partition in planner.partitions}
    if len(by_partition) == 1:
        return next(iter(by_partition.values()))
    return {
        name: together(
            {key: figures[name] for key, figures in by_partition.items()},
            {state for partition in planner.partitions for state in partition.projects[name].beside},
        )
        for name in planner.projects
    }


class PartitionFigures(Mapping[ProjectName, ProjectFigures]):
    """The figures in one partition, which stay the same when the planner goes on."""

    def __init__(self, planner: PlannerState, partition: Partition, frozen: Frozen) -> None:
        self._projects = partition.projects
        self._frozen = frozen
        self._free = max(0, planner.state.nodes.free_gpus(planner.train & partition.nodes))

    def __getitem__(self, name: ProjectName) -> ProjectFigures:
        return self._figures[name]

    def __iter__(self) -> Iterator[ProjectName]:
        return iter(self._projects)

    def __len__(self) -> int:
        return len(self._projects)

    def __repr__(self) -> str:
        return repr(self._figures)

    @cached_property
    def _figures(self) -> Mapping[ProjectName, ProjectFigures]:
        left: dict[ProjectState | None, Milli] = {None: self._free}  # parents come before their children
        found = {}
        for name, project in self._projects.items():
            state = self._frozen[project]
            left[project] = max(0, min(left[project.parent], state.limit - state.allocated))
            cpus, memory = held_beside(state.beside)
            found[name] = ProjectFigures(
                state.share, state.allocated, state.demand, left[project], cpus=cpus, memory=memory
            )
        return found
