"""Jobs, sessions and a pool with a value in every field."""

from __future__ import annotations

from scheduler.model import (
    BUILD_POOL,
    TRAIN_POOL,
    Attempt,
    Container,
    Ending,
    Environment,
    GpuType,
    GroupName,
    Job,
    JobId,
    JobKind,
    JobState,
    Node,
    NodeName,
    NodePool,
    PlacementStyle,
    Pool,
    Program,
    Project,
    ProjectName,
    ReclaimUpTo,
    Request,
    Schedule,
    ScheduleId,
    Session,
    SessionId,
    SessionState,
    Settings,
    Shape,
    User,
    UserName,
    WorkerPlacement,
)
from scheduler.store import EventRecord

PLACED = (WorkerPlacement(NodeName("n1"), (0, 1)), WorkerPlacement(NodeName("n2"), (3,), share=250))


def job(number: int, *, user: str = "ana", project: str = "vision", at: float | None = None) -> Job:
    return Job(
        id=JobId(f"job{number:04}"),
        name="train",
        request=Request(ProjectName(project), UserName(user)),
        program=Program(JobKind.COMMAND, ("train",)),
        submitted=1000.0 + number if at is None else at,
    )


def event(subject: str = "job0001", kind: str = "job.state") -> EventRecord:
    return EventRecord(1000.5, kind, subject, "ana", "vision", {"state": "queued", "n": [1, None, "é"]})


FULL_JOB = Job(
    id=JobId("full"),
    name="Größe",
    request=Request(
        ProjectName("vision"),
        UserName("ana"),
        Environment.TRAIN,
        Shape(2000, None, 4000, 2048),
        workers=4,
        min_workers=2,
        priority=70,
        preemptible=False,
        gpu_types=(GpuType("A100"), GpuType("H100")),
        node_pools=(TRAIN_POOL,),
        require="rack",
        prefer="node",
        min_runtime=60.0,
        expected_runtime=3600.0,
    ),
    program=Program(
        JobKind.CELL,
        ("python", "-c", "print('☃')"),
        bundle="a" * 64,
        env={"A": "1", "B": "2\n"},
        outputs=("model", "accuracy"),
        grace=12.5,
        max_runtime=99.0,
        retries=3,
    ),
    submitted=1000.25,
    state=JobState.STOPPING,
    reason="Paused for *speech*.",
    wanted=JobState.PAUSED,
    queued=1001.0,
    attempts=(
        Attempt(
            1,
            PLACED,
            1002.0,
            1003.0,
            1010.0,
            (0, -15),
            "Worker 1 of 2 was killed by SIGTERM.",
            1009.0,
            Ending.FAILED,
        ),
        Attempt(2, PLACED, 1020.0, 1021.0, None, (), "", 1030.0, Ending.PREEMPTED),
    ),
    checkpointed=1025.0,
    idempotency_key="once",
    nomination=PLACED[:1],
    schedule=ScheduleId("c1"),
)

SCHEDULE = Schedule(
    id=ScheduleId("c1"),
    name="Größe",
    user=UserName("ana"),
    cron="0 2 * * *",
    timezone="Europe/Berlin",
    submission={"command": ["train", "☃"], "project": "vision", "gpus": 0.5, "env": {"A": "1"}},
    created=1000.25,
    blobs=("a" * 64,),
    container=Container("image", ({"name": "home"},), ({"name": "home", "mountPath": "/home"},)),
    due=2000.5,
    paused=1500.5,
    notice="Paused.",
    last_job=JobId("full"),
)

SESSION = Session(
    id=SessionId("s1"),
    server="gpu",
    request=Request(ProjectName(""), UserName("ana"), Environment.BUILD, Shape(500), preemptible=False),
    requested=1000.0,
    state=SessionState.LEASED,
    reason="Holds its GPUs on box-build.",
    placement=(WorkerPlacement(NodeName("box-build"), (0,), 500),),
    started=1001.0,
)

POOL = Pool(
    node_pools=(
        NodePool(BUILD_POOL, Environment.BUILD, gpus=2),
        NodePool(TRAIN_POOL, Environment.TRAIN, PlacementStyle.SPREAD),
    ),
    projects=(
        Project(ProjectName("research"), guaranteed=None, members=frozenset()),
        Project(
            ProjectName("vision"),
            ProjectName("research"),
            4000,
            8000,
            500,
            3,
            100.0,
            frozenset({UserName("ana"), UserName("bo")}),
            frozenset({GroupName("staff")}),
        ),
    ),
    users=(User(UserName("ana"), 2000),),
    default_build_quota=500,
    topology=("block", "rack"),
    settings=Settings(ReclaimUpTo.GUARANTEE, 2, 5.0, 3600.0),
)

NODE = Node(NodeName("n1"), 8)
