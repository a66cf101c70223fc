"""The backend of a Kubernetes cluster: pods, what their agents upload, its nodes, and the lock on the state folder."""

from __future__ import annotations

from scheduler.engines.agents.agents import Agents
from scheduler.engines.backend import Backend, Setup
from scheduler.engines.base import Traits
from scheduler.engines.leadership import FolderLeadership
from scheduler.errors import Invalid


def kubernetes(setup: Setup) -> Backend:
    """The cluster that `c.Kubernetes` names. Raises `Invalid` where that, or the extra `kubernetes`, is missing."""
    try:
        import kubernetes_asyncio  # noqa: F401
    except ImportError:
        raise Invalid(
            "The Kubernetes engine needs an extra; install it with: pip install 'jupyter-runai[kubernetes]'.",
            field="engine",
        ) from None
    from scheduler.engines.kubernetes.api import Api
    from scheduler.engines.kubernetes.engine import KubernetesEngine
    from scheduler.engines.kubernetes.inventory import ClusterInventory
    from scheduler.engines.kubernetes.settings import Kubernetes

    settings = Kubernetes(config=setup.config)
    settings.check()
    api = Api(settings.kubeconfig, settings.context)
    inventory = ClusterInventory(api, settings)
    agents = Agents(setup.folder)
    return Backend(
        engine=KubernetesEngine(api, inventory, agents, settings),
        files=agents.files,
        inventory=inventory,
        leadership=FolderLeadership(setup.folder, setup.patience),
        agents=agents,
        traits=Traits(shares=False, picks_gpus=True, shared_folders=False),
    )
