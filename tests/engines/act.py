"""The actions of a worker in the contract tests, as data, so that each kind of engine can run them.

`python act.py JSON` runs them as a process, with Python 3.8 or later.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass

DEAF = "deaf"
SAVES = "saves\n"


@dataclass(frozen=True)
class Act:
    """Prints `say`, writes `say` to the output file `writes`, saves its state, waits until the file `gate` exists, and
    ends. Whenever it is asked to save its state meanwhile, it does and prints `SAVES`.

    On SIGTERM it does nothing (`DEAF`), or saves its state and ends with the exit code `term`, or ends by the signal.
    """

    say: str = ""
    writes: str = ""
    saves: bool = False
    gate: str = ""
    code: int = 0
    term: int | str | None = None

    @property
    def command(self) -> tuple[str, ...]:
        return (sys.executable, "-I", "-S", os.path.abspath(__file__), json.dumps(asdict(self)))


def read(command: tuple[str, ...]) -> Act:
    """The actions of a command; none for other commands."""
    is_act = len(command) > 1 and command[-2] == os.path.abspath(__file__)
    return Act(**json.loads(command[-1])) if is_act else Act()


def save() -> None:
    with open(os.path.join(os.environ["RUNAI_CHECKPOINT_DIR"], "state"), "w") as file:
        file.write("saved")


def request() -> int:
    """When it was last asked to save its state, in nanoseconds; 0: never."""
    try:
        return os.stat(os.environ["RUNAI_SAVE_REQUEST"]).st_mtime_ns
    except FileNotFoundError:
        return 0


def do(act: Act) -> int:
    def terminated(*_: object) -> None:
        save()
        os._exit(int(act.term or 0))

    if act.term is not None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN if act.term == DEAF else terminated)
    if act.saves:
        save()
    if act.writes:
        with open(os.path.join(os.environ["RUNAI_OUTPUT_DIR"], act.writes), "w") as file:
            file.write(act.say)
    print(act.say, end="", flush=True)
    asked = 0
    while act.gate and not os.path.exists(act.gate):
        before, asked = asked, request()
        if asked != before:
            save()
            print(SAVES, end="", flush=True)
        time.sleep(0.01)
    return act.code


if __name__ == "__main__":
    sys.exit(do(Act(**json.loads(sys.argv[1]))))
