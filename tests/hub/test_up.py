"""`jupyter runai up`: one command starts a hub, the same one every time."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx
import psutil
import pytest

from hub_spawner.one_machine import HubFolder, Ports
from hub_spawner.ports import any_free
from scheduler.errors import Conflict, Invalid
from tests.hub.running import eventually

ROOT = ["--allow-root"] if os.geteuid() == 0 else []


@pytest.fixture
def folder(tmp_path: Path) -> HubFolder:
    made = HubFolder(tmp_path / "state")
    made.open()
    return made


def test_a_terminal_finds_the_programs_of_the_hubs_environment(folder: HubFolder, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".profile").write_text("PATH=/usr/bin:/bin\n")
    env = {**os.environ, "HOME": str(home), "SHELL": "/bin/sh", "JUPYTER_CONFIG_PATH": str(folder.jupyter_config())}
    shown = subprocess.run(
        [sys.executable, "-m", "jupyter_server", "--show-config-json"], env=env, capture_output=True, check=True
    )
    shell = json.loads(shown.stdout)["ServerApp"]["terminado_settings"]["shell_command"]
    found = subprocess.run(shell, env=env, input="command -v jupyter; echo $PATH", capture_output=True, text=True)
    jupyter, path = found.stdout.splitlines()
    assert jupyter == str(Path(sys.executable).parent / "jupyter")
    assert path.endswith(":/usr/bin:/bin")


def test_the_folder_is_closed_to_others(folder: HubFolder) -> None:
    for part in (folder.path, folder.hub, folder.pool, folder.users):
        assert stat.S_IMODE(part.stat().st_mode) == 0o700


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Invalid, match="choose another with --state-dir"):
        HubFolder(tmp_path / "file").open()


def test_a_folder_has_one_hub(folder: HubFolder) -> None:
    folder.lock()
    with pytest.raises(Conflict, match="already runs"):
        HubFolder(folder.path).lock()


def test_passwords_are_kept(folder: HubFolder) -> None:
    made = folder.passwords()
    assert made.user != made.admin
    assert len(made.admin) >= 32
    assert HubFolder(folder.path).passwords() == made
    assert stat.S_IMODE((folder.hub / "passwords.json").stat().st_mode) == 0o600


def test_ports_are_kept_while_they_are_free(folder: HubFolder) -> None:
    wanted = any_free()
    ports = folder.ports(wanted)
    assert ports.public == wanted
    assert folder.ports(None) == ports
    other = any_free()
    assert folder.ports(other) == Ports(other, ports.hub, ports.proxy)


def test_a_port_that_is_taken_is_refused(folder: HubFolder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Conflict, match=f"Port {port} is taken"):
            folder.ports(port)
        folder.ports(free := any_free())
        assert folder.ports(None).public == free


def test_the_number_of_another_process_is_not_taken_for_the_proxys(folder: HubFolder) -> None:
    folder.proxy_pid.write_text(str(os.getpid()))
    folder.ports(None)
    assert not folder.proxy_pid.exists()


class Up:
    """A hub started by the command, and its output so far."""

    def __init__(self, state: Path, *options: str) -> None:
        self.state = state
        self.said_to = state.with_suffix(".said")
        with self.said_to.open("w") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "scheduler.cli", "up", f"--state-dir={state}", *ROOT, *options],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self.said_to.read_text()

    @property
    def url(self) -> str:
        def found() -> str | None:
            assert self.process.poll() is None, self.said
            address = re.search(r"http://\S+", self.said)
            return address.group() if address else None

        return str(eventually("the hub has told its address", found))

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    started: list[Up] = []

    def start(*options: str) -> Up:
        started.append(Up(tmp_path / "state", *options))
        return started[-1]

    yield start
    for hub in started:
        if hub.process.poll() is None:
            hub.end()
    for process in psutil.process_iter():
        try:
            if any(str(tmp_path) in word for word in process.cmdline()):
                process.kill()
        except psutil.Error:
            continue


def logs_in(url: str, user: str, password: str, page: str = "/hub/home") -> bool:
    """Whether a login leads to `page`."""
    with httpx.Client(base_url=url, follow_redirects=True, timeout=60) as browser:
        (xsrf,) = re.findall(r'name="_xsrf"\s+value="([^"]+)"', browser.get("/hub/login").text)
        browser.post("/hub/login", data={"username": user, "password": password, "_xsrf": xsrf})
        return browser.get(page, follow_redirects=False).is_success


@pytest.mark.needs("node")
def test_it_prints_its_address_and_passwords(up: Callable[..., Up]) -> None:
    hub = up("--gpus=4", f"--port={any_free()}")
    url = hub.url
    assert "4 declared GPUs" in hub.said
    password, admin = (re.findall(pattern, hub.said)[0] for pattern in (r"password +(\S+)", r"admin, with +(\S+)"))

    assert logs_in(url, "ada", password)
    assert logs_in(url, "admin", admin, "/hub/admin")
    assert not logs_in(url, "ada", "wrong")
    assert not logs_in(url, "admin", password)
    assert not logs_in(url, "../pool", password)

    second = up()
    assert second.process.wait(60) == 1
    assert "A hub already runs" in second.said
    assert hub.end() == 0
    assert "Jobs keep running" in hub.said


DAMAGES = {
    "emptied": b"",
    "another type": b"[1]",
    "noise": random.Random(1).randbytes(3000),
    "nested": b"[" * 100_000,
}


@pytest.mark.parametrize("left", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("name", ["passwords.json", "ports.json", "cookie_secret", "proxy.pid", "lock"])
def test_a_damaged_file_is_created_again(folder: HubFolder, name: str, left: bytes) -> None:
    (folder.hub / name).write_bytes(left)
    folder.lock()
    ports, passwords, secret = folder.ports(None), folder.passwords(), folder.cookie_secret().read_text()
    assert len(passwords.admin) == 32
    assert re.fullmatch("[0-9a-f]{64}", secret)
    assert (folder.ports(None), folder.passwords()) == (ports, passwords)
    assert folder.cookie_secret().read_text() == secret


@pytest.mark.parametrize("kept", [600, 10_000])
def test_a_damaged_database_is_named(folder: HubFolder, kept: int) -> None:
    with closing(sqlite3.connect(folder.database)) as connection:
        connection.execute("CREATE TABLE users (name TEXT)")
        connection.executemany("INSERT INTO users VALUES (?)", [("ada" * 100,)] * 100)
        connection.commit()
    folder.check_database()
    folder.database.write_bytes(folder.database.read_bytes()[:kept] + DAMAGES["noise"])
    with pytest.raises(Invalid, match=r"jupyterhub\.sqlite is damaged \(.*\)\. Restore it from a backup, or move it"):
        folder.check_database()


@pytest.mark.needs("node")
def test_after_a_power_cut_it_starts(up: Callable[..., Up], tmp_path: Path) -> None:
    """With every small file of the hub and the scheduler empty, as a power cut leaves files without fsync."""
    hub = up()
    assert hub.url
    hub.process.kill()
    hub.process.wait()
    os.kill(int((tmp_path / "state/hub/proxy.pid").read_text()), signal.SIGKILL)
    for name in ("hub/passwords.json", "hub/ports.json", "hub/cookie_secret", "hub/proxy.pid"):
        (tmp_path / "state" / name).write_bytes(b"")
    for name in ("hub-token", "hub-port", "endpoint.json", "boot", "lock"):
        (tmp_path / "state/pool" / name).write_bytes(b"")
    again = up(f"--port={any_free()}")  # the killed hub's proxy is unknown, and still has the first port
    password = re.search(r"password +(\S+)", again.said if again.url else "")
    assert password is not None
    assert logs_in(again.url, "ada", password.group(1))
    assert again.end() == 0


@pytest.mark.needs("node")
def test_after_a_kill_it_starts_with_the_same_addresses(up: Callable[..., Up]) -> None:
    hub = up()
    url = hub.url
    hub.process.kill()
    hub.process.wait()
    again = up()
    assert again.url == url
    assert httpx.get(url, follow_redirects=True).is_success
    assert again.end() == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--pool-file=missing.yaml"], "There is no pool file missing.yaml"),
        (["--port=http"], "--port"),
    ],
)
def test_what_is_wrong_is_said_at_once(up: Callable[..., Up], options: list[str], sentence: str) -> None:
    hub = up(*options)
    assert hub.process.wait(60) != 0
    assert sentence in hub.said
    assert "Traceback" not in hub.said


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be refused it")
def test_running_as_root_needs_an_option(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scheduler.cli", "up", f"--state-dir={tmp_path}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "--allow-root" in done.stderr
