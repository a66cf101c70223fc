"""The options of every command. Each command names the function that runs it, imported only then."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Collection
from difflib import get_close_matches
from typing import NoReturn

from scheduler import __version__
from scheduler.cli import administration, values
from scheduler.cli.command import Commands, add_command, add_format, add_group
from scheduler.cli.completion import complete, completer
from scheduler.cli.simulateoptions import add_simulate
from scheduler.model import JobKey, JobState, NoticeChannel, QueueOrder
from scheduler.submission.arguments import add_options, explain
from scheduler.submission.options import Interface

DESCRIPTION = """\
A GPU pool that lives inside Jupyter. Build in a notebook on a GPU that is always yours,
train on a pool that everybody shares."""

EPILOG = """\
The scheduler is found through RUNAI_URL and RUNAI_TOKEN, else through the JupyterHub this runs
under, else in the state folder (RUNAI_STATE_DIR); where none answers there, one is started.
Help for one command: jupyter runai COMMAND --help"""


class _Parser(argparse.ArgumentParser):
    """argparse with one-sentence errors that refer to the help."""

    def error(self, message: str) -> NoReturn:
        wrong = re.fullmatch(r"argument (?:COMMAND|VERB): invalid choice: '(.*)' \(choose from (.*)\)", message)
        if wrong:
            near = get_close_matches(wrong[1], re.findall(r"[a-z]+", wrong[2]), n=1)
            message = f"there is no command {wrong[1]!r}{f'; did you mean {near[0]!r}?' if near else ''}"
        sentence = explain(message)
        end = "" if sentence.endswith("?") else "."
        self.exit(2, f"{sentence}{end} See `{self.prog} --help`.\n")


def read(words: list[str]) -> argparse.Namespace:
    """The options in `words`; ends the process with status 2 where they are not used correctly.

    What follows the first `--` belongs to the job: it is returned as `tail`.
    """
    whole = parser()
    if "_ARGCOMPLETE" in os.environ:
        complete(whole)
    if not words:
        whole.print_help(sys.stderr)
        whole.exit(2)
    head, tail = (words, None) if "--" not in words else _split(words)
    options, unknown = whole.parse_known_args(head)
    if unknown:
        of_the_job = "; put the arguments of the job after `--`" if options.parser.get_default("takes_words") else ""
        meant = _meant(unknown[0], options.parser)
        options.parser.error(f"`{options.command}` does not take {unknown[0]!r}{meant or of_the_job}")
    if tail is not None and not options.parser.get_default("takes_words"):
        whole.error("only `submit` and `schedule add` take words after `--`")
    options.tail = tail
    return options


def _meant(word: str, command: argparse.ArgumentParser) -> str:
    known = [option for action in command._actions for option in action.option_strings]
    near = get_close_matches(word.partition("=")[0], known, n=1, cutoff=0.75)
    return f"; did you mean {near[0]}?" if near else ""


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    at = words.index("--")
    return words[:at], words[at + 1 :]


def parser() -> argparse.ArgumentParser:
    whole = _Parser(
        prog="jupyter runai",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    whole.add_argument("--version", action="version", version=__version__)
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    commands.add_parser("up", help="start JupyterHub with the pool behind it, on this machine", add_help=False)
    commands.add_parser("serve", help="start the scheduler alone", add_help=False)
    _submit(commands)
    _list(commands)
    _status(commands)
    _explain(commands)
    _logs(commands)
    _outputs(commands)
    _verbs(commands)
    _schedule(commands)
    _notices(commands)
    _project(commands)
    _apply(commands)
    administration.add_commands(commands)
    _snapshot(commands)
    _plan(commands)
    add_simulate(commands)
    return whole


# -- jobs ---------------------------------------------------------------------------------------------------


def _submit(commands: Commands) -> None:
    command = add_command(
        commands,
        "submit",
        "submit:run",
        "send a script or a command to the pool",
        usage="jupyter runai submit [options] SCRIPT [-- ARGUMENTS]\n       jupyter runai submit [options] -- COMMAND",
        description="""\
Send a job to the pool, with a copy of the files of the current folder (without hidden ones, caches,
virtual environments and files that .gitignore names). Later changes do not affect it.""",
        epilog="""\
examples:
  jupyter runai submit train.py
  jupyter runai submit train.ipynb -p lr=0.1
  jupyter runai submit --gpus 2 --project vision train.py -- --epochs 3
  jupyter runai submit --workers 4 --framework torch --max-runtime 2h --wait train.py""",
    )
    _takes_program(command)


def _takes_program(command: argparse.ArgumentParser, without: Collection[str] = ()) -> None:
    command.add_argument(
        "script", nargs="*", metavar="SCRIPT", help="a Python script or a notebook in the current folder"
    )
    add_options(command, Interface.COMMAND_LINE, completer, without)
    command.set_defaults(takes_words=True)


def _list(commands: Commands) -> None:
    command = add_command(commands, "list", "jobs:show_list", "list jobs, by default the newest first")
    command.add_argument("--state", action="append", choices=[state.value for state in JobState], metavar="STATE",
                         help="only jobs in this state; may be repeated")  # fmt: skip
    command.add_argument("--project", help="only jobs of this project")
    command.add_argument("--array", metavar="ARRAY", help="only the jobs of this array")
    command.add_argument("--mine", action="store_true", help="only your own jobs")
    command.add_argument("--find", metavar="WORDS",
                         help="only jobs with these words in their name, user, project, state or id")  # fmt: skip
    command.add_argument("--sort", choices=[key.value for key in JobKey], metavar="KEY",
                         help="order by `submitted` (the default), `started`, `waiting`, `gpus`, `priority`, "
                         "`project` or `user`: the newest, largest or last first")  # fmt: skip
    command.add_argument("--ascending", action="store_true", help="reverse the order")
    command.add_argument("--limit", type=values.count, default=30, metavar="N", help="maximum number of entries (30)")
    add_format(command)


def _status(commands: Commands) -> None:
    command = add_command(
        commands, "status", "status:run", "show a summary of the pool, or one job in full and why it waits"
    )
    command.add_argument("job", nargs="?", metavar="JOB", help="the id of a job")
    add_format(command)


def _explain(commands: Commands) -> None:
    command = add_command(
        commands, "explain", "explain:run", "say why a job waits, who holds its GPUs and when it will start"
    )
    command.add_argument("job", metavar="JOB", help="the id of a job")
    add_format(command)


def _logs(commands: Commands) -> None:
    command = add_command(commands, "logs", "logs:logs", "print the log of a job")
    command.add_argument("job", metavar="JOB", help="the id of a job")
    command.add_argument("-f", "--follow", action="store_true", help="keep printing until the job ends")
    command.add_argument("--rank", type=values.whole, default=0, metavar="N", help="the log of this worker (0)")
    command.add_argument("--attempt", type=values.count, metavar="N", help="the log of this attempt (the latest)")
    command.add_argument("--timestamps", action="store_true", help="print when each line was written, in UTC")


def _outputs(commands: Commands) -> None:
    command = add_command(
        commands, "outputs", "jobs:outputs", "list the files of a job in $RUNAI_OUTPUT_DIR, or copy them here"
    )
    command.add_argument("job", metavar="JOB", help="the id of a job")
    command.add_argument("--to", metavar="FOLDER", help="copy the files to FOLDER")
    add_format(command)


def _verbs(commands: Commands) -> None:
    for verb, summary in (
        ("cancel", "end jobs for good"),
        ("pause", "stop jobs until they are resumed"),
        ("resume", "queue paused jobs again"),
        ("priority", "change the priority of jobs within their projects"),
        ("delete", "delete jobs that have ended, with their logs, outputs and checkpoints"),
    ):
        command = add_command(commands, verb, f"jobs:{verb}", summary)
        if verb == "priority":
            command.add_argument(
                "priority", type=values.priority, metavar="N", help="from 0 to 1000; the highest starts first"
            )
        command.add_argument("jobs", nargs="+", metavar="JOB", help="the id of a job or an array")


def _schedule(commands: Commands) -> None:
    verbs = add_group(commands, "schedule", "run jobs every night, or at other times")
    command = add_command(
        verbs,
        "add",
        "schedules:add",
        "submit a job at the times of a cron expression from now on",
        usage="jupyter runai schedule add --cron TIMES [options] SCRIPT [-- ARGUMENTS]\n"
        "       jupyter runai schedule add --cron TIMES [options] -- COMMAND",
        epilog="""\
example:
  jupyter runai schedule add --cron "0 2 * * *" --timezone Europe/Berlin -- python train.py""",
    )
    command.add_argument("--cron", required=True, metavar="TIMES",
                         help="minute, hour, day of the month, month and day of the week: '0 2 * * *' is every night "
                         "at 02:00")  # fmt: skip
    command.add_argument("--timezone", default="UTC", metavar="ZONE", help="the time zone of these times (UTC)")
    _takes_program(command, without=("after", "array", "sweep", "max_parallel", "wait", "bring_to"))
    command = add_command(verbs, "list", "schedules:show_list", "list your schedules, with their next and last runs")
    add_format(command)
    for verb, summary in (
        ("pause", "pause schedules; what they miss meanwhile is not made up for"),
        ("resume", "resume paused schedules"),
        ("remove", "remove schedules; their jobs stay"),
        ("run", "submit the jobs of schedules now"),
    ):
        command = add_command(verbs, verb, f"schedules:{verb}", summary)
        command.add_argument("schedules", nargs="+", metavar="SCHEDULE", help="the name or id of a schedule")


def _notices(commands: Commands) -> None:
    verbs = add_group(commands, "notices", "be told of your jobs by e-mail or webhook")
    add_format(add_command(verbs, "show", "notices:show", "show what you are told, where, and what could not be sent"))
    command = add_command(
        verbs,
        "set",
        "notices:choose",
        "choose where you are told of your jobs from now on",
        epilog="""\
examples:
  jupyter runai notices set slack                       # asks for the URL
  jupyter runai notices set email ada@example.org --events failed,paused""",
    )
    command.add_argument("channel", choices=[channel.value for channel in NoticeChannel], help="none: nowhere")
    command.add_argument("address", nargs="?", help="an e-mail address, or the URL of a webhook; by default it asks")
    command.add_argument("--events", type=values.events, metavar="EVENTS",
                         help="some of failed,succeeded,cancelled,warned,paused,resumed (all)")  # fmt: skip
    command.add_argument("--shortest-success", type=values.seconds, metavar="TIME",
                         help="the shortest time from submission to end of a success that is told (10m)")  # fmt: skip
    add_command(verbs, "test", "notices:test", "send a test notice, and say what happened")


# -- the pool -----------------------------------------------------------------------------------------------


def _project(commands: Commands) -> None:
    project = _Parser
    whole = commands.add_parser(
        "project",
        help="list, show, add, change and remove projects",
        description="Projects and their quotas.",
    )
    verbs = whole.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=project)
    command = add_command(verbs, "list", "projects:show_list", "list all projects with their use of GPUs")
    add_format(command)
    command = add_command(verbs, "show", "projects:show", "show one project")
    command.add_argument("name", metavar="NAME")
    add_format(command)
    command = add_command(
        verbs, "set", "projects:change", "add a project, or change the given settings of a project",
        epilog="Instead of an amount, write `none` for an unlimited guarantee, no limit, or the default weight.",
    )  # fmt: skip
    command.add_argument("name", metavar="NAME")
    command.add_argument("--parent", metavar="NAME", help="the project above it; `none`: at the top")
    command.add_argument(
        "--guaranteed",
        type=values.bound,
        default=argparse.SUPPRESS,
        metavar="N",
        help="GPUs it always gets back",
    )
    command.add_argument(
        "--limit",
        type=values.bound,
        default=argparse.SUPPRESS,
        metavar="N",
        help="GPUs it may hold at most",
    )
    for option, words in (
        ("--guaranteed-cpus", "CPUs it always gets back; `none`: those that come with its guaranteed GPUs"),
        ("--limit-cpus", "CPUs its jobs may hold at most"),
        ("--guaranteed-memory-gib", "memory it always gets back; `none`: what comes with its guaranteed GPUs"),
        ("--limit-memory-gib", "memory its jobs may hold at most"),
    ):
        command.add_argument(option, type=values.bound, default=argparse.SUPPRESS, metavar="N", help=words)
    command.add_argument(
        "--weight",
        type=values.bound,
        default=argparse.SUPPRESS,
        metavar="N",
        help="its share of the idle GPUs",
    )
    command.add_argument("--priority", type=int, metavar="N", help="among its siblings; higher first")
    command.add_argument("--order", choices=[*QueueOrder, "none"],
                         help="order of jobs of the same priority: the oldest first, or those of the user who uses "
                         "least, then the job that was served least; `none`: as the project above")  # fmt: skip
    command.add_argument("--member", action="append", metavar="USER",
                         help="a user who may submit; replaces the present members; '*': everybody; may be "
                         "repeated")  # fmt: skip
    command.add_argument("--group", action="append", metavar="GROUP", help="a JupyterHub group that may; likewise")
    command.add_argument("--window", action="append", type=values.window, metavar="WINDOW",
                         help="a time window with a different guarantee, such as 'mon-fri 09:00-12:00 "
                         "Europe/Berlin guaranteed=20', optionally with dates such as 2026-12-01..2026-12-07; "
                         "replaces the present windows; `none`: no windows; may be repeated")  # fmt: skip
    command.add_argument("--quota", action="append", type=values.quota, default=[], metavar="PART,AMOUNTS",
                         help="its quota of a type of GPU or a node pool, such as gpu_type=A100,guaranteed=4,limit=8; "
                         "without amounts, the quota is removed; may be repeated")  # fmt: skip
    command.add_argument("--policy", action="append", type=values.rule, default=[], metavar="RULE=VALUE",
                         help="a rule for its jobs, such as maxima.gpus=4; `none` removes a rule; may be "
                              "repeated")  # fmt: skip
    command.add_argument(
        "--preview", action="store_true", help="only show what would change, and which jobs would stop, move or start"
    )
    command = add_command(verbs, "rm", "projects:remove", "remove a project that has no jobs")
    command.add_argument("name", metavar="NAME")


def _apply(commands: Commands) -> None:
    command = add_command(commands, "apply", "apply:run", "apply a pool file")
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("-f", "--file", metavar="FILE", help="the pool file, in YAML; `-` reads standard input")
    what.add_argument("--show", action="store_true", help="print the pool file of the current pool")
    command.add_argument(
        "--preview", action="store_true", help="only show what would change, and which jobs would stop, move or start"
    )
    add_format(command)


def _snapshot(commands: Commands) -> None:
    command = add_command(commands, "snapshot", "snapshot:run", "print the current pool as a scenario, for `plan`")
    add_format(command)


def _plan(commands: Commands) -> None:
    command = add_command(
        commands, "plan", "plan:run", "print the policy's plan for a pool that is described in a file"
    )
    command.add_argument("file", metavar="FILE", help="a scenario in YAML or JSON; `-` reads standard input")
    command.add_argument("--lines", action="store_true", help="read one scenario in JSON per line")
    command.add_argument(
        "--cycles", type=values.count, metavar="N", help="simulate this many cycles and print the last state"
    )
    command.add_argument("--timing", action="store_true", help="write the seconds of each decision to standard error")
