"""The client of the scheduler's API: `Client` is synchronous, `AsyncClient` asynchronous; both have the same methods.

    with Client.from_environment() as client:
        job = client.submit(JobSubmit(command=["python", "train.py"], gpus=1))
        client.wait(job.id)

Both return the types of `scheduler.schema` and raise the errors of `scheduler.errors`: `Unavailable` where the
scheduler does not answer, and the errors of the API, with their sentence and the field at fault.
"""

from __future__ import annotations

from scheduler.client.aio import AsyncClient
from scheduler.client.finding import Address, find
from scheduler.client.sync import Client

__all__ = ["Address", "AsyncClient", "Client", "find"]
