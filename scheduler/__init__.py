"""Decides what runs where and when, and sees that it does.

The rooms, from the inside out: `model` (types), `schema` (types on the wire and in files), `policy` (a snapshot in, a
plan out), `pool` (the pool file and rules), `submission` (options and job files), `files`, `store` (durable state),
`engines` (where workloads run), `telemetry` (GPUs), `controller` (the loop), `api` (HTTP), `operator` (custom
resources), `service` (the process), `discovery`, `client` and `cli`, and beside them `worker`, `simulation` and
`scenario`. Which room imports which is in `docs/explanation/architecture.md`.
"""

__version__ = "0.1.0"
