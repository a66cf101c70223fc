"""The settings of this engine, in `jupyter_runai_config.py` as `c.Kubernetes.image` and so on."""

from __future__ import annotations

from typing import Any

from traitlets import Bool, Dict, Enum, Integer, List, Unicode, validate
from traitlets.config import Configurable
from traitlets.utils.bunch import Bunch

from scheduler.engines.kubernetes.nodeviews import TOPOLOGY
from scheduler.engines.kubernetes.podstates import CONTAINER
from scheduler.engines.kubernetes.template import check_template
from scheduler.errors import Invalid


class Kubernetes(Configurable):
    """Jobs run as pods of a Kubernetes cluster."""

    kubeconfig = Unicode(
        config=True,
        help="A kubeconfig file. Default: the cluster of the scheduler's own pod, else KUBECONFIG or ~/.kube/config.",
    )
    context = Unicode(config=True, help="The context of the kubeconfig file. Default: its current one.")
    namespace = Unicode("default", config=True, help="The namespace of the pods.")
    notebooks_namespace = Unicode(
        config=True,
        help="The namespace in which a hub with the spawner `runai-kube` creates its notebook servers, which the "
        "scheduler binds. Default: none; notebook servers are not placed.",
    )
    instance = Unicode(
        "default",
        config=True,
        help="Identifies the pods of this scheduler; each scheduler of a cluster needs its own.",
    )
    url = Unicode(
        config=True,
        help="The address at which pods reach the scheduler, with its path, e.g. `http://runai.runai.svc:8000/`.",
    )
    image = Unicode(
        config=True,
        help="The image of jobs that choose none and are not sent from a notebook server of this cluster. It needs "
        "python3 (3.8 or later) on its PATH.",
    )
    notebook_volumes = Bool(
        True,
        config=True,
        help="Whether jobs that are sent from a notebook server mount its volumes, where several nodes can.",
    )
    gpu_resource = Unicode("nvidia.com/gpu", config=True, help="The resource that a node offers its GPUs as.")
    gpu_parts = Dict(
        value_trait=Integer(min=2, max=31),
        key_trait=Unicode(),
        config=True,
        help="The resources that nodes offer parts of GPUs as, and into how many parts a GPU is divided, e.g. "
        '`{"nvidia.com/mig-1g.10gb": 7, "nvidia.com/gpu.shared": 4}`. Default: none; jobs use whole GPUs.',
    )
    gpu_memory_limits = Bool(
        False,
        config=True,
        help="Whether workers and notebook servers with part of a time-sliced GPU are limited to their part of its "
        "memory, by the variables NVIDIA_GPU_MEMORY_REQUEST and NVIDIA_GPU_MEMORY_LIMIT of the NVIDIA Container "
        "Toolkit. Set it only where the toolkit and the driver enforce them.",
    )
    topology_labels = Dict(
        dict(TOPOLOGY),
        config=True,
        help="The node label that names the domain, for each level of the pool's topology.",
    )
    tolerations = List(
        [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        config=True,
        help="Tolerations of the pods. Nodes with other taints are not used.",
    )
    pod_template = Dict(
        config=True,
        help="What pods have in addition to what the scheduler sets: a PodTemplateSpec (`metadata`, `spec`), merged as "
        "kubectl does. The container is called `worker`.",
    )
    checkpoint_volume = Dict(
        config=True,
        help="A volume on which jobs keep their checkpoints, each in a folder of its own, as in the `volumes` of a "
        'pod: `{"persistentVolumeClaim": {"claimName": "checkpoints"}}`. Several nodes have to be able to mount it. '
        "Default: none; checkpoints are uploaded to the scheduler, up to 64 GiB for each job.",
    )
    placement = Enum(
        ("runai", "kueue", "kai"),
        "runai",
        config=True,
        help="What decides when a job starts and on which nodes: this scheduler (`runai`), or one that the cluster "
        "already has: Kueue (`kueue`) or the KAI scheduler (`kai`).",
    )
    queues = Dict(
        value_trait=Unicode(),
        key_trait=Unicode(),
        config=True,
        help="With another `placement`: the queue of a project, where it does not have the project's name, e.g. "
        '`{"Team A": "team-a"}`: a LocalQueue of the pods\' namespace (Kueue), or a Queue (KAI).',
    )
    autoscaling_pods = Integer(
        0,
        min=0,
        config=True,
        help="The most pods that show cluster autoscalers which jobs lack nodes. Jobs that the present nodes are too "
        "small or too few for then wait instead of being refused. Default: 0, nothing is shown.",
    )
    upload_seconds = Integer(
        300,
        min=0,
        config=True,
        help="Seconds that a stopped worker has beyond its grace period to upload what it has written.",
    )
    start_seconds = Integer(
        3600,
        min=1,
        config=True,
        help="Seconds that a pod has to pull its image and start on its node. After that its job is queued "
        "again and avoids the node for a while.",
    )
    lease_seconds = Integer(
        3,
        min=2,
        max=60,
        config=True,
        help="Seconds after which a standby takes over from a leader that it has not heard from. A leader that cannot "
        "renew its Lease for two thirds of this time stops.",
    )
    node_agent = Unicode(
        config=True,
        help="The service account of the node agents (`namespace/name`), whose samples of GPUs are accepted. Default: "
        "none; the use of GPUs is not measured.",
    )

    webhook_certificate = Unicode(
        config=True,
        help="A folder with a `tls.crt` and `tls.key`. With it, the operator also answers the API server's admission "
        "reviews: what the scheduler would refuse is refused when a TrainJob or Project is applied. Default: none.",
    )
    webhook_port = Integer(8443, min=1, max=65535, config=True, help="The port of these admission reviews.")

    @property
    def images(self) -> bool:
        """Whether jobs can choose their image: the pod template does not."""
        containers = self.pod_template.get("spec", {}).get("containers", ())
        return not any("image" in container for container in containers if container["name"] == CONTAINER)

    @validate("pod_template")
    def _checked(self, proposal: Bunch) -> dict[str, Any]:
        template: dict[str, Any] = proposal.value
        check_template(template)
        return template

    def check(self) -> None:
        """Raises `Invalid` for a missing or invalid setting."""
        known = self.trait_names(config=True)
        for name in self.config.get("Kubernetes", {}):
            if name not in known:
                raise Invalid(f"There is no option Kubernetes.{name}; choose among: {', '.join(known)}.", field=name)
        if self.gpu_resource in self.gpu_parts:
            raise Invalid(
                f"c.Kubernetes.gpu_parts names {self.gpu_resource}, which whole GPUs are offered as. Have the device "
                "plugin rename what it shares (renameByDefault).",
                field="gpu_parts",
            )
        if self.autoscaling_pods and self.placement != "runai":
            raise Invalid(
                f"With the placement {self.placement!r}, waiting jobs have pods, which cluster autoscalers see; leave "
                "out c.Kubernetes.autoscaling_pods.",
                field="autoscaling_pods",
            )
        for name, why in (("image", "the image that jobs run in"), ("url", "the address at which pods reach it")):
            if not getattr(self, name):
                raise Invalid(f"The Kubernetes engine needs {why}: set c.Kubernetes.{name}.", field=name)
