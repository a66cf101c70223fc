"""The agent of a worker: it sees only its own attempt, and loses nothing."""

from __future__ import annotations

import hashlib
import io
import json
import os
import socket
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.engines.agents import uploads
from scheduler.engines.files import Area, log_file, output_file
from scheduler.errors import Unavailable
from scheduler.files.blobs import Blobs
from scheduler.model import Fault, JobId, LargeFile
from scheduler.worker.agent import requests, upload
from tests.engines.act import DEAF, Act
from tests.engines.agents.workers import FIRST, agents_of
from tests.engines.backends import RemoteBackendSetup, Scheduler
from tests.engines.workplace import eventually, launch, python, shell

# -- inputs of a worker -------------------------------------------------------------------------------------


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
        "RUNAI_SAVE_REQUEST": str(home / "save"),
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


async def test_a_missing_bundle_is_the_jobs_fault(here: Scheduler) -> None:
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


# -- outputs of a worker ------------------------------------------------------------------------------------


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


async def test_too_large_files_are_left_out_with_a_message(here: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(uploads.LIMITS, Area.OUTPUT, 1000)
    write = shell('head -c 2000 /dev/zero > "$RUNAI_OUTPUT_DIR/big"; echo ok > "$RUNAI_OUTPUT_DIR/small"')
    await here.backend.engine.launch(launch("j", write))
    assert (await here.end("j")).exit_code == 0
    assert [file.path for file in await here.backend.files.list(JobId("j"), Area.OUTPUT)] == ["small"]
    log = await here.backend.files.read(log_file(JobId("j"), 1, 0), 0, 2**16)
    assert log.decode().strip() == ("[output/big was not uploaded: A job may have 0 GiB in its output folder.]")


async def test_files_with_unusable_names_or_too_deep_are_left_out(here: Scheduler) -> None:
    write = python(
        "import os; os.chdir(os.environ['RUNAI_OUTPUT_DIR']); open(b'bad-\\xff', 'w').close();"
        " open('good', 'w').close();"
        f" os.makedirs('/'.join('d' * {upload.DEEPEST})); open('d/near', 'w').close();"
        f" os.chdir('/'.join('d' * {upload.DEEPEST})); os.mkdir('d'); open('d/far', 'w').close()"
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


# -- the scheduler is down ----------------------------------------------------------------------------------


async def test_an_outage_of_the_scheduler_loses_and_repeats_no_output(here: Scheduler, tmp_path: Path) -> None:
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
def test_an_interrupted_answer_is_requested_again(answer: bytes, whole: str) -> None:
    """At any byte: it is not mistaken for a shorter one, and refuses nothing."""

    def told(cut: int) -> str:
        with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:
            scheduler = requests.Scheduler("http://{}:{}".format(*server.getsockname()), "token")
            asked = pool.submit(scheduler.ask, "GET", "spec")
            connection, _ = server.accept()
            with connection:
                connection.recv(2**16)
                connection.sendall(answer[:cut])
            try:
                return asked.result().decode()
            except requests.Refused as refusal:
                return f"refused: {refusal}"
            except OSError:
                return "try again"

    end = len(answer)
    assert told(end) == whole
    assert {told(cut) for cut in range(end - 4)} == {"try again"}
    assert {told(cut) for cut in range(end - 4, end)} <= {"try again", whole}  # the last line end adds nothing


async def test_a_worker_that_ends_during_an_outage_reports_it_later(
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
    """Also where the engine cannot kill it: the agent's token is refused."""
    await here.backend.engine.launch(launch("j", Act(say="one\n", gate="/never", term=DEAF).command))
    await here.backend.files.grown(log_file(JobId("j"), 1, 0), 0)
    await here.close()
    here.backend = setup.backend()
    await here.open()
    await agents_of(here).recover([])
    await here.serve()
    await eventually(lambda: not setup.containers.alive(FIRST))


async def test_no_token_is_refused_before_the_state_is_read(here: Scheduler, tokens: tuple[str, ...]) -> None:
    """A refused agent ends its worker; one that is asked to try again continues."""
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
