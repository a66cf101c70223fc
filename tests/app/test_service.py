"""The service from the command line: started, used, killed at any instant and restarted."""

from __future__ import annotations

import json
import random
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scheduler.schema import JobSubmit, SessionOpen
from scheduler.service.app import LOCKED

if TYPE_CHECKING:
    from tests.app.conftest import Service

COUNTED = """\
import os, pathlib, sys, time
diary, go = map(pathlib.Path, sys.argv[1:])
def note(what):
    with diary.open("a") as file:  # one short line: written whole
        file.write(f"{what} {os.environ['RUNAI_JOB_ID']}\\n")
note("start")
print("begun")
while not go.exists():
    time.sleep(0.02)
note("end")
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# -- starting and stopping ----------------------------------------------------------------------------------


def test_the_state_folder_is_closed_to_others(service: Service) -> None:
    service.start()
    assert mode(service.folder.path) == 0o700
    assert [mode(service.folder.path / name) for name in ("token", "endpoint.json", "lock")] == [0o600] * 3


def test_a_second_start_says_who_holds_the_folder(service: Service) -> None:
    first = service.start()
    on_its_way = service.folder.path / "blobs/incoming/bundle"
    on_its_way.touch()
    second = service.spawn()
    assert second.wait(20) == LOCKED
    assert on_its_way.exists()
    assert f"Another scheduler (process {first.pid}) holds the state folder" in service.log.read_text()
    assert service.folder.endpoint() == first


def test_sigterm_ends_it_with_status_0_while_jobs_run_on(service: Service) -> None:
    service.start()
    (service.work / "wait.py").write_text(COUNTED)
    diary, go = service.work / "diary", service.work / "go"
    job = service.cli("submit", "wait.py", "--", str(diary), str(go)).stdout.strip()
    service.until(diary.exists)
    follower = subprocess.Popen(
        [sys.executable, "-m", "scheduler.cli", "logs", "-f", job],
        env=service.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    assert follower.stdout.readline() == "begun\n"
    begun = time.monotonic()
    assert service.stop() == 0
    assert time.monotonic() - begun < 10
    assert service.folder.endpoint() is None
    go.touch()
    service.until(lambda: "end" in diary.read_text())
    service.start()
    with service.client() as client:
        assert client.wait(job, 30).state == "succeeded"
    assert follower.communicate(timeout=30)[0] == ""  # it continued at its position, and got the end
    assert follower.returncode == 0
    assert diary.read_text() == f"start {job}\nend {job}\n"


def test_ctrl_c_ends_it_as_sigterm_does(service: Service) -> None:
    service.start()
    assert service.process is not None
    service.process.send_signal(signal.SIGINT)
    assert service.process.wait(20) == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--port={taken}"], "Nothing can listen on 127.0.0.1, port {taken} (Address already in use)"),
        (["--pool-file={folder}/none.yaml"], "The pool file {folder}/none.yaml cannot be read"),
        (["--pool-file={folder}/bad.yaml"], "projects[0].name is missing."),
        (["--db-url=nonsense"], "nonsense"),
        (["--state-dir={folder}/bad.yaml"], "bad.yaml cannot be the state folder"),
        (["serve-me"], "`serve` takes options only, not 'serve-me'"),
        (["--port=many"], "many"),
        (["--auth=none"], "none"),
        (
            ["--RunaiService.stat_dir=x"],
            "There is no option RunaiService.stat_dir; did you mean 'state_dir'?",
        ),
    ],
)
def test_an_invalid_option_is_reported_in_one_sentence(
    service: Service, tmp_path: Path, options: list[str], sentence: str
) -> None:
    (tmp_path / "bad.yaml").write_text("projects: [{guaranteed: 1}]")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        names = {"taken": taken.getsockname()[1], "folder": tmp_path}
        process = service.spawn(*(option.format(**names) for option in options))
        assert process.wait(20) not in (0, None)
    log = service.log.read_text()
    assert sentence.format(**names) in log
    assert "Traceback" not in log


# -- the command line against it ----------------------------------------------------------------------------


def test_a_script_is_sent_followed_and_its_outputs_come_back(service: Service) -> None:
    service.start()
    (service.work / "lib.py").write_text("WORD = 'hello'\n")
    (service.work / "train.py").write_text(
        "import os, pathlib, sys, lib\n"
        "print(lib.WORD, *sys.argv[1:], os.environ['RUNAI_GPUS'].count(','), os.environ['COLOUR'])\n"
        "pathlib.Path(os.environ['RUNAI_OUTPUT_DIR'], 'sub').mkdir()\n"
        "pathlib.Path(os.environ['RUNAI_OUTPUT_DIR'], 'sub', 'model').write_text('42')\n"
    )
    words = [
        "submit",
        "--gpus",
        "2",
        "--env",
        "COLOUR=red",
        "--out",
        "results",
        "train.py",
        "--",
        "--epochs",
        "3",
    ]
    done = service.cli(*words)
    job, _, output = done.stdout.partition("\n")
    assert output == "hello --epochs 3 1 red\n"
    assert (service.work / "results/sub/model").read_text() == "42"
    assert service.cli("logs", job).stdout == output
    assert "sub/model" in service.cli("outputs", job).stdout
    shown = json.loads(service.cli("status", job, "-o", "json").stdout)
    assert (shown["state"], shown["gpus"], shown["name"]) == ("succeeded", 2, "train.py")
    assert "train.py" in service.cli("list", "--sort", "waiting", "--ascending").stdout
    heads, used = service.cli("usage", "--since", "1d", "--by", "project,gpu_type").stdout.splitlines()
    assert (heads.split()[0], used.split()[:2]) == ("PROJECT", ["default", "–"])
    table = service.cli("usage", "--by", "user", "--every", "hour", "-o", "csv").stdout.splitlines()
    assert table[0].startswith("start,user,gpu_hours,")
    what_if = service.cli("simulate", "--recorded", "--since", "1d", "--gpus", "+2", "--guaranteed", "default=1").stdout
    assert "1 job submitted and simulated to the end." in what_if
    assert what_if.splitlines()[2].split() == ["RECORDED", "NOW", "+2", "GPUS,", "DEFAULT=1"]
    assert what_if.splitlines()[-4].startswith("- The time in which a job held GPUs counts as its work")


def test_a_job_that_fails_while_it_is_waited_for_gives_status_1(service: Service) -> None:
    service.start()
    done = service.cli("submit", "--wait", "--", "python", "-c", "print('before'); raise SystemExit(3)", check=False)
    assert done.returncode == 1
    assert "before\n" in done.stdout
    assert done.stderr.splitlines()[-1].startswith("python failed: ")
    assert "3" in done.stderr.splitlines()[-1]


def test_jobs_are_paused_resumed_and_cancelled(service: Service) -> None:
    service.start()
    job = service.cli("submit", "--no-files", "--", "sleep", "1000").stdout.strip()
    with service.client() as client:
        service.until(lambda: client.job(job).state == "running")
        service.cli("pause", job)
        service.until(lambda: client.job(job).state == "paused")
        service.cli("resume", job)
        assert service.cli("priority", "70", job).stdout == f"{job} sleep has priority 70\n"
        service.until(lambda: client.job(job).state == "running")
        done = service.cli("cancel", job, "j-nothing", check=False)
        assert done.returncode == 1
        assert "There is no job j-nothing" in done.stderr
        assert client.wait(job, 30).state == "cancelled"
    assert "never" not in service.cli("status", job).stdout


def test_jobs_that_have_ended_are_deleted(service: Service) -> None:
    service.start()
    sent = service.cli("submit", "--no-files", "--array", "0-1", "--gpus", "0", "--", "true").stdout.strip()
    with service.client() as client:
        for job in client.jobs().jobs:
            client.wait(job.id, 30)
        running = service.cli("submit", "--no-files", "--", "sleep", "1000").stdout.strip()
        done = service.cli("delete", sent, running, check=False)
        assert done.returncode == 1
        assert done.stdout.count(" is deleted") == 2
        assert "cancel it first" in done.stderr
        assert [job.id for job in client.jobs().jobs] == [running]


def test_status_shows_who_holds_gpus_and_why_others_wait(service: Service) -> None:
    service.start()
    service.cli("submit", "--no-files", "--name", "big", "--gpus", "3", "--", "sleep", "1000")
    with service.client() as client:
        service.until(lambda: client.jobs().jobs[0].state == "running")
    service.cli("submit", "--no-files", "--name", "second", "--", "sleep", "1000")
    shown = service.cli("status").stdout
    assert shown.startswith("4 GPUs, declared · build: 0 of 1 held · train: 3 of 3 held")
    assert shown.count("big (default, ") == 3
    assert shown.count("  free\n") == 1
    assert "second" in shown[shown.index("Queue") :]
    assert "1 job waiting" in shown


def test_a_gang_of_groups_from_a_job_file(service: Service) -> None:
    service.start()
    (service.work / "job.yaml").write_text(
        "command: [sh, -c, 'echo $RUNAI_RANK $RUNAI_GROUP $RUNAI_GROUP_RANK/$RUNAI_GROUP_SIZE $CUDA_VISIBLE_DEVICES']\n"
        "no_files: true\n"
        "groups: [{name: launcher, gpus: 0}, {name: worker, workers: 2, gpus: 1}]\n"
    )
    job = service.cli("submit", "-f", "job.yaml", "--wait", "-o", "json")
    found = json.loads(service.cli("list", "-o", "json").stdout)[0]
    assert (found["state"], found["workers"], found["total_gpus"]) == ("succeeded", 3, 2), job
    said = [service.cli("logs", found["id"], "--rank", str(rank)).stdout.split() for rank in range(3)]
    assert [each[:3] for each in said] == [
        ["0", "launcher", "0/1"],
        ["1", "worker", "0/2"],
        ["2", "worker", "1/2"],
    ]
    assert [len(each[3:]) and len(each[3].split(",")) for each in said] == [0, 1, 1]
    wrong = (service.work / "job.yaml").read_text() + "workers: 4\n"
    (service.work / "wrong.yaml").write_text(wrong)
    refused = service.cli("submit", "-f", "wrong.yaml", check=False)
    assert "workers: a job with groups sets it in each group." in refused.stderr


def test_a_job_succeeds_when_its_leader_succeeds(service: Service) -> None:
    service.start()
    (service.work / "job.yaml").write_text(
        "command: [sh, -c, 'test $RUNAI_GROUP = launcher || exec sleep 1000']\n"
        "no_files: true\n"
        "groups: [{name: server, workers: 2, gpus: 0}, {name: launcher, leader: true}]\n"
    )
    service.cli("submit", "-f", "job.yaml", "--wait")
    (found,) = json.loads(service.cli("list", "-o", "json").stdout)
    assert (found["state"], found["exit_code"]) == ("succeeded", 0)
    assert found["attempts"][0]["exit_codes"] == [-15, -15, 0]
    assert [group["leader"] for group in found["groups"]] == [False, True]


def test_users_groups_and_sessions_over_the_command_line(service: Service) -> None:
    service.start()
    assert service.cli("group", "set", "ml-101", "--build-quota", "0.5").stdout == (
        "Each user of group ml-101 may hold 0.5 GPUs for building.\n"
    )
    assert service.cli("user", "set", "ada", "--build-quota", "1").stdout == ("User ada may hold 1 GPU for building.\n")
    assert re.search(r"^ml-101 +0\.5 +0$", service.cli("group", "list").stdout, re.MULTILINE)
    assert re.search(r"^ada +0 +1 +user$", service.cli("user", "list", "--find", "ad").stdout, re.MULTILINE)
    service.cli("user", "set", "ada", "--build-quota", "none")
    refused = service.cli("user", "set", "ada", "--build-quota", "none", check=False)
    assert (refused.returncode, refused.stderr) == (1, "The user 'ada' has no build quota of its own.\n")
    with service.client() as client:
        session = client.open_session(SessionOpen(user="ada", server="lab", gpus=1)).id
    assert session in service.cli("session", "list").stdout
    assert service.cli("session", "stop", session).stdout == f"The server of session {session} is stopped.\n"
    assert service.cli("session", "list").stdout == "No sessions.\n"


def test_projects_and_the_pool_file_over_the_command_line(service: Service) -> None:
    service.start()
    assert service.cli("project", "set", "vision", "--guaranteed", "2", "--member", "*").stdout.endswith("added.\n")
    service.cli("project", "set", "vision", "--limit", "3")
    vision = json.loads(service.cli("project", "show", "vision", "-o", "json").stdout)
    assert (vision["guaranteed"], vision["limit"], vision["members"]) == (2, 3, ["*"])
    service.cli(
        "project",
        "set",
        "vision",
        "--policy",
        "maxima.gpus=2",
        "--policy",
        "defaults.max_runtime=2h",
        "--policy",
        "maxima.grace=1m",
    )
    shown = service.cli("project", "show", "vision").stdout
    assert "defaults.max_runtime = 7200.0" in shown
    assert "maxima.grace = 60.0" in shown
    refused = service.cli("submit", "--project", "vision", "--no-files", "--gpus", "3", "--", "true", check=False)
    assert "may be 2 at most in project 'vision' (maxima.gpus of project 'vision'), not 3." in refused.stderr
    job = json.loads(service.cli("submit", "--project", "vision", "--no-files", "-o", "json", "--", "true").stdout)
    assert job["gpus"] == 1
    service.cli("project", "set", "vision", "--policy", "maxima.gpus=none")
    wrong = service.cli("project", "set", "vision", "--policy", "maxima.gpuz=3", check=False)
    assert "did you mean 'gpus'?" in wrong.stderr
    service.cli("project", "set", "vision", "--quota", "node_pool=train,guaranteed=1,limit=2")
    preview = service.cli("project", "set", "vision", "--guaranteed", "40", "--limit", "none", "--preview")
    assert preview.stdout.splitlines() == [
        "~ project vision: guaranteed 2 → 40, limit 3 → none",
        "Nothing has been changed; run it without --preview to apply this.",
    ]
    assert "the guarantees cannot all be met at the same time" in preview.stderr
    service.cli("project", "set", "vision", "--weight", "2")
    shown = json.loads(service.cli("project", "show", "vision", "-o", "json").stdout)
    assert shown["quotas"] == [{"node_pool": "train", "gpu_type": None, "guaranteed": 1, "limit": 2}]
    assert (shown["guaranteed_in_all"], [part["node_pool"] for part in shown["parts"]]) == (
        3,
        [None, "train"],
    )
    assert (
        "node pool train: holds 0 of a fair share of 0, guaranteed 1" in service.cli("project", "show", "vision").stdout
    )
    night = "mon-fri 22:00-06:00 Europe/Berlin guaranteed=3"
    service.cli("project", "set", "vision", "--window", night)
    assert night in service.cli("project", "show", "vision").stdout
    assert "- days: mon-fri" in service.cli("apply", "--show").stdout
    assert f"windows none → {night}" in service.cli("audit").stdout
    wrong = service.cli("project", "set", "vision", "--window", night.replace("06:00", "22:00"), check=False)
    assert "windows[0] is empty: it is from 22:00 to 22:00" in wrong.stderr
    service.cli("project", "set", "vision", "--window", "none")
    assert json.loads(service.cli("project", "show", "vision", "-o", "json").stdout)["windows"] == []
    service.cli("project", "set", "vision", "--quota", "node_pool=train")
    assert json.loads(service.cli("project", "show", "vision", "-o", "json").stdout)["quotas"] == []
    service.cli("project", "set", "vision", "--limit", "none")
    assert json.loads(service.cli("project", "show", "vision", "-o", "json").stdout)["limit"] is None

    file = service.work / "pool.yaml"
    file.write_text(service.cli("apply", "--show").stdout)
    assert service.cli("apply", "-f", "pool.yaml").stdout == "Nothing to change.\n"
    file.write_text("projects: [{name: default, members: ['*'], guaranteed: 9}, {name: speech, groups: [s]}]")
    preview = service.cli("apply", "-f", "pool.yaml", "--preview")
    assert preview.stdout.splitlines()[:3] == [
        "~ project default: guaranteed 0 → 9",
        "+ project speech: guaranteed 0, priority 0, groups s",
        "- project vision",
    ]
    assert "guaranteed 9 GPUs together" in preview.stderr
    assert "vision" in service.cli("project", "list").stdout
    service.cli("apply", "-f", "pool.yaml")
    assert "vision" not in service.cli("project", "list").stdout
    assert service.cli("project", "rm", "speech").stdout == "Project speech is removed.\n"
    file.write_text("projects: [{name: default, garanteed: 9}]")
    wrong = service.cli("apply", "-f", "pool.yaml", check=False)
    assert (wrong.returncode, wrong.stderr) == (
        1,
        "projects[0].garanteed: there is no key 'garanteed' here; did you mean 'guaranteed'?\n",
    )


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["submit", "none.py"], 1, "There is no file none.py in "),
        (["submit", "--project", "nowhere", "--no-files", "--", "true"], 1, "nowhere"),
        (["submit", "--gpus", "99", "--no-files", "--", "true"], 1, "99"),
        (
            ["submit", "--gpus", "1.5", "--no-files", "--", "true"],
            1,
            "a worker gets whole GPUs or a part of one",
        ),
        (
            ["submit", "--env", "NOT_THERE_AT_ALL", "--", "true"],
            2,
            "--env: there is no variable NOT_THERE_AT_ALL here",
        ),
        (["submit", "--in", "x", "--no-files", "--", "true"], 2, "remove one of them"),
        (["submit"], 2, "Say what to run"),
        (["submit", "--gpus", "many", "--", "true"], 2, "'many' is not an amount"),
        (["logs", "j-none"], 1, "There is no job j-none"),
        (["status", "j-none"], 1, "There is no job j-none"),
        (["project", "show", "none"], 1, "There is no project 'none'."),
        (
            ["apply", "-f", "none.yaml"],
            1,
            "The pool file none.yaml cannot be read (No such file or directory).",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence(shared: Service, words: list[str], status: int, sentence: str) -> None:
    done = shared.cli(*words, check=False)
    assert (done.returncode, done.stdout) == (status, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    with shared.client() as client:
        assert client.jobs().jobs == []


def test_an_unreachable_scheduler_is_reported_in_one_sentence(service: Service) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = subprocess.run(
        [sys.executable, "-m", "scheduler.cli", "list"],
        env={**service.environment, "RUNAI_URL": f"http://127.0.0.1:{port}", "RUNAI_TOKEN": "x"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"The scheduler at http://127.0.0.1:{port} does not answer.")
    assert done.stderr.count("\n") == 1


# -- kill -9 ------------------------------------------------------------------------------------------------


def test_after_kill_9_running_jobs_are_found_queued_ones_run_and_each_runs_once(service: Service) -> None:
    service.start()
    (service.work / "count.py").write_text(COUNTED)
    diary, go = service.work / "diary", service.work / "go"
    first = service.cli("submit", "count.py", "--", str(diary), str(go)).stdout.strip()
    with service.client() as client:
        bundle_of = json.loads(service.cli("submit", "-o", "json", "count.py", "--", str(diary), str(go)).stdout)
        jobs = [first, bundle_of["id"]]
        jobs += [service.cli("submit", "count.py", "--", str(diary), str(go)).stdout.strip() for _ in range(2)]
        service.until(lambda: diary.exists() and diary.read_text().count("start") == 3)
        assert Counter(client.job(job).state.value for job in jobs) == {"running": 3, "queued": 1}
    service.kill()
    go.touch()
    service.until(lambda: diary.read_text().count("end") == 3)
    service.start()
    with service.client() as client:
        ended = [client.wait(job, 30) for job in jobs]
    assert [job.state for job in ended] == ["succeeded"] * 4
    assert [len(job.attempts) for job in ended] == [1] * 4
    assert Counter(diary.read_text().splitlines()) == Counter(
        f"{what} {job}" for job in jobs for what in ("start", "end")
    )


@pytest.mark.parametrize("seed", range(3))
def test_repeated_kills_lose_nothing_and_run_nothing_twice(service: Service, seed: int) -> None:
    """The scheduler dies during submissions: acknowledged jobs run once, and so do those that are submitted again with
    their key after a lost response."""
    chance = random.Random(seed)
    diary = service.work / "diary"
    program = f"import os; open({str(diary)!r}, 'a').write(os.environ['RUNAI_JOB_ID'] + '\\n')"
    wanted = JobSubmit(command=[sys.executable, "-c", program], gpus=1)
    sent: list[str] = []
    for generation in range(4):
        service.start()
        with service.client() as client:
            for number in range(5):
                sent.append(client.submit(wanted, idempotency_key=f"{generation}-{number}").id)
            time.sleep(chance.uniform(0, 0.6))  # the instant of death is the point of the test
        service.kill()
    service.start()
    with service.client() as client:
        again = client.submit(wanted, idempotency_key="0-0")
        assert again.id == sent[0]
        ended = [client.wait(job, 30) for job in sent]
    assert {job.state.value for job in ended} == {"succeeded"}
    assert Counter(diary.read_text().split()) == Counter(sent)


# -- configuration ------------------------------------------------------------------------------------------


def test_configuration_from_file_environment_and_command_line_in_rising_precedence(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = service.work / ".jupyter" / "jupyter_runai_config.py"
    config.parent.mkdir()
    config.write_text("c = get_config()\nc.RunaiService.declared_gpus = 5\nc.RunaiService.base_url = 'pool'\n")
    service.options = ()
    assert service.start().url.endswith("/pool/")
    with service.client() as client:
        assert client.pool().build.gpus + client.pool().train.gpus == 5
    service.stop()
    monkeypatch.setattr(type(service), "environment", property(_with(service, RUNAI_DECLARED_GPUS="6")))
    service.start()
    with service.client() as client:
        assert client.pool().build.gpus + client.pool().train.gpus == 6
    service.stop()
    service.start("--declared-gpus=7")
    with service.client() as client:
        assert client.pool().build.gpus + client.pool().train.gpus == 7


def _with(service: Service, **variables: str):  # type: ignore[no-untyped-def]
    environment = service.environment
    return lambda self: {**environment, **variables}


def test_a_changed_pool_file_is_applied_at_start_and_later_changes_are_kept(service: Service, tmp_path: Path) -> None:
    file = tmp_path / "pool.yaml"

    def guaranteed() -> float | None:
        with service.client() as client:
            return client.project("vision").guaranteed

    file.write_text("projects: [{name: vision, guaranteed: 1, members: ['*']}]")
    service.start(f"--pool-file={file}")
    assert guaranteed() == 1
    service.cli("project", "set", "vision", "--guaranteed", "2")
    service.stop()
    service.start(f"--pool-file={file}")
    assert guaranteed() == 2
    service.stop()
    file.write_text("projects: [{name: vision, guaranteed: 3, members: ['*']}]")
    service.start(f"--pool-file={file}")
    assert guaranteed() == 3
    with service.client() as client:
        me = client.me().name
    told = [line.split(maxsplit=2)[2] for line in service.cli("audit", "--name", "vision").stdout.splitlines()[1:]]
    assert told[0] == "(pool file)  project vision: guaranteed 2 → 3"
    assert told[1].split(maxsplit=1) == [me, "project vision: guaranteed 1 → 2"]
    assert told[2].startswith("(pool file)  project vision: ")


def test_a_pool_file_that_would_orphan_jobs_is_not_applied_and_the_service_starts(
    service: Service, tmp_path: Path
) -> None:
    service.start()
    service.cli("submit", "--no-files", "--", "sleep", "1000")
    service.stop()
    file = tmp_path / "pool.yaml"
    file.write_text("projects: [{name: other, members: ['*']}]")
    service.start(f"--pool-file={file}")
    assert "default" in service.cli("project", "list").stdout
    assert (
        "is not applied: Project 'default' cannot be removed while it has 1 unfinished job" in service.log.read_text()
    )
    job = json.loads(service.cli("list", "-o", "json").stdout)[0]["id"]
    service.cli("cancel", job)
    with service.client() as client:
        client.wait(job, 30)
    service.stop()
    service.start(f"--pool-file={file}")
    assert "default" not in service.cli("project", "list").stdout
