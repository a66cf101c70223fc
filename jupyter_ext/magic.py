"""`%%runai_train` for a cell, `%runai_train` for a script or a command: from a line in the notebook to a job in the
pool.

What must hold: every error is one sentence, before anything is queued; once a job is queued, only its owner's request
stops it.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class
from traitlets import Float, Int, Unicode

from jupyter_ext import options, payload, scheduling, sending
from jupyter_ext.capture import NotSerializable
from jupyter_ext.frontend import cell_of
from scheduler.errors import RunaiError
from scheduler.submission.arguments import in_words, said

if TYPE_CHECKING:
    from jupyter_ext.along import Along
    from jupyter_ext.handle import Job
    from jupyter_ext.sweep import Trials
    from scheduler.schema import JobSubmit
    from scheduler.submission.programs import Program

TRIALS = 20
"""The default number of jobs of a search."""

NOTHING = "Say what to run: a script (%runai_train train.py), a command after `--`, or a cell (%%runai_train above it)."


@magics_class
class RunaiMagics(Magics):
    """The magics; their defaults are configured in `ipython_kernel_config.py` (`c.RunaiMagics.project = "vision"`)."""

    gpus = Float(
        None,
        allow_none=True,
        min=0,
        help="GPUs for each worker if --gpus is not given; default: that of the project, or 1.",
    ).tag(config=True)
    project = Unicode(None, allow_none=True, help="The project if --project is not given.").tag(config=True)
    max_capture = Int(4 * 2**30, min=0, help="The maximum size of the variables of a cell, in bytes.").tag(config=True)

    @line_cell_magic
    def runai_train(self, line: str, cell: str | None = None) -> Any:
        from jupyter_ext.connection import connect
        from scheduler.submission.jobfile import array_of

        asked = options.read(line)
        with _in_one_sentence(asked):
            with _interrupted("Interrupted before anything was queued."):
                found = self._found(asked, line, cell)
                if found is None:
                    return None
                given, wanted = found
                sent = self._submission(given, wanted)
                if asked.search or asked.trials:
                    _check_search(asked, given)
                else:
                    scheduling.check(vars(asked), given, array_of(given, sent))  # refuses before anything is sent
                if asked.dry_run:
                    self._show(asked, given, sent, wanted, cell)
                    return None
                sent = _put_files(given, wanted, sent)
            with _interrupted("Interrupted while it was being queued; the panel shows whether it was."):
                if asked.schedule:
                    print(scheduling.in_words(scheduling.put(connect(), vars(asked), sent)))
                    return None
                job = self._send(asked, given, sent)
        return self._follow(asked, job)

    def _found(self, asked: argparse.Namespace, line: str, cell: str | None) -> tuple[dict[str, Any], Program] | None:
        """The values of the line with those of its template, and the program; `None` where it was only saved as a
        template."""
        from scheduler.submission import jobfile

        template = jobfile.load_template(asked.template) if asked.template else {}
        given = jobfile.merge(template, said(asked))
        if cell is None:
            wanted = payload.of_line(asked, given)
            given.pop("outputs", None)
        else:
            wanted = payload.of_cell(
                asked,
                line,
                cell,
                self.shell,
                takes=given.get("in"),
                outputs=given.get("outputs", ()),
                swept=jobfile.varied(given),
                limit=self.max_capture,
            )
        if asked.save_template:
            kept = {**given}
            if cell is None and wanted is not None:
                kept |= {"kind": wanted.kind.value, "command": list(wanted.command)}
            print(f"Saved in {jobfile.save_template(asked.save_template, kept)}.")
        if wanted is None:
            if asked.save_template:
                return None
            raise UsageError(NOTHING)
        return given, wanted

    def _submission(self, given: Mapping[str, Any], wanted: Program) -> JobSubmit:
        from scheduler.submission import jobfile

        mine: dict[str, Any] = {"name": wanted.name, "env": sending.environment()}
        if self.project is not None:
            mine["project"] = self.project
        if self.gpus is not None and "gpu_memory_gib" not in given:
            mine["gpus"] = self.gpus
        runs = {"kind": wanted.kind.value, "command": list(wanted.command)}
        sent = jobfile.submission(jobfile.merge(mine, given, runs))
        cell = cell_of(self.shell)
        return sent if cell is None else sent.model_copy(update={"cell": cell})

    def _show(
        self,
        asked: argparse.Namespace,
        given: Mapping[str, Any],
        sent: JobSubmit,
        wanted: Program,
        cell: str | None,
    ) -> None:
        """Print what would be submitted. A cell's bundle is uploaded, so that the printed file can be submitted."""
        from scheduler.submission import jobfile
        from scheduler.submission.options import BESIDE_THE_API

        shown = {key: given[key] for key in BESIDE_THE_API if key in given}
        if wanted.kind == "cell":
            along = None if cell is None else str(self._along(asked, given, cell))
            sent = _put_files(given, wanted, sent, along)
            shown.pop("in", None)
        shown |= sent.model_dump(mode="json", exclude_unset=True, exclude={"git", "cell"})
        print(jobfile.dump(shown, asked.output or "yaml"), end="")

    def goes_along(self, line: str, cell: str) -> Along:
        """What the cell would take along if it were sent now. Raises `UsageError`."""
        from scheduler.submission import jobfile

        asked = options.read(line)
        with _in_one_sentence(asked):
            template = jobfile.load_template(asked.template) if asked.template else {}
            return self._along(asked, jobfile.merge(template, said(asked)), cell)

    def _along(self, asked: argparse.Namespace, given: Mapping[str, Any], cell: str) -> Along:
        from jupyter_ext.along import goes_along
        from scheduler.submission.jobfile import varied

        shell: Any = self.shell
        only, patterns = payload.split(given.get("in"), shell.user_ns, nothing=bool(asked.no_capture))
        return goes_along(
            cell,
            shell,
            Path.cwd(),
            outputs=given.get("outputs", ()),
            only=only,
            given=varied(given),
            limit=self.max_capture,
            patterns=patterns,
            no_files=bool(given.get("no_files")),
        )

    def _send(self, asked: argparse.Namespace, given: Mapping[str, Any], sent: JobSubmit) -> Job | Trials:
        from jupyter_ext.connection import connect
        from jupyter_ext.handle import Job
        from jupyter_ext.sweep import Sweep
        from scheduler.submission.jobfile import array_of

        if asked.search:
            from jupyter_ext.search import Search
            from jupyter_ext.sweep import goal

            best = goal(asked.minimize, asked.maximize)
            assert best is not None
            trials, at_once = asked.trials or TRIALS, given.get("max_parallel")
            return Search.begin(sent, given["sweep"], best, trials=trials, at_once=at_once)
        array = array_of(given, sent)
        if array is None:
            return Job(connect().submit(sent))
        return Sweep(connect().submit_array(array), minimize=asked.minimize, maximize=asked.maximize)

    def _follow(self, asked: argparse.Namespace, job: Any) -> Any:
        """Show it until it has ended, unless it is detached; then set the variables of `--out` in the notebook."""
        from jupyter_ext.handle import Job

        shell: Any = self.shell
        shell.user_ns["_job"] = job
        if asked.detach:
            return job
        if isinstance(job, Job) and (workers := job.view.workers) > 1:
            print(
                f"This is the output of rank 0 of {workers}; _job.logs(rank=1) shows another rank.",
                flush=True,
            )
        job.wait()
        if isinstance(job, Job):
            with _in_one_sentence(asked):
                shell.push(job.outputs)
        return job


RunaiMagics.runai_train.__doc__ = options.help_text()


def _put_files(given: Mapping[str, Any], program: Program, sent: JobSubmit, sends: str | None = None) -> JobSubmit:
    from jupyter_ext.connection import connect

    return sending.put_files(connect(), given, program, sent, Path.cwd(), partial(print, flush=True), sends)


def _check_search(asked: argparse.Namespace, given: Mapping[str, Any]) -> None:
    if not asked.search:
        raise UsageError("--trials belongs to --search optuna.")
    if "sweep" not in given:
        raise UsageError("--search needs values to choose from: --sweep 'lr=1e-5..1e-1:log;bs=16,32'.")
    if not (asked.minimize or asked.maximize):
        raise UsageError("--search needs a goal: --minimize METRIC or --maximize METRIC, as job.report() names it.")
    if asked.minimize and asked.maximize:
        raise UsageError("--minimize and --maximize contradict each other; leave one of them out.")
    for option, wrong in (
        ("--array", "array" in given),
        ("--dry-run", asked.dry_run),
        ("--schedule", asked.schedule),
    ):
        if wrong:
            raise UsageError(f"{option} cannot be combined with --search; leave one of them out.")


# -- errors ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _in_one_sentence(asked: argparse.Namespace) -> Iterator[None]:
    """Errors are shown like IPython's usage errors: without a traceback, and with the options of the line."""
    try:
        yield
    except RunaiError as error:
        raise UsageError(in_words(error, asked.typed)) from None
    except NotSerializable as error:
        raise UsageError(str(error)) from None


@contextlib.contextmanager
def _interrupted(sentence: str) -> Iterator[None]:
    from jupyter_ext.handle import Detached

    try:
        yield
    except KeyboardInterrupt:
        raise Detached(sentence) from None
