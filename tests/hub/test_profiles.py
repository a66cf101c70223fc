"""Administrators write profiles of notebook servers; users choose among those that are offered to them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyterhub.spawner import SimpleLocalProcessSpawner
from traitlets.config import Config

from hub_spawner.choices import Fit, QuotaView
from hub_spawner.profiles import choices_of, offered, read_profiles
from hub_spawner.wiring import configure
from scheduler.errors import Forbidden, Invalid
from tests.hub.running import Hub, eventually

PROFILES = """
c.JupyterHub.allow_named_servers = True
c.JupyterHub.load_groups = {"research": {"users": ["rosa"]}}
c.LeaseSpawner.profiles = [
    {"name": "Small", "cpus": 2, "memory_gib": 4, "description": "For notebooks that only send jobs."},
    {"name": "One GPU", "gpus": 1, "cpus": 4, "memory_gib": 16, "ide": "jupyterlab"},
    {"name": "RStudio", "gpus": 0.5, "ide": "rstudio"},
    {"name": "Two GPUs & more", "gpus": 2, "groups": ["research"]},
]
"""


class WithImages(SimpleLocalProcessSpawner):
    image = SimpleLocalProcessSpawner.default_url


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ([{"gpus": 1}], "profiles[0].name is missing."),
        ([{"name": "a"}, {"name": "b", "gpu": 1}], "profiles[1].gpu: there is no key 'gpu' here; did you mean 'gpus'?"),
        ([{"name": "a", "gpus": -1}], "profiles[0].gpus should be greater than or equal to 0, not -1."),
        ([{"name": "a", "gpus": "1"}], 'profiles[0].gpus should be a valid number, not "1".'),
        ([{"name": "a", "cpus": 0}], "profiles[0].cpus should be greater than 0, not 0."),
        (
            [{"name": "a", "ide": "emacs"}],
            "profiles[0].ide should be 'jupyterlab', 'vscode', 'rstudio' or 'marimo', not \"emacs\".",
        ),
        ([{"name": "a"}, {"name": "a"}], "profiles must have different names; two are called 'a'."),
        (
            [{"name": "a", "image": "lab:1"}],
            "profiles[0].image: servers of this hub's spawner have no image; remove it.",
        ),
    ],
)
def test_a_wrong_profile_is_refused_with_its_place(written: list[Any], sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_profiles(written, SimpleLocalProcessSpawner)
    assert refused.value.sentence == sentence


def test_an_image_is_accepted_where_the_spawner_has_one() -> None:
    (profile,) = read_profiles([{"name": "a", "image": "lab:1", "memory_gib": 0.5}], WithImages)
    assert profile.traits() == {"gpus": 0, "mem_limit": 2**29, "image": "lab:1"}


def test_a_wrong_profile_stops_the_hub(tmp_path: Path) -> None:
    c = Config()
    c.JupyterHub.spawner_class = "simple"
    c.LeaseSpawner.profiles = [{"name": "a", "image": "lab:1"}]
    with pytest.raises(Invalid, match="have no image; remove it"):
        configure(c, state_dir=tmp_path, jobs_as="scheduler")


def test_where_the_scheduler_does_not_answer_profiles_can_be_chosen() -> None:
    profiles = read_profiles([{"name": "a", "gpus": 1}], SimpleLocalProcessSpawner)
    (choice,) = choices_of(profiles, None, SimpleLocalProcessSpawner())
    assert (choice.title, choice.note, choice.fit) == ("a", "", Fit.NOW)


def test_a_user_of_no_profiles_group_is_told_whom_to_ask() -> None:
    profiles = read_profiles([{"name": "a", "groups": ["research"]}], SimpleLocalProcessSpawner)
    assert [profile.name for profile in offered(profiles, ["staff", "research"])] == ["a"]
    with pytest.raises(Forbidden, match="ask an administrator"):
        offered(profiles, ["staff"])


@pytest.mark.parametrize(
    ("gpus", "note", "fit"),
    [
        (0, "jobs can still use the train pool", Fit.NOW),
        (1, "fits: 1 of 2 in use", Fit.NOW),
        (2, "your other servers hold 1 of your fixed quota of 2", Fit.NO),
        (3, "more than your fixed quota of 2", Fit.NO),
    ],
)
def test_whether_a_profile_fits_now(gpus: float, note: str, fit: Fit) -> None:
    assert QuotaView(quota=2, held=1, gpus=4, free=3).judge(gpus) == (note, fit)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("hub"), more=PROFILES)
    hub.start()
    yield hub
    hub.clean()


def row(page: str, profile: str) -> str:
    """The profile on the page of a start."""
    labels: list[str] = re.findall(r"<label.*?</label>", page, re.DOTALL)
    return next(label for label in labels if f'value="{profile}"' in label)


@pytest.mark.needs("node")
def test_a_server_has_what_its_profile_says(hub: Hub) -> None:
    hub.add("ada")
    page = hub.login("ada").get("/hub/spawn").text
    assert "1 GPU · 4 CPUs · 16 GiB of memory · JupyterLab" in row(page, "One GPU")
    assert "fits: 0 of 1 in use" in row(page, "One GPU")
    assert 'name="gpus"' not in page
    hub.spawn("ada", profile="One GPU")
    session = hub.session("ada")
    assert session is not None
    assert session.gpus == 1
    environment = hub.server_process("ada").environ()
    told = {name: environment[name] for name in ("CPU_LIMIT", "MEM_LIMIT", "JUPYTERHUB_DEFAULT_URL")}
    assert told == {"CPU_LIMIT": "4.0", "MEM_LIMIT": str(16 * 2**30), "JUPYTERHUB_DEFAULT_URL": "/lab"}
    hub.stop_server("ada")


@pytest.mark.needs("node")
def test_a_server_whose_user_names_no_profile_has_the_first(hub: Hub) -> None:
    hub.add("quick")
    hub.spawn("quick")
    assert hub.session("quick") is None
    assert hub.server_process("quick").environ()["MEM_LIMIT"] == str(4 * 2**30)
    hub.stop_server("quick")


@pytest.mark.needs("node")
def test_a_profile_of_a_group_exists_only_for_its_members(hub: Hub) -> None:
    hub.add("outsider")
    hub.scheduler.set_group_quota("research", 2)
    page = hub.login("outsider").get("/hub/spawn").text
    assert "Two GPUs" not in page
    with pytest.raises(AssertionError, match=r"choose one of: Small, One GPU, RStudio\.$"):
        hub.spawn("outsider", profile="Two GPUs & more")
    page = hub.login("rosa").get("/hub/spawn").text
    assert "fits: 0 of 2 in use" in row(page, "Two GPUs &amp; more")
    hub.spawn("rosa", profile="Two GPUs & more")
    session = hub.session("rosa")
    assert session is not None
    assert session.gpus == 2
    hub.stop_server("rosa")


@pytest.mark.needs("node")
@pytest.mark.parametrize("options", [{"gpus": 1}, {"profile": ["One GPU"]}, {"profile": None}])
def test_nothing_but_a_profile_is_accepted(hub: Hub, options: dict[str, Any]) -> None:
    hub.api.post("/users/odd")
    with pytest.raises(AssertionError, match="choose one"):
        hub.spawn("odd", **options)
    assert hub.server("odd") is None


@pytest.mark.needs("node")
def test_an_ide_that_is_not_installed_cannot_be_chosen(hub: Hub) -> None:
    hub.api.post("/users/odd")
    label = row(hub.login("odd").get("/hub/spawn").text, "RStudio")
    assert "RStudio is not installed here" in label
    assert "disabled" in label
    with pytest.raises(AssertionError, match="RStudio is not installed here; choose another profile"):
        hub.spawn("odd", profile="RStudio")


@pytest.mark.needs("node")
def test_the_page_names_only_the_users_own_servers_that_hold_gpus(hub: Hub) -> None:
    for user in ("bea", "cleo"):
        hub.add(user)
        hub.api.post(f"/users/{user}/servers/of-{user}", json={"profile": "One GPU"}).raise_for_status()
    eventually("both hold a GPU", lambda: hub.session("bea") and hub.session("cleo"))
    page = hub.login("bea").get("/hub/spawn").text
    assert "Your servers hold 1 of your fixed quota of 1" in page
    assert 'data-stops="users/bea/servers/of-bea"' in page
    assert "cleo" not in page
    assert "disabled" in row(page, "One GPU")
    for user in ("bea", "cleo"):
        hub.api.delete(f"/users/{user}/servers/of-{user}").raise_for_status()
    eventually("both are given back", lambda: not hub.session("bea") and not hub.session("cleo"))


@pytest.mark.needs("node")
def test_another_users_server_is_not_stopped(hub: Hub) -> None:
    for user in ("dan", "eve"):
        hub.add(user)
    hub.spawn("dan")
    browser = hub.login("eve")
    browser.get("/hub/spawn")
    answer = browser.delete("/hub/api/users/dan/server", headers={"X-XSRFToken": browser.cookies.get("_xsrf") or ""})
    assert answer.status_code == 404
    assert hub.server("dan") is not None
    hub.stop_server("dan")
