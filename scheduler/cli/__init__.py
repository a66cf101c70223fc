"""The command line: `jupyter runai …`.

What must hold:
- Starting is cheap: what a command needs is imported when it runs, not before.
- An error is one sentence on standard error, never a traceback. Exit status: 0 done, 1 refused or failed, 2 not used
  correctly, 130 interrupted.
- Only the requested output goes to standard output.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from scheduler.errors import Misused, RunaiError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        status = run(words)
        sys.stdout.flush()
    except RunaiError as error:
        print(error.sentence, file=sys.stderr)
        return 2 if isinstance(error, Misused) else 1
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of the output has gone (`| head`); redirect the interpreter's last flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


def run(words: list[str]) -> int:
    """Run `serve` and `up` as applications, which read their own options, and anything else as a command."""
    if words[:1] == ["serve"]:
        from scheduler.service import app

        return app.main(words[1:])
    if words[:1] == ["up"]:
        return _up(words[1:])
    from scheduler.cli.parser import read

    options = read(words)
    return int(options.run(options))


def _up(words: list[str]) -> int:
    try:
        from hub_spawner import up  # the hub is an extra, and the only thing here that needs it
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"jupyterhub", "jupyterlab"}:
            raise
        raise RunaiError("`up` needs JupyterHub; install it with: pip install 'jupyter-runai[hub]'") from None
    return int(up.main(words) or 0)
