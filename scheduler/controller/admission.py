"""Whether a job could ever run on this pool. If not, it is refused at once, with the field at fault and what is
available.

Pure functions of a request, the pool and its nodes. What is free at the moment does not matter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches

from scheduler.engines.base import Traits
from scheduler.errors import Invalid, TooMany
from scheduler.model import (
    ONE,
    Environment,
    Job,
    JobKind,
    Milli,
    Node,
    Pool,
    Program,
    Project,
    ProjectName,
    Request,
    Session,
    Shape,
    UserName,
    gpu_count,
    memory_size,
)
from scheduler.pool.rules import check_job

LONGEST_NAME = 255
"""Characters in the name of a user."""

_SAME_NODE = ("node", "same_node")


def admit_job(request: Request, program: Program, pool: Pool, nodes: Sequence[Node], *, grows: bool = False) -> None:
    """Raises `Invalid` where a job names something that does not exist, asks for more than the pool has, or breaks a
    rule. A pool that `grows` may have more later; its nodes still say which GPU types there are."""
    project = _project(request.project, pool)
    _form(request)
    check_job(request, program, pool)
    there = _of_environment(pool, nodes, request.environment)
    there = _in_node_pools(request, pool, there)
    there = _of_gpu_types(request, there)
    _has_topology(request.require, pool)
    for group in () if grows else _groups(request):
        _fits_one_worker(group.shape, there)
        _fits_gang(group, there)
    if not grows:
        _fits_together(request, there)
    _within_limits(request, project, pool, there)
    _inside_guarantee(request, project)


def admit_traits(request: Request, traits: Traits) -> None:
    """Raises `Invalid` where the engine cannot provide what is requested."""
    if traits.shares:
        return
    for shape in request.shapes:
        if shape.gpu_memory is not None or 0 < shape.gpus < ONE:
            field = "gpus" if shape.gpu_memory is None else "gpu_memory_gib"
            raise Invalid("This pool cannot share a GPU; ask for whole GPUs.", field=field)


def admit_image(program: Program, traits: Traits) -> None:
    """Raises `Invalid` for a job that chooses its image, where the engine does not run containers."""
    if program.container.image is not None and not traits.images:
        raise Invalid("Jobs cannot choose an image on this pool; leave out image.", field="image")


def admit_program(program: Program, traits: Traits) -> None:
    """Raises `Invalid` for a script or notebook that is to run in its own folder, where workers cannot see that
    folder."""
    in_place = program.kind in (JobKind.SCRIPT, JobKind.NOTEBOOK) and not program.blobs
    if in_place and not traits.shared_folders:
        raise Invalid(
            f"The workers of this pool cannot read your folders; send the {program.kind.value} with the job "
            "(without --no-files).",
            field="bundle",
        )


def admit_session(session: Session, pool: Pool, nodes: Sequence[Node]) -> None:
    """Raises `Invalid` where a session asks for more than its user's quota, or than any build node has."""
    shape = session.request.shape
    _shape(shape)
    given = session.request.build_quota
    quota = pool.build_quota(session.user).gpus if given is None else given
    if shape.gpu_memory is None and shape.gpus > quota:
        raise Invalid(f"{session.user}'s build quota is {gpu_count(quota)}; ask for no more than that.", field="gpus")
    _fits_one_worker(shape, _of_environment(pool, nodes, Environment.BUILD))


def admit_job_text(job: Job) -> None:
    """Raises `Invalid` for a job with text that cannot be stored or passed to a process."""
    program, request = job.program, job.request
    admit_text(
        id=job.id,
        name=job.name,
        user=job.user,
        idempotency_key=job.idempotency_key,
        command=" ".join(program.command),
        env=" ".join(f"{name}={value}" for name, value in program.env.items()),
        outputs=" ".join(program.outputs),
        gpu_types=" ".join(request.gpu_types or ()),
        prefer=request.prefer,
        image=program.container.image,
    )


def admit_text(**texts: str | None) -> None:
    """Raises `Invalid` for text that some databases cannot store: writing it would fail, with all changes after it."""
    for field, text in texts.items():
        if text is not None and ("\0" in text or not _is_unicode(text)):
            raise Invalid(f"{field} contains a character that is not text; remove it.", field=field)


def admit_name(field: str, name: str) -> None:
    """Raises `Invalid` for a user name that is not possible."""
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise Invalid(f"{field}: give a name of 1 to {LONGEST_NAME} printable characters.", field=field)


def admit_more(user: UserName, unfinished: int, more: int, pool: Pool) -> None:
    """Raises `TooMany` where a user with `unfinished` jobs may not submit `more`."""
    most = pool.max_jobs_per_user
    if most is not None and unfinished + more > most:
        raise TooMany(
            f"{user} may have {most:,} unfinished jobs and has {unfinished:,}. Wait until some have ended, or cancel "
            f"some."
        )


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


# -- names ------------------------------------------------------------------------------------------------------


def _project(name: ProjectName, pool: Pool) -> Project:
    projects = {project.name: project for project in pool.projects}
    children = [project.name for project in pool.projects if project.parent == name]
    if name not in projects:
        raise Invalid(f"There is no project {name!r}; {_instead(name, projects)}", field="project")
    if children:
        raise Invalid(
            f"Project {name!r} has projects below it; submit to one of them: {_list(children)}.",
            field="project",
        )
    return projects[name]


def _in_node_pools(request: Request, pool: Pool, nodes: Sequence[Node]) -> Sequence[Node]:
    if request.node_pools is None:
        return nodes
    serving = [node_pool.name for node_pool in pool.node_pools if node_pool.environment is request.environment]
    for name in request.node_pools:
        if name not in serving:
            raise Invalid(
                f"There is no node pool {name!r} for {request.environment.value} workloads; {_instead(name, serving)}",
                field="node_pools",
            )
    return [node for node in nodes if node.node_pool in request.node_pools]


def _of_gpu_types(request: Request, nodes: Sequence[Node]) -> Sequence[Node]:
    if request.gpu_types is None:
        return nodes
    types = {node.gpu_type for node in nodes if node.gpu_type is not None}
    if not types.intersection(request.gpu_types):
        asked = " or ".join(request.gpu_types) or "of no type"
        raise Invalid(
            f"No node in its node pools has GPUs of type {asked}; available: "
            f"{_list(sorted(types)) or 'none with a type'}.",
            field="gpu_types",
        )
    return [node for node in nodes if node.gpu_type in request.gpu_types]


def _of_environment(pool: Pool, nodes: Iterable[Node], environment: Environment) -> Sequence[Node]:
    serving = {node_pool.name for node_pool in pool.node_pools if node_pool.environment is environment}
    return [node for node in nodes if node.node_pool in serving]


# -- amounts ----------------------------------------------------------------------------------------------------


def _groups(request: Request) -> list[Request]:
    """A request for each group of a gang; the request itself where it has no groups."""
    alone = [
        replace(request, groups=(), shape=group.shape, workers=group.workers, min_workers=group.workers)
        for group in request.groups
    ]
    return alone or [request]


def _form(request: Request) -> None:
    for shape in {request.shape, *request.shapes}:
        _shape(shape)
    if request.groups and request.min_workers != request.workers:
        raise Invalid("All groups of a gang start together; leave out min_workers.", field="min_workers")
    if not 1 <= request.min_workers <= request.workers:
        raise Invalid(
            f"min_workers is {request.min_workers} and must be between 1 and workers, which is {request.workers}.",
            field="min_workers",
        )


def _shape(shape: Shape) -> None:
    if shape.gpus < 0 or (shape.gpus > ONE and shape.gpus % ONE):
        raise Invalid(f"A worker uses whole GPUs or a part of one GPU; {shape.gpus / ONE:g} is neither.", field="gpus")


def _fits_one_worker(shape: Shape, nodes: Sequence[Node]) -> None:
    if any(capacity(shape, node) for node in nodes):
        return
    if shape.gpu_memory is not None and not any((n.gpu_memory or 0) >= shape.gpu_memory for n in nodes):
        most = max((n.gpu_memory or 0 for n in nodes), default=0)
        there = f"the largest GPU here has {memory_size(most)}" if most else "the memory of the GPUs here is unknown"
        raise Invalid(
            f"A worker asks for {memory_size(shape.gpu_memory)} of GPU memory, and {there}.", field="gpu_memory_gib"
        )
    if 0 < shape.gpus < ONE and nodes and all(node.gpu_parts for node in nodes):
        most = max(ONE // node.gpu_parts for node in nodes)
        there = "only whole GPUs are available" if most == ONE else f"the largest part of a GPU is {most / ONE:g}"
        raise Invalid(f"A worker asks for {shape.gpus / ONE:g} of a GPU, and in its node pools {there}.", field="gpus")
    if shape.gpus >= ONE and not any(node.gpus for node in nodes):
        raise Invalid("There are no GPUs in its node pools.", field="gpus")
    if shape.gpus >= ONE and not any(node.gpus and node.gpu_parts <= 1 for node in nodes):
        raise Invalid(
            "The GPUs in its node pools are only available in parts; ask for a fraction of one.", field="gpus"
        )
    if shape.gpus > ONE and nodes and all(node.most_gpus <= 1 < node.gpus for node in nodes):
        raise Invalid(
            "The GPUs in its node pools are MIG instances, of which a worker can use only one; ask for more workers.",
            field="gpus",
        )
    most_gpus = max((node.most_gpus for node in nodes), default=0) * ONE
    if shape.gpus > most_gpus:
        raise Invalid(
            f"A worker asks for {gpu_count(shape.gpus)}, and the largest node in its node pools has "
            f"{gpu_count(most_gpus)}; "
            "ask for fewer per worker, or for more workers.",
            field="gpus",
        )
    fitting = [node for node in nodes if _by_gpus(shape, node)]
    most_cpus = max((node.cpus for node in fitting if node.cpus is not None), default=0)
    most_memory = max((node.memory for node in fitting if node.memory is not None), default=0)
    where = "the largest node in its node pools has"
    if shape.memory and not any(
        capacity(Shape(shape.gpus, shape.gpu_memory, memory=shape.memory), node) for node in fitting
    ):
        raise Invalid(
            f"A worker asks for {memory_size(shape.memory)} of memory, and {where} {memory_size(most_memory)}; "
            "ask for no more.",
            field="memory_gib",
        )
    if shape.cpus and not any(capacity(Shape(shape.gpus, shape.gpu_memory, cpus=shape.cpus), node) for node in fitting):
        raise Invalid(
            f"A worker asks for {shape.cpus / ONE:g} CPUs, and {where} {most_cpus / ONE:g}; ask for no more.",
            field="cpus",
        )
    raise Invalid(
        "No node that it may use has the GPUs, CPUs and memory that one worker asks for together; ask for less.",
        field="memory_gib",
    )


def _fits_gang(request: Request, nodes: Sequence[Node]) -> None:
    field = "workers" if request.workers > 1 else "gpus"
    capacities: dict[str, int] = defaultdict(int)
    for node in nodes:
        capacities[_domain(request.require, node)] += capacity(request.shape, node)
    most = max(capacities.values(), default=0)
    if request.min_workers <= most:
        return
    size = f"workers of {gpu_count(request.shape.gpus)}" if request.shape.gpus else "such workers"
    place = f"in one {request.require.removeprefix('same_')}" if request.require else "in the pool"
    raise Invalid(
        f"It needs {request.min_workers} {size} at the same time, and at most {most} can ever fit {place}.",
        field=field,
    )


def _fits_together(request: Request, nodes: Sequence[Node]) -> None:
    """The groups of a gang together, by their GPUs."""
    there: dict[str, Milli] = defaultdict(int)
    for node in nodes:
        there[_domain(request.require, node)] += node.gpus * ONE
    most = max(there.values(), default=0)
    if request.groups and request.gpus > most:
        raise Invalid(
            f"Its groups need {gpu_count(request.gpus)} at the same time, and at most {gpu_count(most)} "
            "can ever be available.",
            field="groups",
        )


def _within_limits(request: Request, project: Project, pool: Pool, nodes: Sequence[Node]) -> None:
    asked = _at_once(request)
    projects = {project.name: project for project in pool.projects}
    above: Project | None = project
    while above is not None:
        if above.limit is not None and asked > above.limit:
            raise Invalid(
                f"It needs {gpu_count(asked)} at the same time; project {above.name!r} may hold "
                f"{gpu_count(above.limit)} "
                "at most.",
                field="gpus" if request.workers == 1 else "workers",
            )
        for quota in above.quotas:
            if quota.limit is not None and asked > quota.limit and nodes and all(map(quota.covers, nodes)):
                raise Invalid(
                    f"It needs {gpu_count(asked)} at the same time; project {above.name!r} may hold "
                    f"{gpu_count(quota.limit)} of "
                    f"{' in node pool '.join(filter(None, (quota.gpu_type or 'those', quota.node_pool)))} at most.",
                    field="gpus" if request.workers == 1 else "workers",
                )
        above = projects.get(above.parent) if above.parent is not None else None


def _inside_guarantee(request: Request, project: Project) -> None:
    asked, promised = _at_once(request), project.all_guaranteed
    if not request.preemptible and promised is not None and asked > promised:
        raise Invalid(
            f"A job that can't be preempted must fit into the guarantee of its project. It needs {gpu_count(asked)}, "
            f"and project {project.name!r} is guaranteed {gpu_count(promised)}. Ask for less, or make it preemptible.",
            field="preemptible",
        )


def _at_once(request: Request) -> Milli:
    return request.gpus if request.groups else request.shape.gpus * request.min_workers


def capacity(shape: Shape, node: Node) -> int:
    """How many workers of this shape an empty node could take."""
    capacities = [_by_gpus(shape, node)]
    if shape.cpus and node.cpus is not None:
        capacities.append(node.cpus // shape.cpus)
    if shape.memory and node.memory is not None:
        capacities.append(node.memory // shape.memory)
    return min(capacities)


_ANY = 1_000_000
"""Workers without GPUs are not counted by them."""


def _by_gpus(shape: Shape, node: Node) -> int:
    if shape.gpu_memory is None and shape.gpus == 0:
        return _ANY
    if shape.gpu_memory is None and shape.gpus >= ONE:
        if node.gpu_parts > 1 or shape.gpus > node.most_gpus * ONE:
            return 0
        return node.gpus * ONE // shape.gpus
    if node.gpu_parts:
        asked = shape.gpus if shape.gpu_memory is None else -(-shape.gpu_memory * ONE // (node.gpu_memory or 1))
        return node.gpus * node.gpu_parts if node.share_for(asked) else 0
    if shape.gpu_memory is not None:
        return node.gpus * ((node.gpu_memory or 0) // shape.gpu_memory)
    return node.gpus * (ONE // shape.gpus)


def _has_topology(require: str | None, pool: Pool) -> None:
    known = [*pool.topology, "node"]
    if require is not None and require.removeprefix("same_") not in known:
        raise Invalid(f"There is no topology {require!r}; {_instead(require, known)}", field="require")


def _domain(require: str | None, node: Node) -> str:
    if require is None:
        return ""
    if require in _SAME_NODE:
        return node.name
    return node.labels.get(require.removeprefix("same_"), f"alone: {node.name}")


# -- words ------------------------------------------------------------------------------------------------------


def _instead(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = get_close_matches(name, names, n=3, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return f"available: {_list(names)}." if names else "there is none."


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
