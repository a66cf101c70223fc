"""The backend of a Kubernetes cluster: pods, the files that their agents upload, nodes, and leader election."""

from __future__ import annotations

from scheduler.engines.agents.agents import Agents
from scheduler.engines.backend import Backend, Setup
from scheduler.engines.base import Traits
from scheduler.engines.kubernetes.names import lease_name
from scheduler.engines.leadership import FolderLeadership, Leadership
from scheduler.errors import Invalid


def kubernetes(setup: Setup) -> Backend:
    """The backend that `c.Kubernetes` configures. Raises `Invalid` if that, or the extra `kubernetes`, is missing."""
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
    from scheduler.engines.kubernetes.lease import Elector, LeaseLeadership, own_namespace
    from scheduler.engines.kubernetes.nodeagents import ClusterNodeAgents
    from scheduler.engines.kubernetes.notebooks import ClusterNotebooks
    from scheduler.engines.kubernetes.settings import Kubernetes
    from scheduler.telemetry import ReportedGpus

    settings = Kubernetes(config=setup.config)
    settings.check()
    api = Api(settings.kubeconfig, settings.context)
    reported = ReportedGpus(setup.folder.path / "telemetry", setup.folder.path / "gpu-nodes.json")
    inventory = ClusterInventory(api, settings, reported)
    agents = Agents(setup.folder)
    node_agents = ClusterNodeAgents(api, inventory, reported, agents.files, settings) if settings.node_agent else None
    leadership: Leadership = FolderLeadership(setup.folder, setup.patience)
    if setup.standby:
        # A client of its own: renewals do not queue behind the engine's calls.
        calls = Api(settings.kubeconfig, settings.context)
        elsewhere = bool(settings.kubeconfig or settings.context)
        namespace = settings.namespace if elsewhere else own_namespace(settings.namespace)
        elector = Elector(calls, namespace, lease_name(settings.instance), settings.lease_seconds)
        leadership = LeaseLeadership(elector, setup.folder)
    engine = KubernetesEngine(api, inventory, agents, settings)
    return Backend(
        engine=engine,
        files=agents.files,
        inventory=inventory,
        leadership=leadership,
        agents=agents,
        node_agents=node_agents,
        delegation=engine.delegation,
        autoscaling=engine.placeholders if settings.autoscaling_pods else None,
        notebooks=ClusterNotebooks(api, settings) if settings.notebooks_namespace else None,
        traits=Traits(
            shares=bool(settings.gpu_parts) and engine.delegation is None,
            picks_gpus=True,
            images=settings.images,
            shared_folders=False,
            autoscaled=settings.autoscaling_pods > 0,
        ),
        url=settings.url,
    )
