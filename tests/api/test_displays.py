"""A job's displays reach its owner in order with its output, live and across attempts."""

from __future__ import annotations

import json
from typing import Any

from scheduler.model import JobState

CELL = """
import json, os, sys, time
from pathlib import Path
from jupyter_ext.displays import Displays
displays = Displays.of_this_worker()
print("before")
displays.show({"output_type": "display_data", "data": {"text/html": "<b>1</b>"}, "metadata": {}}, "<one>\\n")
os.write(1, b"from below\\n")
while not (Path(os.environ["RUNAI_OUTPUT_DIR"]) / "go").exists(): time.sleep(0.01)
displays.show({"output_type": "display_data", "data": {"text/html": "<b>2</b>"}, "metadata": {}}, "<two>\\n")
print("after")
"""


def shown(lines: list[dict[str, Any]]) -> list[str]:
    told: list[str] = []
    for line in lines:
        output = line["output"]
        told.append(output["text"] if output["output_type"] == "stream" else output["data"]["text/html"])
    return told


async def test_displays_are_streamed_in_order(service: Any) -> None:
    job = await service.submit(command=["python", "-c", CELL])
    owner = service.http["owner"]
    lines: list[dict[str, Any]] = []
    async with owner.stream("GET", f"jobs/{job['id']}/display", params={"follow": "true"}) as answer:
        assert answer.headers["Content-Type"] == "application/x-ndjson"
        async for line in answer.aiter_lines():
            lines.append(json.loads(line))
            if "from below" in "".join(shown(lines)):
                (service.state_dir / "jobs" / job["id"] / "output" / "go").touch()
    told = shown(lines)
    assert "".join(told) == "before\n<b>1</b>from below\n<b>2</b>after\n"

    # A reader who comes later or returns continues at the same position; the log reads as in a terminal.
    at = lines[told.index("<b>1</b>")]
    query = {name: at[name] for name in ("attempt", "log", "display")}
    page = await owner.get(f"jobs/{job['id']}/display", params=query)
    assert "".join(shown([json.loads(line) for line in page.text.splitlines()])) == "from below\n<b>2</b>after\n"
    log = (await owner.get(f"jobs/{job['id']}/logs")).text
    assert log == "before\n<one>\nfrom below\n<two>\nafter\n"


async def test_a_job_without_displays_shows_its_text(service: Any) -> None:
    job = await service.submit(command=["sh", "-c", "printf 'a\\nb'"])
    await service.until(job["id"], JobState.SUCCEEDED)
    page = await service.http["owner"].get(f"jobs/{job['id']}/display")
    assert shown([json.loads(line) for line in page.text.splitlines()]) == ["a\nb"]


async def test_a_page_of_a_long_output_is_bounded(service: Any) -> None:
    job = await service.submit(command=["sh", "-c", "yes | head -c 3000000"])
    await service.until(job["id"], JobState.SUCCEEDED)
    query: dict[str, int] = {}
    size = pages = 0
    while text := (await service.http["owner"].get(f"jobs/{job['id']}/display", params=query)).text:
        lines = [json.loads(line) for line in text.splitlines()]
        query = {name: lines[-1][name] for name in ("attempt", "log", "display")}
        size += sum(len(line["output"]["text"]) for line in lines)
        pages += 1
    assert (size, pages) == (3_000_000, 3)
