"""What a worker does in the tests of the contract, as data, so that each kind of engine can have it done.

`python act.py JSON` does it as a process, with any Python from 3.8 on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass

DEAF = "deaf"


@dataclass(frozen=True)
class Act:
    """Prints `say`, writes `say` to the output file `writes`, saves its state, waits until the file `gate` is there,
    and ends.

    On SIGTERM it does nothing (`DEAF`), or saves its state and ends with the exit code `term`, or ends as any process
    does.
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
    """What a command does; nothing, where it is another."""
    is_act = len(command) > 1 and command[-2] == os.path.abspath(__file__)
    return Act(**json.loads(command[-1])) if is_act else Act()


def save() -> None:
    with open(os.path.join(os.environ["RUNAI_CHECKPOINT_DIR"], "state"), "w") as file:
        file.write("saved")


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
    while act.gate and not os.path.exists(act.gate):
        time.sleep(0.01)
    return act.code


if __name__ == "__main__":
    sys.exit(do(Act(**json.loads(sys.argv[1]))))
