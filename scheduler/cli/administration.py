"""The options of the commands for nodes, GPUs, users, groups, sessions, audit and usage."""

from __future__ import annotations

from scheduler.cli import values
from scheduler.cli.command import Commands, add_command, add_format, add_group
from scheduler.model import Environment


def add_commands(commands: Commands) -> None:
    _drain(commands)
    _node(commands)
    _gpus(commands)
    _user(commands)
    _group(commands)
    _session(commands)
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


def _node(commands: Commands) -> None:
    verbs = add_group(commands, "node", "move nodes to other node pools")
    command = add_command(
        verbs, "move", "nodes:move", "move a node to another node pool; running work continues to its end"
    )
    command.add_argument("node", metavar="NODE")
    command.add_argument("node_pool", metavar="NODE_POOL")
    command.add_argument(
        "--preview", action="store_true", help="only show what would change, and which jobs would stop, move or start"
    )


def _gpus(commands: Commands) -> None:
    command = add_command(
        commands, "gpus", "gpus:run", "show what the GPUs of a node report, and how one of them was used over time"
    )
    command.add_argument("node", metavar="NODE")
    command.add_argument("--gpu", type=int, metavar="N", help="how this GPU was used over time")
    command.add_argument("--since", type=values.instant, default=None, metavar="WHEN",
                         help="with --gpu: from this day or instant on, or as long ago: 2026-03-01, 12h, 7d "
                         "(an hour)")  # fmt: skip
    command.add_argument("--until", type=values.instant, default=None, metavar="WHEN", help="until then (now)")
    add_format(command)


def _user(commands: Commands) -> None:
    verbs = add_group(commands, "user", "list users, and set their build quotas")
    command = add_command(verbs, "list", "people:users", "list the users with their build quotas and what they hold")
    command.add_argument("--find", metavar="TEXT", help="only users with this in their name, or in that of a group")
    add_format(command)
    command = add_command(verbs, "set", "people:set_user", "set the build quota of a user")
    command.add_argument("name", metavar="NAME")
    command.add_argument("--build-quota", type=values.bound, required=True, metavar="N",
                         help="GPUs that the user may hold for building; `none`: the quota of their "
                         "groups, or the default")  # fmt: skip


def _group(commands: Commands) -> None:
    verbs = add_group(commands, "group", "list groups, and set the build quotas of their users")
    command = add_command(verbs, "list", "people:groups", "list the groups with the build quotas of their users")
    add_format(command)
    command = add_command(verbs, "set", "people:set_group", "set the build quota of each user of a group")
    command.add_argument("name", metavar="NAME")
    command.add_argument("--build-quota", type=values.bound, required=True, metavar="N",
                         help="GPUs that each of its users may hold for building; `none`: the default")  # fmt: skip


def _session(commands: Commands) -> None:
    verbs = add_group(commands, "session", "list notebook servers with GPUs, and stop them")
    command = add_command(verbs, "list", "people:sessions", "list your sessions; for administrators: all of them")
    add_format(command)
    command = add_command(
        verbs, "stop", "people:stop", "stop the notebook servers of sessions, which gives their GPUs back"
    )
    command.add_argument("sessions", nargs="+", metavar="SESSION", help="the id of a session")


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
    command.add_argument("--user", help="only changes made by this user")
    command.add_argument("--name", help="only changes of the project, node pool or user of this name")
    command.add_argument("--limit", type=values.count, default=30, metavar="N", help="maximum number of entries (30)")
    add_format(command)
