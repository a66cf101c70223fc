"""What the benchmarks in a browser have in common: jobs that wait, and the frames while a page scrolls."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from playwright.sync_api import Locator

from scheduler.model import Job, JobId, JobKind, Program, ProjectName, Request, Shape, UserName

SCROLLED = """
async inside => {
  const box = (function scrolls(node) {
    return !node ? document.scrollingElement
      : node.scrollHeight > node.clientHeight + 50 && getComputedStyle(node).overflowY !== 'visible'
      ? node : scrolls(node.parentElement);
  })(inside);
  const frame = () => new Promise(requestAnimationFrame);
  const frames = [];
  let before = await frame();
  for (let n = 0; n < 300; n++) {
    box.scrollTop = (box.scrollHeight - box.clientHeight) * Math.abs(Math.sin(n / 30));
    const now = await frame();
    frames.push(now - before);
    before = now;
  }
  return frames;
}
"""


def crowd(waiting: int, user: str, project: str) -> Iterator[Job]:
    """Jobs that wait for two GPUs each."""
    now = time.time()
    for n in range(waiting):
        request = Request(ProjectName(project), UserName(user), shape=Shape(2000))
        program = Program(JobKind.COMMAND, ("python", "train.py"))
        yield Job(JobId(f"j-{n:012}"), f"train-{n}", request, program, submitted=now - waiting + n)


def frames(inside: Locator) -> list[float]:
    """The milliseconds that each frame takes while what has this element inside scrolls down and up."""
    return [float(each) for each in inside.evaluate(SCROLLED)]


def tell_frames(pool: str, what: str, found: list[float]) -> None:
    tell(f"{pool}: the longest frame while {what}", max(found), "ms")
    tell(f"{pool}: frames over 50 ms, of a thousand", 1000 * sum(frame > 50 for frame in found) / len(found), "")


def tell(figure: str, value: float, unit: str) -> None:
    print(json.dumps({"figure": figure, "value": value, "unit": unit}), flush=True)
