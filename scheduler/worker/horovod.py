"""Beside rank 0 of a Horovod job: the rendezvous server that `horovodrun` would keep, and the job's own command.

Standard library only, run by path: `python -I -S horovod.py PORT COMMAND …`. It ends with the command, and as that did.

The server is what `HOROVOD_GLOO_RENDEZVOUS_ADDR` and `…_PORT` lead to: a store of bytes under `/SCOPE/KEY`, which
each rank puts its address into and asks for the others', until they are there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NoReturn

COULD_NOT_START = 127


class _Store(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int]) -> None:
        self.values: dict[str, bytes] = {}
        super().__init__(address, _Request)


class _Request(BaseHTTPRequestHandler):
    server: _Store

    def do_GET(self) -> None:
        value = self.server.values.get(self.path)
        self._answer(404 if value is None else 200, value or b"")

    def do_PUT(self) -> None:
        self.server.values[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(200)

    def do_DELETE(self) -> None:
        """A rank has met all others. What it put stays: some of those may still be asking."""
        self._answer(200)

    def _answer(self, status: int, value: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(value)))
        self.end_headers()
        self.wfile.write(value)

    def log_message(self, format: str, *args: object) -> None:
        """The log is the job's own."""


def main(port: int, command: list[str]) -> NoReturn:
    store = _Store((os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], port))
    threading.Thread(target=store.serve_forever, daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: None)  # the command gets it, too, and ends when it likes
    try:
        code = subprocess.Popen(command).wait()
    except OSError as error:
        print(f"`{command[0]}` could not be started ({error.strerror}).", file=sys.stderr)
        code = COULD_NOT_START
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no other way anyhow
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
