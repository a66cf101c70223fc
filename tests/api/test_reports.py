"""A job's reports are streamed to its owner line by line."""

from __future__ import annotations

from typing import Any

from scheduler.model import JobState

REPORT = """
cd "$RUNAI_OUTPUT_DIR"
printf '%s\\n' '{"time": 1, "step": 1, "loss": 0.5}' '{"time": 2, "step": 2, "loss": NaN}' >> metrics.jsonl
printf '%s\\n' 'no report' '[1]' '{"time": 3, "nested": {"a": 1}}' '{"time": 4' >> metrics.jsonl
printf '%s' '{"time": 5, "half":' >> "$RUNAI_OUTPUT_DIR/metrics.jsonl"
"""


async def test_reports_continue_from_the_readers_offset(service: Any) -> None:
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
    assert rest == {"points": [], "next": page["next"]}  # the unfinished line is not sent yet


async def test_the_last_reports_of_many_jobs_come_with_one_request(service: Any) -> None:
    job, quiet = await service.submit(command=["sh", "-c", REPORT]), await service.submit(command=["true"])
    await service.until(job["id"], JobState.SUCCEEDED)
    asked = {"job": [quiet["id"], job["id"], "j-unknown"]}
    owner = (await service.http["owner"].get("reports", params=asked)).json()
    assert owner == {"reports": [{"job": job["id"], "point": {"time": 3, "step": 2, "loss": 0.5}}]}
    for other in ("mate", "admin"):
        assert (await service.http[other].get("reports", params=asked)).json() == {"reports": []}
    refused = await service.http["owner"].get("reports", params={"job": ["j"] * 101})
    assert refused.status_code == 422


async def test_a_job_that_reports_nothing_has_an_empty_page(service: Any) -> None:
    job = await service.submit(command=["true"])
    answer = await service.http["owner"].get(f"jobs/{job['id']}/metrics")
    assert answer.json() == {"points": [], "next": 0}
