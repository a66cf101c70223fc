"""The nodes as rooms, found by how much is free in them.

A room has two sides. *Later* is how it stands once the plan is carried out; *now* is what can be had at once: what is
free later and is not still held by somebody who leaves. Sets of rooms are the bits of one integer, so that "free, of
this type, in this rack, not tried in vain" is an `&` of four of them. Every step has an inverse, and the state depends
only on who stands where, never on the way it came about: that makes trials cheap and plans repeatable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler.model import ONE, Milli, Node, WorkerPlacement
from scheduler.policy.gpulinks import best_group, choose, gpus_of
from scheduler.policy.needs import UNBOUNDED, Need

Key = tuple[int, int]
"""How many whole GPUs a room has free, and how many of them in its best link group."""


class Room:
    """One node: what is taken in it (later) and what is held by those who leave (in the way now)."""

    __slots__ = (
        "bit", "cpus", "every", "gpu_links", "index", "keys", "leaving", "leaving_cpus", "leaving_memory",
        "leaving_shares", "memory", "name", "node", "shares", "taken",
    )  # fmt: skip

    def __init__(self, index: int, node: Node) -> None:
        self.index = index
        self.bit = 1 << index
        self.node = node
        self.name = node.name
        self.every = (1 << node.gpus) - 1
        self.gpu_links = tuple([sum(1 << gpu for gpu in group) for group in node.gpu_links])
        self.taken = 0
        self.leaving = 0
        self.shares: dict[int, Milli] = {}
        self.leaving_shares: dict[int, Milli] = {}
        self.cpus = UNBOUNDED if node.cpus is None else node.cpus
        self.memory = UNBOUNDED if node.memory is None else node.memory
        self.leaving_cpus = 0
        self.leaving_memory = 0
        key = (node.gpus, best_group(self.gpu_links, self.every))
        self.keys: list[Key] = [key, key]

    def free(self, later: bool) -> int:
        """The wholly free GPUs, as bits."""
        return self.every & ~(self.taken if later else self.taken | self.leaving)

    def share_free(self, gpu: int, later: bool) -> Milli:
        """How much of one GPU is free."""
        used = self.shares.get(gpu, ONE) if self.taken >> gpu & 1 else 0
        if not later and self.leaving >> gpu & 1:
            used += self.leaving_shares.get(gpu, ONE)
        return ONE - used

    def shared_gpu(self, share: Milli, later: bool) -> int | None:
        """The fullest GPU that is shared already and has room for `share`."""
        best = None
        for gpu in sorted(self.shares.keys() | self.leaving_shares.keys()):
            free = self.share_free(gpu, later)
            if share <= free < ONE and (best is None or free < best[0]):
                best = (free, gpu)
        return None if best is None else best[1]

    def takes_beside(self, need: Need, later: bool) -> bool:
        """Whether the CPUs and the memory for one more worker are there."""
        if later:
            return need.cpus <= self.cpus and need.memory <= self.memory
        return need.cpus <= self.cpus - self.leaving_cpus and need.memory <= self.memory - self.leaving_memory

    def takes_gpus(self, need: Need, later: bool) -> bool:
        """Whether the GPUs for one more worker are there."""
        if need.whole:
            return self.keys[later][0] >= need.whole
        if need.partial:
            share = need.share_on(self.node)
            return share <= ONE and (self.keys[later][0] > 0 or self.shared_gpu(share, later) is not None)
        return True

    def takes(self, need: Need, later: bool) -> bool:
        return self.takes_beside(need, later) and self.takes_gpus(need, later)

    def count(self, need: Need, later: bool, most: int) -> int:
        """How many workers fit, up to `most`."""
        if need.whole:
            most = min(most, self.keys[later][0] // need.whole)
        elif need.partial:
            share = need.share_on(self.node)
            if share > ONE:
                return 0
            free = self.free(later)
            fits = free.bit_count() * (ONE // share)
            for gpu in self.shares.keys() | self.leaving_shares.keys():
                if not free >> gpu & 1:
                    fits += max(0, self.share_free(gpu, later)) // share
            most = min(most, fits)
        cpus, memory = self.cpus, self.memory
        if not later:
            cpus, memory = cpus - self.leaving_cpus, memory - self.leaving_memory
        if need.cpus:
            most = min(most, cpus // need.cpus)
        if need.memory:
            most = min(most, memory // need.memory)
        return max(most, 0)

    def seat(self, need: Need, later: bool) -> WorkerPlacement:
        """The GPUs that a worker gets here; the room must take it."""
        if need.whole:
            return WorkerPlacement(self.name, gpus_of(choose(self.gpu_links, self.free(later), need.whole)))
        if need.partial:
            share = need.share_on(self.node)
            gpu = self.shared_gpu(share, later)
            if gpu is None:
                gpu = choose(self.gpu_links, self.free(later), 1).bit_length() - 1
            return WorkerPlacement(self.name, (gpu,), share)
        return WorkerPlacement(self.name)


class Rooms:
    """All nodes, indexed by what is free in them: `buckets[later][key]` is the set of rooms with that key.

    `models` has the sets of rooms that are alike when they are empty, each with its first room.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.all = [Room(index, node) for index, node in enumerate(nodes)]
        self.by_name = {room.name: room for room in self.all}
        self.buckets: tuple[dict[Key, int], dict[Key, int]] = ({}, {})
        self.most_gpus = max((room.node.gpus for room in self.all), default=0)
        self.types = {room.node.gpu_type for room in self.all}
        self.models: dict[tuple[object, ...], tuple[Room, int]] = {}
        for room in self.all:
            node = room.node
            model = (node.gpus, node.gpu_memory, node.cpus, node.memory)
            first_one, bits = self.models.get(model, (room, 0))
            self.models[model] = first_one, bits | room.bit
        self.sharing = 0
        self.releases = 0
        self._orders: dict[tuple[bool, int, int, bool], list[Key]] = {}
        self._without_beside: dict[tuple[Need, bool], list[int]] = {}
        first = self.buckets[False]
        for room in self.all:
            first[room.keys[0]] = first.get(room.keys[0], 0) | room.bit
        self.buckets[True].update(first)

    # -- who stands where ---------------------------------------------------------------------------------

    def occupy(self, worker: WorkerPlacement, need: Need) -> None:
        """A worker stands here later (and its part isn't free now either)."""
        room = self.by_name[worker.node]
        room.cpus -= need.cpus
        room.memory -= need.memory
        if worker.share < ONE:
            for gpu in worker.gpus:
                room.shares[gpu] = room.shares.get(gpu, 0) + worker.share
                room.taken |= 1 << gpu
        else:
            for gpu in worker.gpus:
                room.taken |= 1 << gpu
        self._index(room)

    def vacate(self, worker: WorkerPlacement, need: Need) -> None:
        """The inverse of `occupy`."""
        room = self.by_name[worker.node]
        room.cpus += need.cpus
        room.memory += need.memory
        for gpu in worker.gpus:
            if worker.share < ONE:
                left = room.shares[gpu] - worker.share
                if left:
                    room.shares[gpu] = left
                    continue
                del room.shares[gpu]
            room.taken &= ~(1 << gpu)
        self.releases += 1
        self._index(room)

    def hold(self, worker: WorkerPlacement, need: Need) -> None:
        """A worker that leaves still holds its part now."""
        room = self.by_name[worker.node]
        room.leaving_cpus += need.cpus
        room.leaving_memory += need.memory
        for gpu in worker.gpus:
            room.leaving |= 1 << gpu
            if worker.share < ONE:
                room.leaving_shares[gpu] = room.leaving_shares.get(gpu, 0) + worker.share
        self._index(room)

    def unhold(self, worker: WorkerPlacement, need: Need) -> None:
        """The inverse of `hold`."""
        room = self.by_name[worker.node]
        room.leaving_cpus -= need.cpus
        room.leaving_memory -= need.memory
        for gpu in worker.gpus:
            if worker.share < ONE:
                left = room.leaving_shares[gpu] - worker.share
                if left:
                    room.leaving_shares[gpu] = left
                    continue
                del room.leaving_shares[gpu]
            room.leaving &= ~(1 << gpu)
        self.releases += 1
        self._index(room)

    def _index(self, room: Room) -> None:
        for later in (False, True):
            free = room.free(later)
            key = (free.bit_count(), best_group(room.gpu_links, free))
            old = room.keys[later]
            if key != old:
                buckets = self.buckets[later]
                buckets[old] ^= room.bit
                buckets[key] = buckets.get(key, 0) | room.bit
                room.keys[later] = key
        if room.shares or room.leaving_shares:
            self.sharing |= room.bit
        elif self.sharing & room.bit:
            self.sharing ^= room.bit

    # -- search -------------------------------------------------------------------------------------------

    def order(self, later: bool, whole: int, spread: bool) -> list[Key]:
        """The buckets with `whole` free GPUs or more, best first: in one link group, then fullest (or emptiest) first."""
        buckets = self.buckets[later]
        name = (later, len(buckets), whole, spread)
        found = self._orders.get(name)
        if found is None:
            turn = -1 if spread else 1
            found = sorted(
                (key for key in buckets if key[0] >= whole),
                key=lambda key: (key[1] < whole, turn * key[0], turn * key[1]),
            )
            self._orders[name] = found
        return found

    def each(self, bits: int) -> Iterator[Room]:
        """The rooms of a set, the first one first."""
        rooms = self.all
        while bits:
            low = bits & -bits
            bits ^= low
            yield rooms[low.bit_length() - 1]

    def best(self, need: Need, mask: int, later: bool, spread: bool) -> Room | None:
        """The best room of `mask` for one worker."""
        if need.partial:
            for room in self.each(self.sharing & mask):
                if (
                    room.takes_beside(need, later)
                    and room.shared_gpu(need.share_on(room.node), later) is not None
                ):
                    return room
        buckets = self.buckets[later]
        order = self.order(later, need.whole or (1 if need.partial else 0), spread)
        if not need.cpus and not need.memory and not need.gpu_memory:
            for key in order:
                bits = buckets[key] & mask
                if bits:
                    return self.all[(bits & -bits).bit_length() - 1]
            return None
        lacking = self._lacking(need, later)
        for key in order:
            for room in self.each(buckets[key] & mask & ~lacking[1]):
                if room.takes(need, later):
                    return room
                lacking[1] |= room.bit
        return None

    def together(self, need: Need, count: int, mask: int, later: bool) -> Room | None:
        """The best room of `mask` for `count` workers that have to stand in one room."""
        if count == 1:
            return self.best(need, mask, later, False)
        if not need.partial:
            many = need.times(count)
            return self.best(many, mask, later, False) if many.whole <= self.most_gpus else None
        fitting = [room for room in self.each(mask) if room.count(need, later, count) >= count]
        return min(fitting, key=lambda room: (room.keys[later][0], room.index), default=None)

    def _lacking(self, need: Need, later: bool) -> list[int]:
        """The rooms found too short of CPUs or memory for a need, which hold until something is released."""
        lacking = self._without_beside.get((need, later))
        if lacking is None or lacking[0] != self.releases:
            lacking = self._without_beside[need, later] = [self.releases, 0]
        return lacking

    def left_over(self) -> Milli:
        """What is free later in all rooms, the parts of shared GPUs included."""
        parts = [ONE - share for room in self.each(self.sharing) for share in room.shares.values()]
        return self.free_gpus(-1, True) + sum(parts)

    def free_gpus(self, mask: int, later: bool = False) -> Milli:
        """The whole GPUs that are free in rooms of `mask`."""
        return (
            sum([(bits & mask).bit_count() * key[0] for key, bits in self.buckets[later].items() if key[0]])
            * ONE
        )
