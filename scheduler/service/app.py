"""The scheduler as a service: `jupyter runai serve`, a Jupyter application with its configuration.

Options come from `jupyter_runai_config.py` on Jupyter's config path, from the environment (`RUNAI_STATE_DIR` for
`state_dir`, and so on) and from the command line; later ones override earlier ones. The parts are put together in
`assembly`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from jupyter_core.application import JupyterApp, NoStart
from tornado.log import LogFormatter
from traitlets import Bool, Enum, Float, Integer, List, TraitError, Unicode, default, validate
from traitlets.config import Config
from traitlets.utils.bunch import Bunch

from scheduler import __version__
from scheduler.discovery.statefolder import default_state_dir
from scheduler.errors import Conflict, Invalid, RunaiError, shortage
from scheduler.service.logs import Repeats

if TYPE_CHECKING:
    from scheduler.service.delivery import Mail

LOCKED = 75
"""The exit status where another scheduler holds the state folder (`EX_TEMPFAIL`)."""

FROM_ENVIRONMENT = (
    "state_dir",
    "ip",
    "port",
    "db_url",
    "declared_gpus",
    "pool_file",
    "auth",
    "jobs_as",
    "gpu_isolation",
    "engine",
    "standby",
    "operator",
    "base_url",
    "scrape_token",
    "dcgm_mapping_dir",
    "idle_timeout",
    "smtp_host",
    "smtp_port",
    "smtp_tls",
    "smtp_user",
    "smtp_password",
    "smtp_from",
    "webhook_hosts",
)


class RunaiService(JupyterApp):
    """Decides what runs where and when, and answers for it under `/api/v1`."""

    name = "jupyter-runai"
    version = __version__
    description = "Start the scheduler: the pool, its queue and its API."
    examples = """
    jupyter runai serve                                 # alone on this machine
    jupyter runai serve --state-dir /srv/runai --pool-file pool.yaml
    jupyter runai serve --generate-config               # write a commented jupyter_runai_config.py
    """
    raise_config_file_errors = True

    state_dir = Unicode(
        config=True,
        help="The folder that holds all state; it belongs to one user and one scheduler. "
        "Default: RUNAI_STATE_DIR, or `runai` in Jupyter's data folder.",
    )
    ip = Unicode(config=True, help="The address to listen on. Default: 127.0.0.1, or as the hub sets it.")
    port = Integer(
        config=True,
        min=0,
        max=65535,
        help="The port to listen on; 0 takes the port of the last run, or a free one; endpoint.json names it. "
        "Default: 0, or as the hub sets it.",
    )
    base_url = Unicode(config=True, help="The path before `/api`. Default: `/`, or as the hub sets it.")
    db_url = Unicode(
        config=True,
        help="The database, as an SQLAlchemy URL. Default: runai.sqlite in the state folder. "
        "An address that holds a password belongs in RUNAI_DB_URL, not on the command line.",
    )
    declared_gpus = Integer(
        None,
        allow_none=True,
        min=1,
        max=4096,
        config=True,
        help="The number of declared GPUs if NVML finds none. Default: 8.",
    )
    pool_file = Unicode(
        config=True,
        help="A pool file to apply at the start. Later changes persist until this file changes.",
    )
    auth = Enum(
        ["hub", "token"],
        config=True,
        help="How callers are authenticated: by a JupyterHub, or by the token in the state folder. "
        "Default: hub if a JupyterHub started this service, else token.",
    )
    jobs_as = Enum(
        ["scheduler", "owner"],
        "scheduler",
        config=True,
        help="The user that runs jobs: the scheduler's own, or the system user who owns each job (only as root).",
    )
    gpu_isolation = Enum(
        ["auto", "memory-limit", "mps", "watcher", "time-slicing"],
        "auto",
        config=True,
        help="What keeps jobs and notebook servers with part of a GPU to their part of its memory: the driver's limit "
        "(`memory-limit`), `mps`, the scheduler, which warns and then ends those that use more (`watcher`), or nothing "
        "(`time-slicing`). Default: the first of these that works.",
    )
    engine = Unicode(
        "local",
        config=True,
        help="Where jobs run: `local` on this machine, or by another engine that an installed package brings.",
    )
    standby = Bool(
        False,
        config=True,
        help="Wait while another scheduler leads, and take over when it ends. Needs PostgreSQL, and a state folder "
        "that both can write to.",
    )
    operator = Bool(
        False,
        config=True,
        help="Create jobs from the cluster's TrainJobs, and projects from its Projects. Needs the engine `kubernetes`.",
    )
    scrape_token = Unicode(config=True, help="A token that may read /metrics and nothing else. Default: none.")
    dcgm_mapping_dir = Unicode(
        config=True,
        help="A folder for files that say which job or session holds each GPU, from which NVIDIA's DCGM exporter "
        "labels its metrics (its DCGM_HPC_JOB_MAPPING_DIR). Default: none.",
    )
    idle_timeout = Float(
        0,
        min=0,
        config=True,
        help="Seconds after which the scheduler ends if nobody is connected and no job or session is left; 0: never.",
    )
    smtp_host = Unicode(config=True, help="The mail server for notices to users. Default: none, and no e-mail.")
    smtp_port = Integer(587, min=1, max=65535, config=True, help="The port of the mail server.")
    smtp_tls = Enum(
        ["starttls", "tls", "none"],
        "starttls",
        config=True,
        help="How the mail server is reached: with STARTTLS, with TLS from the first byte (port 465), or unencrypted.",
    )
    smtp_user = Unicode(config=True, help="The user to log in to the mail server as. Default: no login.")
    smtp_password = Unicode(
        config=True, help="The password of smtp_user. It belongs in RUNAI_SMTP_PASSWORD, not on the command line."
    )
    smtp_from = Unicode(config=True, help="The sender of notices. Default: runai@ and the name of this machine.")
    webhook_hosts = List(
        Unicode(),
        ["*"],
        config=True,
        help="The hosts to which users may send notices: names, or patterns such as *.example.org. Only a host that is "
        "named in full may have a private address or be reached over plain HTTP. Default: all public ones.",
    )
    hub_managed = Bool(False, help="Whether a JupyterHub started this process and stops it.")

    aliases = {  # noqa: RUF012
        "state-dir": ("RunaiService.state_dir", "The folder that holds all state."),
        "ip": ("RunaiService.ip", "The address to listen on."),
        "port": ("RunaiService.port", "The port to listen on; 0 takes a free one."),
        "base-url": ("RunaiService.base_url", "The path before /api."),
        "db-url": ("RunaiService.db_url", "The database, as an SQLAlchemy URL."),
        "declared-gpus": ("RunaiService.declared_gpus", "The number of declared GPUs if NVML finds none."),
        "pool-file": ("RunaiService.pool_file", "A pool file to apply at the start."),
        "auth": ("RunaiService.auth", "hub or token: how callers are authenticated."),
        "idle-timeout": (
            "RunaiService.idle_timeout",
            "Seconds without work after which it ends.",
        ),
        "jobs-as": ("RunaiService.jobs_as", "scheduler or owner: the user that runs jobs."),
        "engine": ("RunaiService.engine", "Where jobs run: local, or another engine that is installed."),
        "log-level": "Application.log_level",
        "config": "JupyterApp.config_file",
    }

    _log_formatter_cls = LogFormatter  # type: ignore[assignment]

    # -- defaults and checks --------------------------------------------------------------------------------

    @default("log_format")
    def _log_format_default(self) -> str:
        return "%(color)s[%(levelname)1.1s %(asctime)s %(name)s]%(end_color)s %(message)s"

    @default("state_dir")
    def _state_dir_default(self) -> str:
        return str(default_state_dir())

    @validate("state_dir", "pool_file", "dcgm_mapping_dir")
    def _absolute(self, proposal: Bunch) -> str:
        given = str(proposal.value)
        return os.path.abspath(os.path.expanduser(given)) if given else given

    @default("auth")
    def _auth_default(self) -> str:
        return "hub" if "JUPYTERHUB_SERVICE_NAME" in os.environ else "token"

    @default("hub_managed")
    def _hub_managed_default(self) -> bool:
        return self.auth == "hub" and "JUPYTERHUB_SERVICE_NAME" in os.environ

    @default("ip")
    def _ip_default(self) -> str:
        return self._hub_address().hostname or "127.0.0.1"

    @default("port")
    def _port_default(self) -> int:
        return self._hub_address().port or 0

    @default("base_url")
    def _base_url_default(self) -> str:
        return os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "/") if self.hub_managed else "/"

    @validate("base_url")
    def _slashes(self, proposal: Bunch) -> str:
        return f"/{str(proposal.value).strip('/')}/".replace("//", "/")

    @default("db_url")
    def _db_url_default(self) -> str:
        return f"sqlite:///{self.state_dir}/runai.sqlite"

    def _hub_address(self) -> Any:
        return urlsplit(os.environ.get("JUPYTERHUB_SERVICE_URL", "") if self.hub_managed else "")

    def _mail(self) -> Mail | None:
        from scheduler.service.delivery import Mail

        sender = self.smtp_from or f"runai@{socket.getfqdn()}"
        given = (self.smtp_host, self.smtp_port, self.smtp_tls, sender, self.smtp_user, self.smtp_password)
        return Mail(*given) if self.smtp_host else None

    # -- starting -------------------------------------------------------------------------------------------

    def load_config_file(self, suppress_errors: bool = True) -> None:  # type: ignore[override]
        super().load_config_file(suppress_errors)
        self.update_config(environment())

    def initialize(self, argv: Any = None) -> None:
        super().initialize(argv)
        if self.extra_args:
            raise Invalid(f"`serve` takes options only, not {self.extra_args[0]!r}; look at --help.")
        known = self.trait_names(config=True)
        for name in self.config.get("RunaiService", {}):
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else "; remove it."
                raise Invalid(f"There is no option RunaiService.{name}{hint}", field=name)

    def start(self) -> None:
        super().start()
        for name in ("scheduler", "runai", "tornado", "asyncio"):
            logging.getLogger(name).parent = self.log  # the rooms log to the application's log
        # Below warnings it quotes requests, including tokens in malformed headers.
        logging.getLogger("tornado.general").setLevel(logging.WARNING)
        for handler in self.log.handlers:
            handler.addFilter(Repeats())
        self.log.setLevel(
            min(handler.level for handler in self.log.handlers)
        )  # otherwise every record is made and discarded
        from scheduler.service.assembly import Options, serve  # `--help` needs none of it

        options = Options(
            state_dir=Path(self.state_dir),
            ip=self.ip,
            port=self.port,
            base_url=self.base_url,
            db_url=self.db_url,
            declared_gpus=self.declared_gpus,
            pool_file=self.pool_file,
            auth=self.auth,
            jobs_as=self.jobs_as,
            gpu_isolation=self.gpu_isolation,
            scrape_token=self.scrape_token,
            dcgm_mapping_dir=self.dcgm_mapping_dir,
            idle_timeout=self.idle_timeout,
            hub_managed=self.hub_managed,
            log=self.log,
            engine=self.engine,
            standby=self.standby,
            operator=self.operator,
            mail=self._mail(),
            webhook_hosts=tuple(self.webhook_hosts),
            config=self.config,
        )
        asyncio.run(serve(options))


def environment() -> Config:
    """The options from the environment, as configuration."""
    found = Config()
    for trait in FROM_ENVIRONMENT:
        given = os.environ.get(f"RUNAI_{trait.upper()}")
        if given is not None:
            found.RunaiService[trait] = RunaiService.class_traits()[trait].from_string(given)
    return found


def main(argv: list[str] | None = None) -> int:
    """Run the service until it is stopped; returns the exit status."""
    app = RunaiService.instance()
    try:
        app.initialize(argv)
        app.start()
    except NoStart:
        return 0
    except Conflict as error:
        print(error.sentence, file=sys.stderr)
        return LOCKED
    except (RunaiError, TraitError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, TraitError) else 1
    except OSError as error:
        short = shortage(error)
        if short is None:
            raise
        print(f"The scheduler cannot start. {short.sentence}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
