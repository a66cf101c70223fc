"""A server for which no GPU is free waits in line, says its place, and starts when its turn has come."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hub.running import Hub, eventually

pytestmark = pytest.mark.needs("node")


def begins(hub: Hub, user: str) -> None:
    """Ask for a server, whose start waits."""
    answer = hub.api.post(f"/users/{user}/server", json={})
    assert answer.status_code == 202, answer.text
    eventually(f"{user} is in line", lambda: user in in_line(hub))


def in_line(hub: Hub) -> list[str]:
    return [session.user for session in hub.scheduler.session_list().line]


def progress(hub: Hub, user: str) -> str:
    """The first message of a start that says a place in line."""
    with hub.api.stream("GET", f"/users/{user}/server/progress") as answer:
        for line in answer.iter_lines():
            if line.startswith("data:") and "in line" in line:
                return str(json.loads(line.removeprefix("data:"))["message"])
    raise AssertionError(f"The start of {user} does not say its place.")


def test_servers_wait_for_their_turn_and_may_give_up(make_hub: Callable[[], Hub]) -> None:
    hub = make_hub()
    for user in ("ada", "bob"):
        hub.add(user)
        hub.spawn(user)
    for user in ("cy", "dan", "eve"):
        hub.add(user)
        begins(hub, user)
    assert in_line(hub) == ["cy", "dan", "eve"]
    assert progress(hub, "cy").startswith("Next in line for 1 GPU.")
    assert progress(hub, "eve").startswith("Number 3 in line for 1 GPU.")

    with hub.scheduler_of("dan") as dan:
        (waiting,) = dan.session_list().line
        dan.stop_session(waiting.id)
    eventually("dan has no server", lambda: hub.server("dan") is None)
    assert in_line(hub) == ["cy", "eve"]
    hub.stop_server("eve")  # the button on the page of the start
    eventually("eve has left", lambda: in_line(hub) == ["cy"])
    begins(hub, "eve")

    hub.stop_server("ada")
    eventually("cy's server is ready", lambda: hub.server("cy")["ready"])  # type: ignore[index]
    assert {session.user for session in hub.scheduler.sessions()} == {"bob", "cy"}
    assert in_line(hub) == ["eve"]


@pytest.mark.parametrize(
    ("longest_wait", "state", "note", "refusal"),
    [
        pytest.param(0, "disabled", "none of 2 build GPUs free now", "None are free", id="starts do not wait"),
        pytest.param(1, "", "waits in line: none of 2 build GPUs free now", "did not come within 1 s", id="in vain"),
    ],
)
def test_a_user_is_told_that_no_gpu_is_left(
    tmp_path: Path, longest_wait: float, state: str, note: str, refusal: str
) -> None:
    hub = Hub(tmp_path, more=f"c.LeaseSpawner.longest_wait = {longest_wait}")
    try:
        hub.start()
        for user in ("first", "second", "late"):
            hub.add(user)
        for user in ("first", "second"):
            hub.spawn(user)
        form = hub.login("late").get("/hub/spawn").text
        assert f'value="1" {state} required' in form
        assert 'value="0" checked' in form
        assert note in form
        with pytest.raises(AssertionError, match=refusal):
            hub.spawn("late", gpus=1)
        assert in_line(hub) == []
    finally:
        hub.clean()
