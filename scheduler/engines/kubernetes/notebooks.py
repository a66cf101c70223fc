"""The images and volumes of users' notebook servers, read from their pods, so that jobs can use the same.

What must hold: a job gets nothing from another user's server, and no volume that its pod cannot mount: one of another
namespace, or one that only one node at a time can mount.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from scheduler.engines.backend import Notebooks
from scheduler.engines.kubernetes.api import Api, ApiError
from scheduler.engines.kubernetes.podviews import Object
from scheduler.engines.kubernetes.settings import Kubernetes
from scheduler.errors import Invalid, Unavailable
from scheduler.model import Container, UserName

USER = "hub.jupyter.org/username"
"""KubeSpawner's annotation with the user of a server's pod."""

ANYWHERE = frozenset({"azureFile", "cephfs", "csi", "emptyDir", "glusterfs", "hostPath", "image", "nfs"})
"""Kinds of volumes that a pod in another namespace and on another node can mount as well."""

IN_THE_NAMESPACE = frozenset({"configMap", "persistentVolumeClaim", "secret"})
"""Kinds that only a pod in the same namespace can mount."""

SHARED = frozenset({"ReadWriteMany", "ReadOnlyMany"})
"""Access modes of a claim whose volume several nodes can mount."""


class ClusterNotebooks(Notebooks):
    """The notebook servers that a hub creates in the namespace for notebooks."""

    def __init__(self, api: Api, settings: Kubernetes) -> None:
        self._api = api
        self._settings = settings

    async def container(self, user: UserName, server: str) -> Container:
        namespace = self._settings.notebooks_namespace
        try:
            # The scheduler may list the pods of all namespaces; to get one would need another permission.
            path = f"/api/v1/namespaces/{namespace}/pods"
            found = (await self._api.get(path, fieldSelector=f"metadata.name={server}"))["items"]
            if not found or (found[0]["metadata"].get("annotations") or {}).get(USER) != user:
                raise Invalid(
                    f"RUNAI_NOTEBOOK names {server}, which is no running notebook server of {user}'s; unset it.",
                    field="image",
                )
            claims = await self._shared_claims(found[0]) if self._shares_claims else frozenset()
        except ApiError as error:
            raise Unavailable(f"What your notebook server is made of cannot be read now: {error}") from error
        allowed = ANYWHERE | IN_THE_NAMESPACE if self._shares_claims else ANYWHERE
        return container_of(found[0], allowed, claims, volumes=self._settings.notebook_volumes)

    @property
    def _shares_claims(self) -> bool:
        return self._settings.namespace == self._settings.notebooks_namespace

    async def _shared_claims(self, pod: Object) -> frozenset[str]:
        """The claims of a pod whose volumes several nodes can mount."""
        names = [name for volume in pod["spec"].get("volumes") or () if (name := _claim(volume))]
        path = f"/api/v1/namespaces/{self._settings.namespace}/persistentvolumeclaims"
        claims = [await self._api.get(f"{path}/{name}") for name in names]
        return frozenset(
            claim["metadata"]["name"] for claim in claims if SHARED & {*claim["spec"].get("accessModes", ())}
        )


def container_of(pod: Object, allowed: Iterable[str], claims: Iterable[str], *, volumes: bool) -> Container:
    """The container of a job from a server's pod: its image and, with `volumes`, its volumes of the `allowed` kinds and
    of the named claims."""
    spec = pod["spec"]
    notebook = spec["containers"][0]
    found = {
        volume["name"]: volume
        for volume in (spec.get("volumes") or () if volumes else ())
        if volume.keys() & {*allowed} and _claim(volume) in (None, *claims)
    }
    mounts = tuple(mount for mount in notebook.get("volumeMounts") or () if mount["name"] in found)
    mounted = {mount["name"] for mount in mounts}
    return Container(notebook["image"], tuple(found[name] for name in found if name in mounted), mounts)


def _claim(volume: Mapping[str, Any]) -> str | None:
    """The claim of a volume, if it has one."""
    claim: str | None = (volume.get("persistentVolumeClaim") or {}).get("claimName")
    return claim
