"""The agent of a worker: one file that runs anywhere, sees its own attempt alone, and loses nothing on the way."""

from __future__ import annotations

import ast
import asyncio
import hashlib
import inspect
import io
import json
import os
import shutil
import socket
import subprocess
import tarfile
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from scheduler.discovery.statefolder import StateFolder
from scheduler.engines.agents import uploads
from scheduler.engines.agents.agents import Agents, State
from scheduler.engines.agents.tokens import Tokens, Worker
from scheduler.engines.agents.uploads import Uploads
from scheduler.engines.base import WorkerState
from scheduler.engines.files import Area, log_file, output_file
from scheduler.engines.rendezvous import Rendezvous
from scheduler.errors import TooLarge, Unavailable
from scheduler.files.blobs import Blobs
from scheduler.model import Fault, JobId, LargeFile
from scheduler.worker import agent, supervisor
from tests.engines.act import DEAF, Act
from tests.engines.backends import RemoteBackendSetup, Scheduler
from tests.engines.remote import Containers
from tests.engines.workplace import eventually, launch, python, shell

FIRST, SECOND = Worker(JobId("j"), 1, 0), Worker(JobId("j"), 1, 1)


@pytest.fixture
def setup(tmp_path: Path) -> RemoteBackendSetup:
    (tmp_path / "state").mkdir(mode=0o700)
    return RemoteBackendSetup(tmp_path / "state")


@pytest.fixture
async def here(setup: RemoteBackendSetup) -> AsyncIterator[Scheduler]:
    scheduler = Scheduler(setup)
    await scheduler.open()
    await scheduler.backend.engine.recover([])
    await scheduler.serve()
    try:
        yield scheduler
    finally:
        await scheduler.close()
        setup.containers.clear()


def agents_of(here: Scheduler) -> Agents:
    assert here.backend.agents is not None
    return here.backend.agents


Ask = Callable[[str], httpx.AsyncClient]


@pytest.fixture
async def ask(setup: RemoteBackendSetup) -> AsyncIterator[Ask]:
    """Makes a client with the token of a worker."""
    url = f"http://127.0.0.1:{setup.port}/api/v1/agent/"
    async with AsyncExitStack() as clients:

        def client(token: str) -> httpx.AsyncClient:
            made = httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30)
            clients.push_async_callback(made.aclose)
            return made

        yield client


# -- one file, any Python -----------------------------------------------------------------------------------


def test_it_is_written_in_python_3_8() -> None:
    ast.parse(inspect.getsource(agent), feature_version=(3, 8))


def older_python() -> str | None:
    """The oldest Python from 3.8 on that this machine has beside the tests' own."""
    for name in ("python3.8", "python3.9", "python3.10"):
        if found := shutil.which(name):
            try:
                subprocess.run([found, "-c", ""], check=True, capture_output=True)
            except (OSError, subprocess.CalledProcessError):
                continue
            return found
    return None


@pytest.mark.skipif(older_python() is None, reason="There is no Python from 3.8 to 3.10 on this machine.")
async def test_an_older_python_runs_it(here: Scheduler, setup: RemoteBackendSetup) -> None:
    found = older_python()
    assert found is not None
    setup.containers = Containers(setup.containers.folder, found)
    here.setup = setup
    await here.restart()
    await here.backend.engine.launch(launch("j", shell("echo one; exit 3")))
    assert (await here.end("j")).exit_code == 3
    assert await here.backend.files.read(log_file(JobId("j"), 1, 0), 0, 99) == b"one\n"


@pytest.mark.parametrize(
    "name",
    [
        *("how_it_ended", "why_not", "_ended", "_reap_orphans"),
        *("_children", "_parent", "_kill", "_signal_group"),
    ],
)
def test_what_it_shares_with_the_supervisor_is_the_same(name: str) -> None:
    """Each is run by itself, as a file, so neither can import the other."""
    assert inspect.getsource(vars(agent)[name]) == inspect.getsource(vars(supervisor)[name])


# -- what a worker gets -------------------------------------------------------------------------------------


async def test_a_worker_finds_its_contract_and_no_path_of_the_scheduler(
    here: Scheduler, setup: RemoteBackendSetup
) -> None:
    dump = python("import json, os; print(json.dumps(dict(os.environ)))")
    await here.backend.engine.launch(launch("j", dump, workers=2, env={"MINE": "1", "RUNAI_RANK": "a lie"}))
    await here.end("j", 1)
    found = json.loads(await here.backend.files.read(log_file(JobId("j"), 1, 1), 0, 2**16))
    home = setup.containers.folder / "j.1.1"
    assert {name: found[name] for name in found if name.startswith(("RUNAI_", "CUDA_"))} == {
        "CUDA_VISIBLE_DEVICES": "1",
        "RUNAI_GPUS": "1",
        "RUNAI_JOB_ID": "j",
        "RUNAI_JOB_NAME": "name of j",
        "RUNAI_PROJECT": "default",
        "RUNAI_ATTEMPT": "1",
        "RUNAI_RANK": "1",
        "RUNAI_WORLD_SIZE": "2",
        "RUNAI_CHECKPOINT_DIR": str(home / "checkpoint"),
        "RUNAI_OUTPUT_DIR": str(home / "output"),
    }
    assert found["MINE"] == "1"
    assert not [value for value in found.values() if str(setup.folder) in value]


async def test_a_worker_gets_the_files_of_its_job(here: Scheduler, setup: RemoteBackendSetup) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("sub/words.txt")
        member.size = 5
        archive.addfile(member, io.BytesIO(b"words"))
    bundle, parts = packed.getvalue(), (b"a" * 5_000_000, b"b" * 10)
    digests = []
    for content in (bundle, *parts):
        digests.append(hashlib.sha256(content).hexdigest())
        with Blobs(setup.folder).receive(digests[-1]) as incoming:
            incoming.write(content)
            await incoming.commit()
    large = LargeFile("big/run", tuple(digests[1:]), executable=True)
    order = launch("j", shell("cat sub/words.txt; wc -c < big/run; test -x big/run"), bundle=digests[0])
    await here.backend.engine.launch(replace(order, program=replace(order.program, files=(large,))))
    assert (await here.end("j")).exit_code == 0
    assert await here.backend.files.read(log_file(JobId("j"), 1, 0), 0, 99) == b"words5000010\n"


async def test_a_bundle_that_is_gone_is_the_fault_of_the_job(here: Scheduler) -> None:
    await here.backend.engine.launch(launch("j", ("true",), bundle="a" * 64))
    end = await here.end("j")
    assert (end.exit_code, end.fault, end.reason) == (
        127,
        Fault.JOB,
        f"The blob {'a' * 64} is missing on the scheduler's disk.",
    )


async def test_the_next_attempt_finds_what_the_last_one_saved(here: Scheduler) -> None:
    save = shell(
        'cat "$RUNAI_CHECKPOINT_DIR/deep/at" 2>/dev/null; rm -f "$RUNAI_CHECKPOINT_DIR/old"\n'
        'mkdir -p "$RUNAI_CHECKPOINT_DIR/deep"; echo $RUNAI_ATTEMPT > "$RUNAI_CHECKPOINT_DIR/deep/at"\n'
        'test $RUNAI_ATTEMPT = 2 || touch "$RUNAI_CHECKPOINT_DIR/old"'
    )
    for attempt in (1, 2):
        await here.backend.engine.launch(launch("j", save, attempt=attempt))
        await here.end("j", attempt=attempt)
    assert await here.backend.files.read(log_file(JobId("j"), 2, 0), 0, 10) == b"1\n"
    assert [file.path for file in await here.backend.files.list(JobId("j"), Area.CHECKPOINT)] == ["deep/at"]


# -- what a worker leaves -----------------------------------------------------------------------------------


async def test_the_reports_of_all_workers_are_one_file(here: Scheduler) -> None:
    report = 'echo "{\\"rank\\": $RUNAI_RANK, \\"attempt\\": $RUNAI_ATTEMPT}" >> "$RUNAI_OUTPUT_DIR/metrics.jsonl"'
    for attempt in (1, 2):
        await here.backend.engine.launch(launch("j", shell(f"{report}; {report}"), workers=2, attempt=attempt))
        for rank in (0, 1):
            await here.end("j", rank, attempt)
    text = await here.backend.files.read(output_file(JobId("j"), "metrics.jsonl"), 0, 2**16)
    told = [(found["attempt"], found["rank"]) for found in map(json.loads, text.splitlines())]
    assert sorted(told) == [(attempt, rank) for attempt in (1, 2) for rank in (0, 0, 1, 1)]


@pytest.mark.parametrize("most", [1000, 600_000])
async def test_a_log_ends_at_its_limit_with_a_sentence(
    here: Scheduler, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(agents_of(here), "log_limit", most)
    await here.backend.engine.launch(launch("j", shell("head -c 2000000 /dev/zero; sleep 0.3; echo more")))
    assert (await here.end("j")).exit_code == 0
    log = await here.backend.files.read(log_file(JobId("j"), 1, 0), 0, 2**21)
    notice = f"\n[The log has reached its limit of {most} bytes; further output is discarded.]\n"
    assert log == b"\0" * most + notice.encode()


async def test_what_is_too_large_is_left_out_with_a_sentence(here: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(uploads.LIMITS, Area.OUTPUT, 1000)
    write = shell('head -c 2000 /dev/zero > "$RUNAI_OUTPUT_DIR/big"; echo ok > "$RUNAI_OUTPUT_DIR/small"')
    await here.backend.engine.launch(launch("j", write))
    assert (await here.end("j")).exit_code == 0
    assert [file.path for file in await here.backend.files.list(JobId("j"), Area.OUTPUT)] == ["small"]
    log = await here.backend.files.read(log_file(JobId("j"), 1, 0), 0, 2**16)
    assert log.decode().strip() == ("[output/big was not uploaded: A job may have 0 GiB in its output folder.]")


async def test_what_no_address_can_say_and_what_lies_too_deep_is_left_out(here: Scheduler) -> None:
    write = python(
        "import os; os.chdir(os.environ['RUNAI_OUTPUT_DIR']); open(b'bad-\\xff', 'w').close();"
        " open('good', 'w').close();"
        f" os.makedirs('/'.join('d' * {agent.DEEPEST})); open('d/near', 'w').close();"
        f" os.chdir('/'.join('d' * {agent.DEEPEST})); os.mkdir('d'); open('d/far', 'w').close()"
    )
    await here.backend.engine.launch(launch("j", write))
    assert (await here.end("j")).exit_code == 0
    assert [file.path for file in await here.backend.files.list(JobId("j"), Area.OUTPUT)] == ["d/near", "good"]


async def test_the_container_shows_what_the_log_has(here: Scheduler, setup: RemoteBackendSetup) -> None:
    await here.backend.engine.launch(launch("j", shell("echo one; echo two >&2")))
    await here.end("j")
    await eventually(lambda: not setup.containers.alive(FIRST))
    assert setup.containers.shown(FIRST) == "one\ntwo\n"


async def test_every_process_of_a_worker_is_gone_when_its_end_is_told(here: Scheduler, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = f"sleep 600 & echo $! >> {pids}; setsid sleep 600 & echo $! >> {pids}; exit 5"
    await here.backend.engine.launch(launch("j", shell(code)))
    assert (await here.end("j")).exit_code == 5
    for pid in pids.read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


# -- the scheduler is away ----------------------------------------------------------------------------------


async def test_nothing_is_lost_and_nothing_comes_twice_while_the_scheduler_is_away(
    here: Scheduler, tmp_path: Path
) -> None:
    gates = [tmp_path / f"gate{number}" for number in range(3)]
    waits = "while [ ! -e {} ]; do sleep 0.01; done; echo {} | tee -a $RUNAI_OUTPUT_DIR/metrics.jsonl"
    code = "\n".join(waits.format(gate, number) for number, gate in enumerate(gates))
    await here.backend.engine.launch(launch("j", shell(code)))
    gates[0].touch()
    await here.backend.files.grown(log_file(JobId("j"), 1, 0), 0)
    await here.close()
    gates[1].touch()
    here.backend = here.setup.backend()
    await here.open()
    await here.backend.engine.recover([(JobId("j"), 1, 1)])
    gates[2].touch()
    await here.serve()
    assert (await here.end("j")).exit_code == 0
    assert await here.backend.files.read(log_file(JobId("j"), 1, 0), 0, 99) == b"0\n1\n2\n"
    assert await here.backend.files.read(output_file(JobId("j"), "metrics.jsonl"), 0, 99) == b"0\n1\n2\n"


@pytest.mark.parametrize(
    ("answer", "whole"),
    [
        (b"HTTP/1.1 200 OK\r\nServer: s\r\nContent-Length: 12\r\n\r\n" + b'{"size": 12}', '{"size": 12}'),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "{}"),
        (
            b"HTTP/1.1 409 Conflict\r\nContent-Type: application/problem+json\r\nContent-Length: 15\r\n\r\n"
            + b'{"detail":"no"}',
            "refused: no",
        ),
    ],
)
def test_an_answer_that_breaks_off_is_asked_for_again(answer: bytes, whole: str) -> None:
    """At whichever byte: it is not taken for a shorter one, and refuses nothing."""

    def told(cut: int) -> str:
        with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:
            scheduler = agent.Scheduler("http://{}:{}".format(*server.getsockname()), "token")
            asked = pool.submit(scheduler.ask, "GET", "spec")
            connection, _ = server.accept()
            with connection:
                connection.recv(2**16)
                connection.sendall(answer[:cut])
            try:
                return asked.result().decode()
            except agent.Refused as refusal:
                return f"refused: {refusal}"
            except OSError:
                return "try again"

    end = len(answer)
    assert told(end) == whole
    assert {told(cut) for cut in range(end - 4)} == {"try again"}
    assert {told(cut) for cut in range(end - 4, end)} <= {"try again", whole}  # the last line end says nothing new


async def test_a_worker_that_ends_while_the_scheduler_is_away_tells_so_later(
    here: Scheduler, setup: RemoteBackendSetup, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    await here.backend.engine.launch(launch("j", Act(say="one\n", gate=str(gate), code=4).command))
    await here.backend.files.grown(log_file(JobId("j"), 1, 0), 0)
    await here.close()
    gate.touch()
    work = setup.containers.folder / "j.1.0"
    await eventually(lambda: not [p for p in _children(setup.containers.pid(FIRST)) if work.exists()])
    here.backend = setup.backend()
    await here.open()
    await here.backend.engine.recover([(JobId("j"), 1, 1)])
    await here.serve()
    assert (await here.end("j")).exit_code == 4


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


async def test_an_attempt_that_is_not_known_any_more_ends(here: Scheduler, setup: RemoteBackendSetup) -> None:
    """Also where the engine cannot kill it: the agent finds its token refused."""
    await here.backend.engine.launch(launch("j", Act(say="one\n", gate="/never", term=DEAF).command))
    await here.backend.files.grown(log_file(JobId("j"), 1, 0), 0)
    await here.close()
    here.backend = setup.backend()
    await here.open()
    await agents_of(here).recover([])
    await here.serve()
    await eventually(lambda: not setup.containers.alive(FIRST))


async def test_no_token_is_refused_while_nobody_can_say(here: Scheduler, tokens: tuple[str, ...]) -> None:
    """An agent that is refused ends its worker; one that is told to try again goes on."""
    agents = agents_of(here)
    await agents.close()
    for token in (*tokens, "another"):
        with pytest.raises(Unavailable):
            agents.worker(token)
    await agents.open(here.report)
    with pytest.raises(Unavailable):
        agents.worker(tokens[0])
    await agents.recover([(JobId("j"), 1, 2)])
    assert agents.worker(tokens[0]) is not None
    assert agents.worker("another") is None


# -- tokens -------------------------------------------------------------------------------------------------


@pytest.fixture
async def tokens(here: Scheduler) -> tuple[str, ...]:
    """The tokens of two workers whose agents nobody has started."""
    order = launch("j", ("true",), workers=2)
    rendezvous = Rendezvous(order.program.framework, order.workers, ("here",) * 2, (), "")
    return await agents_of(here).admit(order, rendezvous)


async def test_the_token_of_an_ended_worker_is_refused(here: Scheduler, ask: Ask, tokens: tuple[str, ...]) -> None:
    own, other = (ask(token) for token in tokens)
    end = {"agent": "a" * 32, "state": "exited", "started": 1.0, "at": 2.0, "exit_code": 0}
    assert (await own.post("state", json=end)).status_code == 204
    assert (await own.post("state", json=end)).status_code == 401
    for path in ("spec", "orders", "files/output", "files/output/a"):
        assert (await own.get(path)).status_code == 401
    assert (await own.put("streams/log", params={"offset": 0}, content=b"more")).status_code == 401
    assert (await other.get("spec")).status_code == 200
    await here.restart(("j", 1, 2))
    assert (await own.get("spec")).status_code == 401
    assert (await other.get("spec")).status_code == 200


async def test_a_token_cannot_be_made_from_another(tmp_path: Path) -> None:
    tokens = Tokens(StateFolder(tmp_path))
    token = tokens.of(FIRST)
    assert tokens.worker(token) == FIRST
    assert Tokens(StateFolder(tmp_path)).of(FIRST) == token
    for forged in (token.replace("j.1.0", "j.1.1"), token[:-1], token.upper(), "j.1.0.", "", f"{token}0"):
        assert tokens.worker(forged) is None
    other = tmp_path / "other"
    other.mkdir()
    assert Tokens(StateFolder(other)).worker(token) is None


async def test_only_one_agent_runs_a_worker(ask: Ask, tokens: tuple[str, ...]) -> None:
    own = ask(tokens[0])
    assert (await own.post("state", json={"agent": "a" * 32, "state": "pulling"})).status_code == 204
    assert (await own.post("state", json={"agent": "a" * 32, "state": "pulling"})).status_code == 204
    refused = await own.post("state", json={"agent": "b" * 32, "state": "pulling"})
    assert (refused.status_code, refused.json()["detail"]) == (409, "Another agent runs worker 0 already.")


async def test_the_files_of_other_jobs_do_not_exist_for_a_worker(
    here: Scheduler, ask: Ask, tokens: tuple[str, ...]
) -> None:
    await here.backend.engine.launch(launch("k", Act(say="secret", writes="out.txt").command))
    await here.end("k")
    own = ask(tokens[0])
    assert (await own.get("files/output")).json() == {"files": []}
    for path in ("out.txt", "../../k/output/out.txt", "%2e%2e/%2e%2e/k/output/out.txt", "/etc/passwd"):
        answer = await own.get(f"files/output/{path}")
        assert answer.status_code == 404 or answer.content == b""
    assert (await own.get("files/log")).status_code == 404
    assert (await own.get(f"blobs/{'a' * 64}")).status_code == 404
    assert (await own.get("tools/supervisor.py")).status_code == 404


@pytest.mark.parametrize("path", ["..%2fout", "a/..%2f..%2fb", "a%00b", "a//b"])
async def test_nothing_is_written_outside(here: Scheduler, ask: Ask, tokens: tuple[str, ...], path: str) -> None:
    answer = await ask(tokens[0]).put(f"files/output/{path}", params={"size": 1}, content=b"x")
    assert answer.status_code in (404, 422)
    assert await here.backend.files.list(JobId("j"), Area.OUTPUT) == ()


async def test_nothing_is_written_through_a_link(here: Scheduler, setup: RemoteBackendSetup, tmp_path: Path) -> None:
    files = agents_of(here).files
    output = setup.folder / "jobs/j/output"
    output.mkdir(parents=True)
    (output / "link").symlink_to(tmp_path)
    (tmp_path / "mine").write_text("as it was")
    (output / "file").symlink_to(tmp_path / "mine")
    piece = uploads.Piece(0, b"x", 1, 1.0, "1")
    with pytest.raises(Exception, match="cannot be written"):
        await files.put(FIRST, Area.OUTPUT, "link/new", piece)
    await files.put(FIRST, Area.OUTPUT, "file", piece)
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "mine").read_text() == "as it was"
    assert (output / "file").read_bytes() == b"x"


# -- pieces that come twice -----------------------------------------------------------------------------------


@pytest.fixture
async def uploaded(tmp_path: Path) -> Uploads:
    found = Uploads(tmp_path, 100, lambda job, worker: True)
    await found.open()
    return found


async def test_pieces_of_a_log_may_come_twice_and_from_an_earlier_place(uploaded: Uploads) -> None:
    assert await uploaded.append(FIRST, "log", 0, b"one ") == 4
    assert await uploaded.append(FIRST, "log", 0, b"one ") == 4
    assert await uploaded.append(FIRST, "log", 0, b"one two ") == 8
    assert await uploaded.append(FIRST, "log", 99, b"far ahead") == 8
    assert await uploaded.append(FIRST, "log", 2, b"e ") == 8
    assert await uploaded.read(log_file(JobId("j"), 1, 0), 0, 99) == b"one two "


async def test_pieces_of_reports_may_come_twice_and_are_whole_lines(uploaded: Uploads) -> None:
    for there in (4, 8):
        assert await uploaded.append(FIRST, "reports", 0, b"one\ntw") == there
        assert await uploaded.append(SECOND, "reports", 0, b"other\n") == 6
        assert await uploaded.append(FIRST, "reports", 4, b"two\n") == 8
    assert await uploaded.append(FIRST, "reports", 99, b"far ahead\n") == 8
    assert await uploaded.read(output_file(JobId("j"), "metrics.jsonl"), 0, 99) == b"one\nother\ntwo\n"


async def test_reports_of_many_workers_at_the_same_time_are_all_kept(uploaded: Uploads) -> None:
    workers = [Worker(JobId("j"), 1, rank) for rank in range(20)]
    sent = (uploaded.append(worker, "reports", 0, f"{worker.rank}\n".encode()) for worker in workers)
    await asyncio.gather(*sent)
    text = await uploaded.read(output_file(JobId("j"), "metrics.jsonl"), 0, 999)
    assert sorted(map(int, text.split())) == list(range(20))


async def test_a_file_appears_whole_and_its_pieces_may_come_twice(uploaded: Uploads) -> None:
    def piece(offset: int, data: bytes, version: str = "1") -> uploads.Piece:
        return uploads.Piece(offset, data, 8, float(version), version)

    file = output_file(JobId("j"), "a/b")
    for _ in range(2):
        assert await uploaded.put(FIRST, Area.OUTPUT, "a/b", piece(0, b"one ")) == 4
        assert await uploaded.read(file, 0, 9) == b""
    for _ in range(2):
        assert await uploaded.put(FIRST, Area.OUTPUT, "a/b", piece(4, b"two ")) == 8
        assert await uploaded.read(file, 0, 9) == b"one two "
    assert await uploaded.put(FIRST, Area.OUTPUT, "a/b", piece(0, b"1111", "2")) == 4
    assert await uploaded.read(file, 0, 9) == b"one two "
    assert await uploaded.put(FIRST, Area.OUTPUT, "a/b", piece(4, b"2222", "2")) == 8
    assert await uploaded.read(file, 0, 9) == b"11112222"


async def test_what_is_on_its_way_counts_and_a_file_does_not_grow_beyond_what_it_was_announced_with(
    uploaded: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(uploads.LIMITS, Area.OUTPUT, 100)
    await uploaded.put(FIRST, Area.OUTPUT, "a", uploads.Piece(0, b"x" * 60, 80, 1.0, "1"))
    with pytest.raises(TooLarge):
        await uploaded.put(FIRST, Area.OUTPUT, "b", uploads.Piece(0, b"x", 80, 1.0, "1"))
    assert await uploaded.put(FIRST, Area.OUTPUT, "a", uploads.Piece(60, b"x" * 60, 120, 1.0, "1")) == 0
    with pytest.raises(TooLarge):
        await uploaded.put(FIRST, Area.OUTPUT, "a", uploads.Piece(60, b"x" * 60, 80, 1.0, "1"))
    assert await uploaded.put(FIRST, Area.OUTPUT, "a", uploads.Piece(60, b"x" * 20, 80, 1.0, "1")) == 80
    await uploaded.put(SECOND, Area.OUTPUT, "c", uploads.Piece(0, b"x", 20, 1.0, "1"))
    uploaded.keep(SECOND)  # it has ended before it had sent all of it
    await uploaded.put(FIRST, Area.OUTPUT, "d", uploads.Piece(0, b"x", 20, 1.0, "1"))


async def test_reports_that_were_added_before_a_crash_are_not_added_again(uploaded: Uploads, tmp_path: Path) -> None:
    await uploaded.append(FIRST, "reports", 0, b"one\n")
    book = tmp_path / "jobs/j/merged.json"
    before = book.read_bytes()
    await uploaded.append(FIRST, "reports", 4, b"two\n")
    book.write_bytes(before)  # as `kill -9` between the two leaves it
    assert await uploaded.append(FIRST, "reports", 4, b"two\n") == 8
    assert await uploaded.read(output_file(JobId("j"), "metrics.jsonl"), 0, 99) == b"one\ntwo\n"


# -- what an agent says ---------------------------------------------------------------------------------------


async def test_a_place_that_cannot_hold_the_files_is_at_fault(here: Scheduler, tokens: tuple[str, ...]) -> None:
    agents = agents_of(here)
    live = agents.worker(tokens[0])
    assert live is not None
    await agents.hear(live, State("a" * 32, WorkerState.LOST, 1.0, reason="its files could not be written."))
    assert ((await here.end("j")).state, (await here.end("j")).fault) == (WorkerState.LOST, Fault.PLACE)


async def test_an_agent_learns_of_a_stop_while_it_waits(here: Scheduler, tokens: tuple[str, ...]) -> None:
    agents = agents_of(here)
    live = agents.worker(tokens[0])
    assert live is not None
    waiting = asyncio.create_task(agents.orders(live, 0, 30))
    await agents.stop(JobId("j"), 1, 600)
    number, left = await waiting
    assert number == 1
    assert left is not None
    assert 0 < left <= 600
