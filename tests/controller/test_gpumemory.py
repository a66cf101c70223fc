"""Nobody is ended for their use of GPU memory without a warning and the whole time after it, nor for another's use."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.controller.book import Book
from scheduler.controller.gpumemory import AGAIN, WARNED, Excess, Key, Use, asked_to_end, excesses, uses
from scheduler.model import (
    BUILD_POOL,
    Environment,
    GpuKey,
    Isolation,
    JobId,
    Node,
    NodeName,
    Pool,
    ProjectName,
    Request,
    Session,
    SessionId,
    SessionState,
    Shape,
    UserName,
    WorkerPlacement,
)
from scheduler.store import ChangeSet
from scheduler.telemetry import GpuProcess, GpuSample

N0 = NodeName("n0")
GPU = GpuKey((N0, 0))
KEY: Key = (SessionId("s"), 0, GPU)
ANN, BEN = UserName("ann"), UserName("ben")


def use(memory: int) -> Use:
    return Use(KEY, 100, (GpuProcess(1, memory),))


@given(st.lists(st.tuples(st.floats(0.1, 40), st.sampled_from(["over", "within", "gone", "unknown"])), max_size=40))
def test_it_is_ended_only_after_a_warning_and_if_it_used_too_much_all_the_time(looks: list[tuple[float, str]]) -> None:
    now, known, since = 1000.0, dict[Key, Excess](), 0.0
    for pause, what in looks:
        now += pause
        before = KEY in known
        found = excesses(
            known,
            {"over": [use(101)], "within": [use(100)]}.get(what, []),
            {GPU} if what == "unknown" else (),
            now,
        )
        known = dict(found.all)
        assert (KEY in known) == (what == "over" or (what == "unknown" and before))
        if KEY in known and not before:
            since = now
        assert bool(found.due) == (what == "over" and now >= since + WARNED)


def test_a_process_that_was_asked_to_end_is_killed_a_moment_later() -> None:
    warned = excesses({}, [use(200)], (), 0.0).all
    (due,) = excesses(warned, [use(300)], (), WARNED).due
    assert not due.asked
    assert due.warning(session=True).startswith("The server's kernels use 200 MiB"), "the warning keeps its words"
    asked = {KEY: asked_to_end(due, WARNED)}
    assert not excesses(asked, [use(300)], (), WARNED + AGAIN / 2).due
    (again,) = excesses(asked, [use(300)], (), WARNED + AGAIN).due
    assert again.asked


def test_only_processes_of_its_own_on_a_shared_gpu_count() -> None:
    """Any process can claim to belong to another user's server; what it runs as cannot be chosen."""
    node = Node(N0, 2, gpu_memory=1000, node_pool=BUILD_POOL, isolation=Isolation.WATCHER)
    book = Book(Pool(), (node,))
    for name, user, gpu, share in (("half", ANN, 0, 500), ("other", BEN, 0, 500), ("whole", ANN, 1, 1000)):
        request = Request(ProjectName(""), user, Environment.BUILD, Shape(gpus=share))
        placement = (WorkerPlacement(N0, (gpu,), share),)
        session = Session(SessionId(name), name, request, 0.0, SessionState.LEASED, placement=placement)
        book.put(ChangeSet(sessions=(session,)))
    processes = (
        GpuProcess(1, 300, user=ANN, server="half", uid=1001),
        GpuProcess(2, 400, user=ANN, server="half", uid=1001),
        GpuProcess(3, 9999, user=ANN, server="half", uid=1002),
        GpuProcess(4, None, user=BEN, server="other", uid=1002),
        GpuProcess(5, 9999, user=ANN, server="whole", uid=1001),
        GpuProcess(6, 9999, job_id=JobId("j"), uid=1001),
        GpuProcess(7, 9999),
    )
    samples = {GPU: GpuSample(processes=processes), GpuKey((N0, 1)): GpuSample(processes=processes)}
    found = {each.key[0]: each for each in uses(book, samples, {ANN: {1001}, BEN: {1002}})}
    assert {id: (each.used, each.given) for id, each in found.items()} == {"half": (700, 500), "other": (0, 500)}
    assert found[SessionId("half")].largest.pid == 2
