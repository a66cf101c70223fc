"""A worker's agent: runs the worker on a machine without the scheduler's files, and uploads what the worker prints,
reports and writes.

It needs the standard library of Python 3.8 or later, on Linux. `engines/agents/archive.py` packs it into one file. An
engine starts that file in an empty folder, with the address of the scheduler in `RUNAI_AGENT_URL` and, in
`RUNAI_AGENT_TOKEN`, a token that is valid for this worker of this attempt only. `RUNAI_AGENT_END` may name a file to
which the worker's end is written as well, `RUNAI_AGENT_KEEPS` the folders that are on a volume and not uploaded.

Guarantees:
- A worker starts at most once: the scheduler accepts one agent (`state`: pulling) before anything is started.
- A gang begins together, when the files of all its workers are there and the names of its gang can be resolved.
- Everything that is uploaded may be sent twice. It stays on this disk until the scheduler has it, and the scheduler
  answers how much it has, so an outage or a restart of the scheduler delays it and loses nothing.
- The end is reported after everything else has been uploaded and every process of the worker is gone. The report is
  repeated until it is received.
- A token that is no longer valid ends the worker: for the scheduler, the attempt is over.
- The grace period is counted here and goes on while the scheduler is down.
"""
