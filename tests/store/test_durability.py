"""Acknowledged writes survive `kill -9`, and the lock ends with the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.errors import Conflict, Unavailable
from scheduler.store import StateLock, Store

ROOT = Path(__file__).parents[2]

WRITES_UNTIL_KILLED = """
import asyncio, os, sys
from scheduler.store import ChangeSet, Store
from tests.store.samples import event, job

async def client(store, first):
    for n in range(first, first + 10_000):
        await store.write(ChangeSet(submitted=(job(n),), events=(event(job(n).id, "job.submitted"),)))
        os.write(1, f"{job(n).id}\\n".encode())

async def main():
    store = Store(sys.argv[1])
    store.open()
    await asyncio.gather(*(client(store, 10_000 * c) for c in range(8)))

asyncio.run(main())
"""


def kill_after(lines: int, *command: str) -> list[str]:
    """The output of a process that is killed after `lines` lines."""
    process = subprocess.Popen([sys.executable, "-c", *command], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = [process.stdout.readline().strip() for _ in range(lines)]
    process.kill()
    said += [line.strip() for line in process.stdout if line.endswith("\n")]
    process.stdout.close()
    assert process.wait() == -9
    return said


async def test_every_acknowledged_change_survives_kill_9(url: str) -> None:
    acknowledged = kill_after(400, WRITES_UNTIL_KILLED, url)
    store = Store(url)
    store.open()
    kept = {job.id for job in store.load().jobs}
    assert set(acknowledged) <= kept
    events = await store.events(0, limit=100_000)
    first = events[0].id
    assert [event.id for event in events] == list(range(first, first + len(events)))
    assert {event.subject for event in events} == kept
    store.close()


HOLDS_THE_LOCK = """
import sys, time
from pathlib import Path
from scheduler.store import StateLock
StateLock(Path(sys.argv[1])).take()
print("taken", flush=True)
time.sleep(600)
"""


def test_the_lock_names_its_holder_and_is_released_with_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLDS_THE_LOCK, str(path)], stdout=subprocess.PIPE)
    with holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(Conflict, match=f"process {holder.pid}"):
            StateLock(path).take()
        holder.kill()
    lock = StateLock(path)
    lock.take()
    lock.release()


def test_a_state_reached_by_a_hard_link_is_refused_and_says_how_to_find_it(tmp_path: Path) -> None:
    """SQLite keeps a log for each name, so even consecutive schedulers must not use two."""
    first = Store(f"sqlite:///{tmp_path}/state.sqlite")
    first.open()
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / "state.sqlite"
    other.hardlink_to(tmp_path / "state.sqlite")
    with pytest.raises(Unavailable, match="several names"):
        Store(f"sqlite:///{other}").open()
    first.close()
    for name in (other, tmp_path / "state.sqlite"):
        with pytest.raises(Unavailable, match=f"find / -xdev -samefile {name}"):
            Store(f"sqlite:///{name}").open()
    other.unlink()
    first = Store(f"sqlite:///{tmp_path}/state.sqlite")
    first.open()
    first.close()


def test_a_state_reached_by_a_link_is_the_same_state(tmp_path: Path) -> None:
    first = Store(f"sqlite:///{tmp_path}/state.sqlite")
    first.open()
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "state.sqlite")
    (tmp_path / "folder").symlink_to(tmp_path)
    for other in ("link.sqlite", "folder/state.sqlite", "folder/link.sqlite"):
        with pytest.raises(Conflict, match="Another scheduler"):
            Store(f"sqlite:///{tmp_path}/{other}").open()
    first.close()
