"""Decides what runs where and when, and sees that it does.

The rooms, from the inside out: `model` (the nouns), `policy` (a snapshot in, a plan out), `store` (durable
state), `engines` (where workloads run), `telemetry` (what GPUs there are), `controller` (the loop that joins
them), `api` (what it offers over HTTP), `client` and `cli` (what uses that).
"""

__version__ = "0.1.0"
