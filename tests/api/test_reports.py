"""What a job reports of itself is told to its owner, line by line, as it comes."""

from __future__ import annotations

from typing import Any

from scheduler.model import JobState

REPORT = """
cd "$RUNAI_OUTPUT_DIR"
printf '%s\\n' '{"time": 1, "step": 1, "loss": 0.5}' '{"time": 2, "step": 2, "loss": NaN}' >> metrics.jsonl
printf '%s\\n' 'no report' '[1]' '{"time": 3, "nested": {"a": 1}}' '{"time": 4' >> metrics.jsonl
printf '%s' '{"time": 5, "half":' >> "$RUNAI_OUTPUT_DIR/metrics.jsonl"
"""


async def test_reports_are_told_from_where_the_reader_was(service: Any) -> None:
    job = await service.submit(command=["sh", "-c", REPORT])
    owner = service.http["owner"]
    await service.until(job["id"], JobState.SUCCEEDED)
    page = (await owner.get(f"jobs/{job['id']}/metrics")).json()
    assert page["points"] == [
        {"time": 1, "step": 1, "loss": 0.5},
        {"time": 2, "step": 2, "loss": None},
        {"time": 3},
    ]
    rest = (await owner.get(f"jobs/{job['id']}/metrics", params={"offset": page["next"]})).json()
    assert rest == {"points": [], "next": page["next"]}  # the line that is being written is not told yet


async def test_a_job_that_reports_nothing_has_an_empty_page(service: Any) -> None:
    job = await service.submit(command=["true"])
    answer = await service.http["owner"].get(f"jobs/{job['id']}/metrics")
    assert answer.json() == {"points": [], "next": 0}
