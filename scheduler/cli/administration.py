"""The options of the commands by which administrators look after nodes, and everybody looks at what was used."""

from __future__ import annotations

from scheduler.cli import values
from scheduler.cli.command import Commands, add_command, add_format
from scheduler.model import Environment


def add_commands(commands: Commands) -> None:
    _drain(commands)
    _usage(commands)
    _audit(commands)


def _drain(commands: Commands) -> None:
    command = add_command(
        commands, "drain", "nodes:drain", "give a node no new work; running work continues to its end"
    )
    command.add_argument("node", metavar="NODE")
    command.add_argument("--reason", default="", help="the reason, shown with the node")
    command = add_command(commands, "undrain", "nodes:undrain", "let a drained node take work again")
    command.add_argument("node", metavar="NODE")


def _usage(commands: Commands) -> None:
    command = add_command(commands, "usage", "usage:run", "show what was used: GPU-hours, waits, reclaims, lost work")
    command.add_argument("--since", type=values.instant, default=None, metavar="WHEN",
                         help="from this day or instant on, or as long ago: 2026-03-01, 2026-03-01T12:00, 7d "
                         "(30 days)")  # fmt: skip
    command.add_argument("--until", type=values.instant, default=None, metavar="WHEN", help="until then (now)")
    command.add_argument("--by", type=values.dimensions, default=["project"], metavar="GROUP,…",
                         help="grouped by project (the default), user, gpu_type, environment, or `none`")  # fmt: skip
    command.add_argument("--every", choices=["hour", "day", "week", "month"], help="a line for each, in UTC")
    command.add_argument("--project", help="only in this project")
    command.add_argument("--user", help="only by this user")
    command.add_argument("--gpu-type", metavar="TYPE", help="only on this type of GPU")
    command.add_argument("--environment", choices=[each.value for each in Environment], help="only sessions, or jobs")
    add_format(command, ("csv", "json", "yaml"))


def _audit(commands: Commands) -> None:
    command = add_command(
        commands, "audit", "audit:run", "show the changes of the pool and who made them, the newest first"
    )
    command.add_argument("--user", help="only what this user has changed")
    command.add_argument("--name", help="only changes of the project, node pool or user of this name")
    command.add_argument("--limit", type=values.count, default=30, metavar="N", help="maximum number of entries (30)")
    add_format(command)
