"""What others use of the pool's nodes."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from scheduler.model.amounts import ONE, MiB, Milli


@dataclass(frozen=True, slots=True)
class ForeignUse:
    """What others use on a node: everything that is neither a session nor a job of this pool.

    `gpus` is the share of each GPU whose number is known. `unnumbered` is what others use of the other GPUs, where the
    engine assigns GPUs itself and reports only how many are in use: whole GPUs, and part of one more.
    """

    gpus: tuple[tuple[int, Milli], ...] = ()
    unnumbered: Milli = 0
    cpus: Milli = 0
    memory: MiB = 0

    @property
    def amount(self) -> Milli:
        """The total of the GPUs that others use."""
        return self.unnumbered + sum([share for _, share in self.gpus])

    def by_gpu(self, gpus: int, held: Container[int]) -> dict[int, Milli]:
        """The share of each GPU that others use, of `gpus` of which workloads of the pool hold some.

        Of GPUs whose numbers are not known, those with the highest numbers that no workload holds. Where `held` says
        how much of a GPU workloads hold, what others use fills the rest of it.
        """
        found = {gpu: share for gpu, share in self.gpus if gpu < gpus}
        left = self.unnumbered
        if left > 0:
            others = sorted(set(range(gpus)) - found.keys(), key=lambda gpu: (gpu in held, -gpu))
            rooms = held if isinstance(held, Mapping) else {}
            for gpu in others:
                if left <= 0:
                    break
                used = min(ONE - rooms.get(gpu, 0), left)
                if used > 0:
                    found[gpu] = used
                    left -= used
        return found
