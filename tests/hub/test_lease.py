"""A notebook server holds a lease exactly while it runs."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from scheduler.client import Client
from scheduler.errors import Forbidden
from scheduler.model import SessionState
from scheduler.schema import PoolFile, SessionOpen
from tests.hub.running import Hub, eventually

pytestmark = pytest.mark.needs("node")


def test_a_server_holds_a_lease_until_it_stops(hub: Hub) -> None:
    hub.add("ada")
    hub.spawn("ada")
    session = hub.session("ada")
    assert session is not None
    assert (session.state, session.gpus) == (SessionState.LEASED, 1)
    environment = hub.server_process("ada").environ()
    assert environment["CUDA_VISIBLE_DEVICES"] == session.env["CUDA_VISIBLE_DEVICES"] != ""
    assert environment["RUNAI_GPUS"] == session.env["RUNAI_GPUS"] != ""
    assert (hub.folder / "users" / "ada" / "First steps.ipynb").exists()
    eventually("it has told that nobody uses it", lambda: (found := hub.session("ada")) and found.idle_since)

    hub.stop_server("ada")
    assert hub.session("ada") is None


def test_a_server_may_have_no_gpu_or_a_part_of_one(hub: Hub) -> None:
    for user in ("cpu", "half"):
        hub.add(user)
    hub.spawn("cpu", gpus=0)
    assert hub.session("cpu") is None
    environment = hub.server_process("cpu").environ()
    assert (environment["CUDA_VISIBLE_DEVICES"], environment["RUNAI_GPUS"]) == ("", "")
    hub.spawn("half")
    session = hub.session("half")
    assert session is not None
    assert session.gpus == 0.5
    for user in ("cpu", "half"):
        hub.stop_server(user)


@pytest.mark.parametrize(
    ("user", "gpus", "sentence"),
    [
        pytest.param("greedy", 2, "quota", id="more than the fixed quota"),
        pytest.param("nobody", 1, "quota", id="no quota at all"),
        pytest.param("odd", "many", "Ask for a number of GPUs", id="no number"),
        pytest.param("odd", -1, "Ask for a number of GPUs", id="less than none"),
        pytest.param("odd", {"a": []}, "Ask for a number of GPUs", id="something else"),
    ],
)
def test_an_impossible_choice_is_refused_with_a_sentence(hub: Hub, user: str, gpus: object, sentence: str) -> None:
    hub.api.post(f"/users/{user}")
    with pytest.raises(AssertionError, match=sentence):
        hub.spawn(user, gpus=gpus)
    assert hub.server(user) is None
    assert hub.session(user) is None


def test_a_server_that_cannot_start_gives_its_lease_back(hub: Hub) -> None:
    hub.add("unlucky")
    home = hub.folder / "users" / "unlucky"
    home.parent.mkdir(exist_ok=True)
    home.write_text("a file where the folder should be")
    with pytest.raises(AssertionError):
        hub.spawn("unlucky")
    eventually("the lease is given back", lambda: hub.session("unlucky") is None)


def test_a_server_that_dies_gives_its_lease_back(hub: Hub) -> None:
    hub.add("ill")
    hub.spawn("ill")
    hub.server_process("ill").kill()
    eventually("the lease is given back", lambda: hub.session("ill") is None)


def test_an_administrator_sees_who_there_is_and_stops_the_server_of_another(hub: Hub) -> None:
    hub.add("left")
    hub.spawn("left")
    session = hub.session("left")
    assert session is not None
    with hub.scheduler_of("boss") as client:
        found = client.users(find="left")
        assert found.hub_problem is None
        (user,) = found.users
        assert (user.name, user.build_gpus, user.last_activity is not None) == ("left", 1, True)
        client.stop_session(session.id)
        eventually("the server has ended", lambda: hub.server("left") is None and hub.session("left") is None)
        (entry,) = client.audit(kind="session", limit=1).entries
        assert (entry.user, entry.name, entry.before) == ("boss", session.id, {"owner": "left", "name": ""})


def test_a_server_gets_what_the_build_quota_of_a_group_allows(hub: Hub) -> None:
    hub.add("pupil")
    hub.api.post("/groups/class").raise_for_status()
    hub.api.post("/groups/class/users", json={"users": ["pupil"]}).raise_for_status()
    hub.scheduler.set_group_quota("class", 2)
    form = hub.login("pupil").get("/hub/spawn").text
    assert 'name="gpus" value="2"' in form
    hub.spawn("pupil", gpus=2)
    session = hub.session("pupil")
    assert session is not None
    assert session.gpus == 2
    hub.stop_server("pupil")
    hub.scheduler.set_group_quota("class", None)
    with pytest.raises(AssertionError, match="quota"):
        hub.spawn("pupil", gpus=2)


def test_what_a_users_server_may_do(hub: Hub) -> None:
    hub.add("user")
    hub.spawn("user", gpus=0)
    environment = hub.server_process("user").environ()
    assert environment["RUNAI_URL"].startswith("http://127.0.0.1:")
    with Client(environment["RUNAI_URL"], environment["JUPYTERHUB_API_TOKEN"]) as client:
        me = client.me()
        assert (me.name, me.admin, set(me.scopes)) == ("user", False, {"read", "submit"})
        with pytest.raises(Forbidden):
            client.apply(PoolFile(), preview=True)
        with pytest.raises(Forbidden):
            client.open_session(SessionOpen(user="ada", gpus=1))
    hub.stop_server("user")


def test_an_administrators_server_does_not_administer_but_their_browser_does(hub: Hub) -> None:
    hub.spawn("boss", gpus=0)
    environment = hub.server_process("boss").environ()
    with Client(environment["RUNAI_URL"], environment["JUPYTERHUB_API_TOKEN"]) as client:
        assert not client.me().admin
        with pytest.raises(Forbidden, match="request a token at /hub/token and set RUNAI_TOKEN to it"):
            client.pool_file()
    with hub.scheduler_of("boss") as client:
        assert client.apply(client.pool_file(), preview=True).changes == []
    hub.stop_server("boss")
    for user, admin in (("boss", True), ("user", False)):
        browser = hub.login(user)
        browser.get("/services/runai/").raise_for_status()
        me = browser.get("/services/runai/api/v1/me").raise_for_status().json()
        assert (me["name"], me["admin"]) == (user, admin)


def test_the_pool_is_linked_from_the_navigation_bar(hub: Hub) -> None:
    browser = hub.login("ada")
    home = browser.get("/hub/home").text
    assert '<a class="nav-link" id="gpu-pool" href="/services/runai/">GPU pool</a>' in home
    assert home.count("/services/runai/") == 1
    assert browser.get("/services/runai/").status_code == httpx.codes.OK


def test_the_form_sets_the_number_of_gpus(hub: Hub) -> None:
    browser = hub.login("form")
    page = browser.get("/hub/spawn/form")
    assert "Start your notebook" in page.text
    xsrf = browser.cookies.get("_xsrf", path="/hub/")
    browser.post("/hub/spawn/form", data={"gpus": "0.5", "_xsrf": xsrf}).raise_for_status()
    eventually("the server is ready", lambda: (hub.server("form") or {}).get("ready"))
    session = hub.session("form")
    assert session is not None
    assert session.gpus == 0.5
    hub.stop_server("form")


def test_a_hub_that_is_killed_finds_its_leases_again(make_hub: Callable[[], Hub]) -> None:
    hub = make_hub()
    for user in ("stays", "dies"):
        hub.add(user)
        hub.spawn(user)
    kept = hub.session("stays")
    stays, dies = (hub.server_process(user) for user in ("stays", "dies"))
    # a lease whose server the hub was just starting
    hub.scheduler.open_session(SessionOpen(user="stays", server="never-was", gpus=0))

    hub.kill()
    dies.kill()
    hub.start()

    eventually("only the server that runs has a lease", lambda: hub.scheduler.sessions() == [kept])
    assert hub.server_process("stays").pid == stays.pid
    with Client(stays.environ()["RUNAI_URL"], stays.environ()["JUPYTERHUB_API_TOKEN"]) as client:
        assert client.me().name == "stays"
    hub.stop_server("stays")
    assert hub.scheduler.sessions() == []


def test_a_hub_that_ends_stops_its_servers_and_their_leases_end(make_hub: Callable[[], Hub]) -> None:
    hub = make_hub()
    hub.add("ada")
    hub.spawn("ada")
    server = hub.server_process("ada")
    assert hub.stop() == 0
    assert not server.is_running()
    hub.start()
    hub.add("bob")
    hub.add("eve")
    for user in ("bob", "eve"):  # both build GPUs can be had
        hub.spawn(user)
    assert {session.user for session in hub.scheduler.sessions()} == {"bob", "eve"}
