"""`runai-kube`: notebook servers as pods of a Kubernetes cluster, placed by the same scheduler as jobs.

What must hold: a server's pod names its session, asks for the session's GPUs and no others, and is left to the
scheduler, which binds it to the session's node. A server without GPUs is a pod like any other: the cluster's scheduler
places it.
"""

from __future__ import annotations

from typing import Any

from traitlets import Unicode, default

from hub_spawner.lease import Lease, LeaseSpawner, refusal, start_form
from scheduler.errors import Invalid

try:
    from kubespawner import KubeSpawner
except ImportError as error:
    raise ImportError(
        "The spawner runai-kube needs an extra; install it with: pip install 'jupyter-runai[kubernetes]'."
    ) from error


class KubeLeaseSpawner(LeaseSpawner, KubeSpawner):
    """Leases for servers that are pods. A profile may say how many GPUs, or which part of one:
    `"kubespawner_override": {"gpus": 2}`."""

    gpu_resource = Unicode(
        "nvidia.com/gpu",
        help="The resource that the cluster's nodes offer GPUs as. A limit of it in `extra_resource_limits` says how "
        "many GPUs to lease.",
    ).tag(config=True)

    # -- what the user asks for --------------------------------------------------------------------------

    @default("options_form")
    def _default_options_form(self) -> Any:
        return self._options_form_default() if self.profile_list and not self.profiles else start_form

    @default("options_from_form")
    def _default_options_from_form(self) -> Any:
        if self.profiles:
            return super()._default_options_from_form()

        def options(form: dict[str, list[str]]) -> dict[str, Any]:
            gpus = {"gpus": form["gpus"][0]} if form.get("gpus") else {}
            return {**self._options_from_form({k: v for k, v in form.items() if k != "gpus"}), **gpus}

        return options

    async def load_user_options(self) -> None:
        """Apply a choice among KubeSpawner's own profiles; `profiles` replaces these."""
        if not self.profiles:
            await super().load_user_options()

    def get_env(self) -> dict[str, str]:
        """The environment, with the name by which the scheduler finds the image and volumes for jobs of this server."""
        return {**super().get_env(), "RUNAI_NOTEBOOK": self.pod_name}

    # -- the lease and its pod --------------------------------------------------------------

    async def _open(self) -> Lease | None:
        try:
            await self.load_user_options()  # a profile may say how many GPUs
        except ValueError as error:
            raise refusal(Invalid(f"{error}")) from error
        if self.gpus is None and self.gpu_resource in self.extra_resource_limits:
            self._apply_gpus({"gpus": self.extra_resource_limits[self.gpu_resource]})
        return await super()._open()

    async def get_pod_manifest(self) -> Any:
        lease = self.lease
        pod = await super().get_pod_manifest()
        resources = pod.spec.containers[0].resources
        for amounts in (resources.limits, resources.requests):
            amounts.pop(self.gpu_resource, None)
        if lease is None:
            return pod
        if lease.pod is None or lease.pod.namespace != self.namespace:
            there = f"places those in {lease.pod.namespace}" if lease.pod else "places none"
            raise refusal(
                Invalid(
                    f"The hub creates notebook servers in the namespace {self.namespace}; the scheduler {there}. Set "
                    "c.Kubernetes.notebooks_namespace."
                )
            )
        pod.metadata.labels.update(lease.pod.labels)
        resources.limits.update(lease.pod.limits)
        pod.spec.scheduler_name = lease.pod.scheduler
        pod.spec.tolerations = [*(pod.spec.tolerations or ()), *lease.pod.tolerations]
        return pod

    # -- start and stop ----------------------------------------------------------------------------

    _clearing = False

    async def _make_create_pod_request(self, pod: Any, request_timeout: float) -> bool:
        """Create the pod. A pod of this name that an earlier hub has left behind is stopped first, and the lease is
        kept."""
        self._clearing = True
        try:
            return bool(await super()._make_create_pod_request(pod, request_timeout))
        finally:
            self._clearing = False

    async def stop(self, now: bool = False) -> None:
        if self._clearing:
            await KubeSpawner.stop(self, now)
        else:
            await super().stop(now)
