"""The options of a submission, each defined once: its name, value, meaning, and where it can be given.

The magic and the command line build their parsers from this table (`arguments.py`), Tab completion uses it, the panel's
dialog is generated from it (`labextension/src/model/options.ts`), and the reference pages show it. A job file and the
API have the same names; a test compares their types with the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, Flag, auto
from typing import Any

from scheduler.model import Framework
from scheduler.submission.values import (
    AMOUNT,
    ARRAY,
    COUNT,
    DURATION,
    GROUPS,
    MEMORY,
    NAMES,
    PARAMETERS,
    SPACE,
    SWITCH,
    TEXT,
    VARIABLES,
    WHOLE,
    Kind,
    choice,
)


class Interface(Flag):
    """Where an option can be given."""

    MAGIC = auto()
    COMMAND_LINE = auto()
    JOB_FILE = auto()
    API = auto()
    DIALOG = auto()


LINES = Interface.MAGIC | Interface.COMMAND_LINE
FILES = Interface.JOB_FILE | Interface.API
EVERYWHERE = LINES | FILES | Interface.DIALOG
NOT_IN_THE_API = EVERYWHERE & ~Interface.API
"""Options that are turned into an array or files before the API is called."""


class Group(Enum):
    """A group of options in a help text."""

    NEEDS = "what it needs"
    ALONG = "what is sent and returned"
    QUEUE = "how it is queued"
    TIMES = "how long it runs"
    MANY = "many jobs as one"
    KEPT = "templates and files"
    THEN = "once it is sent"


class Offer(Enum):
    """The source of completions for a value."""

    PROJECT = auto()
    GPU_TYPE = auto()
    NODE_POOL = auto()
    JOB = auto()
    TEMPLATE = auto()
    VARIABLE = auto()


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    `name` is the key of a job file and of the API's submission. On a line it is `flags`, by default `--name` with
    hyphens; `former` are flags of earlier versions, still accepted but not shown. A form uses `label`, by default the
    flag in words, and shows `basic` options first. `via` are the interfaces that accept it. `help` is a clause without
    units, the same for all of them; `more` is added in the reference pages, in Markdown. `sets` is the value of a
    switch that is given.
    """

    name: str
    kind: Kind
    group: Group
    help: str
    via: Interface = EVERYWHERE
    flags: tuple[str, ...] = ()
    former: tuple[str, ...] = ()
    label: str = ""
    metavar: str = ""
    example: str = ""
    default: str = ""
    more: str = ""
    offers: Offer | None = None
    sets: Any = True
    basic: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "flags", self.flags or (f"--{self.name.replace('_', '-')}",))
        object.__setattr__(self, "metavar", self.metavar or self.kind.metavar)
        words = self.flag.strip("-").replace("-", " ").replace("gpu", "GPU").replace("cpu", "CPU")
        object.__setattr__(self, "label", self.label or words[:1].upper() + words[1:])

    @property
    def former_keys(self) -> tuple[str, ...]:
        """Its keys in job files of earlier versions."""
        return tuple(flag.strip("-").replace("-", "_") for flag in self.former)

    @property
    def flag(self) -> str:
        """Its name in sentences."""
        return self.flags[-1]

    def value_of(self, text: str) -> Any:
        """Read the text of a form's field; several assignments have a line each. Raises `ValueError`."""
        if self.kind is SWITCH:
            return self.kind.read(text) and self.sets
        if self.kind in (VARIABLES, PARAMETERS):
            lines = filter(None, map(str.strip, text.splitlines()))
            return dict(assignment for line in lines for assignment in self.kind.read(line).items())
        return self.kind.read(text.strip())

    def meaning(self, mark: str = "") -> str:
        """Its meaning, format and default; `mark` is put around text to type."""
        marked = [f"{mark}{word}{mark}" for word in self.kind.choices]
        choices = f": {', '.join(marked[:-1])}{' or ' * (len(marked) > 1)}{marked[-1]}" if marked else ""
        example = f", such as {mark}{self.example}{mark}" if self.example else ""
        default = f" (default: {self.default})" if self.default else ""
        return f"{self.help}{choices}{example}{default}"

    def meaning_on_a_line(self, mark: str = "") -> str:
        again = "; may be repeated" if self.kind.gathers and "," not in self.metavar else ""
        return f"{self.meaning(mark)}{again}"


OPTIONS: tuple[Option, ...] = (
    # -- what it needs
    Option("gpus", AMOUNT, Group.NEEDS, "GPUs for each worker, or a fraction of one GPU",
           example="0.25", default="1", basic=True),
    Option("gpu_memory_gib", MEMORY, Group.NEEDS, "memory on one GPU for each worker, instead of a number of GPUs",
           flags=("--gpu-memory",), example="10GiB"),
    Option("gpu_types", NAMES, Group.NEEDS, "types of GPU that the job accepts", flags=("--gpu-type",),
           metavar="TYPE,…", default="any", offers=Offer.GPU_TYPE, basic=True),
    Option("cpus", AMOUNT, Group.NEEDS, "CPUs for each worker"),
    Option("memory_gib", MEMORY, Group.NEEDS, "memory for each worker", flags=("--memory",), example="16GiB"),
    Option("workers", COUNT, Group.NEEDS, "number of workers", default="1", basic=True,
           more="See [Train on several GPUs](../how-to/train-on-several-gpus.md)."),
    Option("min_workers", COUNT, Group.NEEDS, "start with this many workers, and add more as GPUs become free",
           default="all workers", label="Minimum workers"),
    Option("framework", choice([each.value for each in Framework]), Group.NEEDS,
           "conventions by which the workers find each other", default="none", basic=True),
    Option("node_pools", NAMES, Group.NEEDS, "node pools that the job may use, in order of preference",
           flags=("--node-pool",), default="any", offers=Offer.NODE_POOL),
    Option("require", TEXT, Group.NEEDS, "place all workers within one node, rack or other level of the topology",
           metavar="LEVEL", more="The levels are `node` and those of the pool file's [`topology`](pool-file.md).",
           label="Keep within"),
    Option("prefer", TEXT, Group.NEEDS, "place all workers within one node, rack or other level where that is possible",
           metavar="LEVEL", label="Prefer within"),
    Option("groups", GROUPS, Group.NEEDS, "workers of several shapes, which start together, instead of equal workers",
           via=FILES),
    Option("image", TEXT, Group.NEEDS, "on Kubernetes, the container image that the workers run in",
           example="quay.io/jupyter/pytorch-notebook", default="that of the notebook, else the pool's",
           more="It needs `python3` (3.8 or later). See "
           "[Choose the image](../how-to/kubernetes.md#choose-the-image)."),
    # -- what goes along and comes back
    Option("outputs", NAMES, Group.ALONG, "variables that the cell returns",
           via=Interface.MAGIC | FILES | Interface.DIALOG,
           flags=("--out",), offers=Offer.VARIABLE, label="Returned variables", basic=True),
    Option("in", NAMES, Group.ALONG,
           "send only the files that match; for a cell, also only the variables that are named",
           via=NOT_IN_THE_API, example="data/*.csv", offers=Offer.VARIABLE,
           more="Patterns are those of `.gitignore`; a hidden file is sent only if a pattern contains its full name.",
           label="Files"),
    Option("no_files", SWITCH, Group.ALONG, "send no files", via=NOT_IN_THE_API,
           more="The command line then runs a script where it is; the magic and the panel still send the script "
           "itself."),
    Option("no_capture", SWITCH, Group.ALONG, "send no variables", via=Interface.MAGIC),
    Option("env", VARIABLES, Group.ALONG, "set an environment variable of the job",
           more="On a line, `NAME` alone passes on the current value of the variable.",
           label="Environment variables"),
    Option("notebook_parameters", PARAMETERS, Group.ALONG, "set a parameter of the notebook",
           via=LINES | Interface.DIALOG, flags=("-p", "--parameter"), label="Notebook parameters"),
    # -- how it is queued
    Option("name", TEXT, Group.QUEUE, "name of the job", default="the script, notebook or program"),
    Option("project", TEXT, Group.QUEUE, "project of the job", default="your first project",
           offers=Offer.PROJECT, basic=True),
    Option("priority", WHOLE, Group.QUEUE, "priority within the project; the highest starts first", default="50",
           basic=True),
    Option("preemptible", SWITCH, Group.QUEUE, "never stop it for other jobs; it must fit into the project's guarantee",
           flags=("--not-preemptible",), sets=False),
    Option("after", NAMES, Group.QUEUE,
           "start when these jobs or arrays have succeeded, or, with :any after an id, when they have ended",
           metavar="JOB,…", offers=Offer.JOB, label="Start after"),
    Option("schedule", TEXT, Group.QUEUE, "submit the job at these times from now on, instead of once now",
           via=Interface.MAGIC | Interface.DIALOG, metavar="CRON", example="0 2 * * *", default="once, now", basic=True,
           more="Minute, hour, day of the month, month and day of the week. See "
           "[Run a job every night](../how-to/schedule.md)."),
    Option("timezone", TEXT, Group.QUEUE, "time zone of the schedule", via=Interface.MAGIC | Interface.DIALOG,
           metavar="ZONE", example="Europe/Berlin", default="UTC", label="Time zone"),
    Option("retries", WHOLE, Group.QUEUE, "number of times to try again after a failure", default="0"),
    # -- how long it runs
    Option("max_runtime", DURATION, Group.TIMES, "stop an attempt after this time", example="2h",
           label="Maximum run time"),
    Option("min_runtime", DURATION, Group.TIMES, "do not preempt an attempt before it has run for this time",
           example="10m", label="Minimum run time"),
    Option("idle_timeout", DURATION, Group.TIMES, "stop the job when its GPUs have been idle for this time",
           example="30m",
           more="A job is idle if the utilisation of all its GPUs is below 5 %. If it cannot be measured, the option "
           "has no effect."),
    Option("expected_runtime", DURATION, Group.TIMES, "estimate of the run time, from which start times are predicted",
           example="40m", default="learned from earlier jobs",
           more="No job is stopped because its [estimate](../explanation/policy.md#when) was too short.",
           label="Expected run time"),
    Option("grace", DURATION, Group.TIMES, "time between SIGTERM and SIGKILL when an attempt is stopped", default="30s",
           label="Grace period"),
    # -- many jobs as one
    Option("array", ARRAY, Group.MANY, "run one job for each index of a range", via=NOT_IN_THE_API,
           example="0-99%10",
           more="`100` is the same as `0-99`, and `1,3,5-9` are single indices; `%10` runs ten jobs at a time. Each "
           "job has its own `RUNAI_ARRAY_INDEX`."),
    Option("sweep", SPACE, Group.MANY, "run one job for each combination of values", via=NOT_IN_THE_API,
           example="lr=0.1,0.01;bs=32",
           more="A cell and a notebook get the values as variables. A command gets each value in place of `{NAME}`, or "
           "else as `--NAME VALUE` at its end. `RUNAI_PARAMETERS` has them as JSON. See [Sweeps](../how-to/sweep.md)."),
    Option("max_parallel", COUNT, Group.MANY, "number of jobs of an array or a sweep that may run at the same time",
           via=NOT_IN_THE_API, former=("--at-once",), default="all", more="A search runs four at a time by default.",
           label="Jobs at a time"),
    Option("search", choice(["optuna"]), Group.MANY, "search for the best values, and stop unpromising trials",
           via=Interface.MAGIC,
           more="`--sweep` names ranges and choices: `lr=1e-5..1e-1:log;n=1..8`. Needs the extra `search`."),
    Option("trials", COUNT, Group.MANY, "number of jobs of a search", via=Interface.MAGIC, default="20"),
    Option("minimize", TEXT, Group.MANY, "the best job is the one that reports the least of this metric",
           via=Interface.MAGIC, metavar="METRIC"),
    Option("maximize", TEXT, Group.MANY, "the best job is the one that reports the most of this metric",
           via=Interface.MAGIC, metavar="METRIC"),
    # -- templates and files
    Option("file", TEXT, Group.KEPT, "start from a job file; - reads standard input", via=Interface.COMMAND_LINE,
           flags=("-f", "--file"), metavar="FILE", more="Options override the [file](job-file.md)."),
    Option("template", TEXT, Group.KEPT, "start from a template", via=LINES, offers=Offer.TEMPLATE,
           more="Options override the [template](job-file.md#templates)."),
    Option("save_template", TEXT, Group.KEPT, "save these options as a template", via=LINES, offers=Offer.TEMPLATE),
    Option("dry_run", SWITCH, Group.KEPT, "print what would be sent, as a job file, and send nothing", via=LINES),
    # -- once it is sent
    Option("detach", SWITCH, Group.THEN, "return the job immediately, without waiting for it", via=Interface.MAGIC,
           flags=("--no-wait", "--detach")),
    Option("wait", SWITCH, Group.THEN, "show the output until the job ends; the exit status is 1 if it fails",
           via=Interface.COMMAND_LINE),
    Option("bring_to", TEXT, Group.THEN, "wait, and copy the job's output files to this folder",
           via=Interface.COMMAND_LINE, flags=("--out",), metavar="FOLDER"),
    Option("output", choice(["json", "yaml"]), Group.THEN, "print the result as JSON or YAML", via=LINES,
           flags=("-o", "--output"), metavar="FORM"),
)  # fmt: skip


def of(interface: Interface) -> Iterator[Option]:
    """The options of an interface, in the order of the table."""
    return (option for option in OPTIONS if interface in option.via)


BY_NAME = {option.name: option for option in OPTIONS}

BESIDE_THE_API = frozenset(
    option.name for option in OPTIONS if Interface.JOB_FILE in option.via and Interface.API not in option.via
)
"""Keys of a job file that are not part of the API's submission."""
