"""The build side: spawners that lease a fixed quota of GPUs, and the one call that wires a hub.

In `jupyterhub_config.py`::

    import hub_spawner
    hub_spawner.configure(c)

It uses only `scheduler.client` and `scheduler.model`.
"""

from __future__ import annotations

from hub_spawner.lease import LeaseSpawner
from hub_spawner.spawners import LocalLeaseSpawner, SimpleLeaseSpawner, leasing
from hub_spawner.wiring import configure

__all__ = ["LeaseSpawner", "LocalLeaseSpawner", "SimpleLeaseSpawner", "configure", "leasing"]
