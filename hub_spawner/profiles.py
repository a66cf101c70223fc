"""Profiles of notebook servers, which administrators write: GPUs, CPUs, memory, image and the first page.

What must hold: nobody sees or starts a profile of groups that they are not in; whether a profile fits is a statement
about now, and the scheduler makes the final decision.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

from jupyterhub.spawner import LocalProcessSpawner, Spawner
from pydantic import Field, StringConstraints, field_validator

from hub_spawner.choices import CPU_ONLY, Choice, Fit, QuotaView, plain
from scheduler.errors import Forbidden, Invalid, NotFound
from scheduler.schema.reading import validate
from scheduler.schema.wire import Wire

Text = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Ide(StrEnum):
    """What a server opens first. All but JupyterLab run behind jupyter-server-proxy, under the address of that name."""

    JUPYTERLAB = "jupyterlab"
    VSCODE = "vscode"
    RSTUDIO = "rstudio"
    MARIMO = "marimo"

    @property
    def label(self) -> str:
        return {"jupyterlab": "JupyterLab", "vscode": "VS Code", "rstudio": "RStudio", "marimo": "marimo"}[self]

    @property
    def page(self) -> str:
        return "/lab" if self is Ide.JUPYTERLAB else f"/{self}"


class Profile(Wire):
    """A kind of notebook server. What it leaves out, the spawner's own settings say; without `groups` it is
    everybody's."""

    name: Text
    description: str = ""
    gpus: Annotated[float, Field(ge=0)] = CPU_ONLY
    cpus: Annotated[float, Field(gt=0)] | None = None
    memory_gib: Annotated[float, Field(gt=0)] | None = None
    image: Text | None = None
    ide: Ide | None = None
    groups: list[Text] | None = None

    def traits(self) -> dict[str, Any]:
        """What it sets of its spawner."""
        found = {
            "cpu_limit": self.cpus,
            "mem_limit": self.memory_gib and round(self.memory_gib * 2**30),
            "image": self.image,
            "default_url": self.ide and self.ide.page,
        }
        return {"gpus": self.gpus, **{name: value for name, value in found.items() if value is not None}}

    @property
    def summary(self) -> str:
        """What a server of it has, in one line."""
        parts = [plain(self.gpus) if self.gpus else "No GPU"]
        if self.cpus:
            parts.append(f"{self.cpus:g} CPU{'' if self.cpus == 1 else 's'}")
        if self.memory_gib:
            parts.append(f"{self.memory_gib:g} GiB of memory")
        if self.ide:
            parts.append(self.ide.label)
        if self.image:
            parts.append(self.image)
        return " · ".join(parts)


class _Profiles(Wire):
    profiles: list[Profile]

    @field_validator("profiles")
    @classmethod
    def _each_has_its_name(cls, profiles: list[Profile]) -> list[Profile]:
        names = [profile.name for profile in profiles]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"must have different names; two are called {twice!r}")
        return profiles


def read_profiles(written: Sequence[Any], spawner: type[Spawner]) -> tuple[Profile, ...]:
    """The profiles of an administrator's configuration. Raises `Invalid`, with the place, for the first thing wrong."""
    found = validate(_Profiles, {"profiles": list(written)}).profiles
    for number, profile in enumerate(found):
        if profile.image and "image" not in spawner.class_trait_names():
            place = f"profiles[{number}].image"
            raise Invalid(f"{place}: servers of this hub's spawner have no image; remove it.", field=place)
    return tuple(found)


def offered(profiles: Iterable[Profile], groups: Iterable[str]) -> list[Profile]:
    """The profiles of a user in these groups. Raises `Forbidden` where there are none."""
    mine = set(groups)
    found = [profile for profile in profiles if profile.groups is None or mine.intersection(profile.groups)]
    if not found:
        raise Forbidden("You may not start a server with any profile of this hub; ask an administrator for access.")
    return found


def named(profiles: Sequence[Profile], name: object) -> Profile:
    """The profile of that name among those offered to a user. Raises `NotFound`."""
    found = next((profile for profile in profiles if profile.name == name), None)
    if found is None:
        names = ", ".join(profile.name for profile in profiles)
        raise NotFound(f"You have no profile of that name; choose one of: {names}.", field="profile")
    return found


def choices_of(profiles: Iterable[Profile], view: QuotaView | None, spawner: Spawner) -> list[Choice]:
    """The profiles as choices; `view` is None where the scheduler does not answer, and the start waits for it."""
    return [_choice(profile, view, spawner) for profile in profiles]


def _choice(profile: Profile, view: QuotaView | None, spawner: Spawner) -> Choice:
    if missing := missing_ide(profile, spawner):
        note, fit = missing, Fit.NO
    elif view is None:
        note, fit = "", Fit.NOW
    else:
        note, fit = view.judge(profile.gpus)
    return Choice(profile.gpus, note, fit, name=profile.name, details=(profile.summary, profile.description))


def missing_ide(profile: Profile, spawner: Spawner) -> str | None:
    """Says which IDE of a profile is missing; None: the server can open it."""
    if profile.ide is None or _has(spawner, profile.ide):
        return None
    return f"{profile.ide.label} is not installed here"


def _has(spawner: Spawner, ide: Ide) -> bool:
    """Whether the server can open the IDE, as far as this hub can know: where it runs in the hub's own environment."""
    if ide is Ide.JUPYTERLAB or not isinstance(spawner, LocalProcessSpawner):
        return True
    command = shutil.which(spawner.cmd[0])
    if command is None or Path(command).parent != Path(sys.executable).parent:
        return True
    return bool(entry_points(group="jupyter_serverproxy_servers", name=str(ide)))
