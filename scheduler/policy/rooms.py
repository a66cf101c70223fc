"""The nodes as rooms, found by how much is free in them.

A room has two sides. *Later* is how it stands once the plan is carried out; *now* is what can be had at once: what is
free later and is not still held by somebody who leaves. Sets of rooms are bits of one integer, so that "free, of this
type, in this rack, not tried in vain" is an `&` of four of them. Every step has an inverse, and the state depends only
on who stands where, never on the way it came about: that is what makes trials cheap and plans repeatable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler.model import ONE, Milli, Node, WorkerPlacement
from scheduler.policy.links import best_group, choose
from scheduler.policy.needs import UNBOUNDED, Need

Key = tuple[int, int]
"""How many whole GPUs a room has free, and how many of them in its best link group."""


class Room:
    """One node: what is taken in it (later) and what is held by those who leave (in the way now)."""

    __slots__ = (
        "bit", "cpus", "every", "index", "keys", "leaving", "leaving_cpus", "leaving_memory", "leaving_shares",
        "links", "memory", "node", "shares", "taken",
    )  # fmt: skip

    def __init__(self, index: int, node: Node) -> None:
        self.index = index
        self.bit = 1 << index
        self.node = node
        self.every = (1 << node.gpus) - 1
        self.links = tuple(sum(1 << gpu for gpu in group) for group in node.links)
        self.taken = 0
        self.leaving = 0
        self.shares: dict[int, Milli] = {}
        self.leaving_shares: dict[int, Milli] = {}
        self.cpus = UNBOUNDED if node.cpus is None else node.cpus
        self.memory = UNBOUNDED if node.memory is None else node.memory
        self.leaving_cpus = 0
        self.leaving_memory = 0
        key = (node.gpus, best_group(self.links, self.every))
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

    def gpu_for_share(self, share: Milli, later: bool) -> int | None:
        """The fullest shared GPU with room for `share`, else a free one."""
        best = None
        for gpu in sorted(self.shares.keys() | self.leaving_shares.keys()):
            free = self.share_free(gpu, later)
            if free >= share and (best is None or free < best[0]):
                best = (free, gpu)
        if best is not None:
            return best[1]
        free_bits = self.free(later)
        return choose(self.links, free_bits, 1).bit_length() - 1 if free_bits else None

    def takes(self, need: Need, later: bool) -> bool:
        """Whether one more worker fits."""
        return self.takes_beside(need, later) and self.takes_gpus(need, later)

    def takes_beside(self, need: Need, later: bool) -> bool:
        """Whether the CPUs and the memory for one more worker are there."""
        if later:
            return need.cpus <= self.cpus and need.memory <= self.memory
        return need.cpus <= self.cpus - self.leaving_cpus and need.memory <= self.memory - self.leaving_memory

    def takes_gpus(self, need: Need, later: bool) -> bool:
        if need.whole:
            return self.keys[later][0] >= need.whole
        if need.partial:
            share = need.share_on(self.node)
            return share <= ONE and self.gpu_for_share(share, later) is not None
        return True

    def count(self, need: Need, later: bool, most: int) -> int:
        """How many workers fit, up to `most`. For shares of a GPU a lower bound of what the nodes' free GPUs give."""
        if need.whole:
            most = min(most, self.keys[later][0] // need.whole)
        elif need.partial:
            share = need.share_on(self.node)
            if share > ONE:
                return 0
            fits = self.free(later).bit_count() * (ONE // share)
            for gpu in self.shares.keys() | self.leaving_shares.keys():
                if self.taken >> gpu & 1 or (not later and self.leaving >> gpu & 1):
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


class Rooms:
    """All nodes, indexed by what is free in them; `now` and `later` are kept side by side (index 0 and 1)."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.rooms = [Room(index, node) for index, node in enumerate(nodes)]
        self.by_name = {room.node.name: room for room in self.rooms}
        self.buckets: tuple[dict[Key, int], dict[Key, int]] = ({}, {})
        self.sharing = 0
        self.releases = 0
        self._orders: dict[tuple[bool, int, int, bool], list[Key]] = {}
        first = self.buckets[0]
        for room in self.rooms:
            first[room.keys[0]] = first.get(room.keys[0], 0) | room.bit
        self.buckets[1].update(first)

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
        if worker.share < ONE:
            for gpu in worker.gpus:
                left = room.shares[gpu] - worker.share
                if left:
                    room.shares[gpu] = left
                else:
                    del room.shares[gpu]
                    room.taken &= ~(1 << gpu)
        else:
            for gpu in worker.gpus:
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
        self._index(room)

    def _index(self, room: Room) -> None:
        for later in (False, True):
            free = room.free(later)
            key = (free.bit_count(), best_group(room.links, free))
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
        """The buckets with `whole` free GPUs or more, best first: one link group, then fullest (or emptiest) first."""
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
        rooms = self.rooms
        while bits:
            low = bits & -bits
            bits ^= low
            yield rooms[low.bit_length() - 1]

    def best(self, need: Need, mask: int, later: bool, spread: bool) -> Room | None:
        """The best room of `mask` for one worker."""
        if need.partial:
            shared = self.sharing & mask
            for room in self.each(shared):
                if room.takes(need, later) and _fits_shared(room, need, later):
                    return room
        buckets = self.buckets[later]
        for key in self.order(later, need.whole or (1 if need.partial else 0), spread):
            for room in self.each(buckets[key] & mask):
                if room.takes_beside(need, later) and (need.whole or room.takes_gpus(need, later)):
                    return room
        return None

    def stand(self, room: Room, need: Need, later: bool) -> WorkerPlacement:
        """Choose the GPUs in a room that takes the need, and occupy them."""
        if need.whole:
            bits = choose(room.links, room.free(later), need.whole)
            worker = WorkerPlacement(room.node.name, gpus_of(bits))
        elif need.partial:
            share = need.share_on(room.node)
            gpu = room.gpu_for_share(share, later)
            assert gpu is not None
            worker = WorkerPlacement(room.node.name, (gpu,), share)
        else:
            worker = WorkerPlacement(room.node.name)
        self.occupy(worker, need)
        return worker


def _fits_shared(room: Room, need: Need, later: bool) -> bool:
    """Whether the share fits on a GPU that is shared already."""
    share = need.share_on(room.node)
    gpus = room.shares.keys() | room.leaving_shares.keys()
    return any(share <= room.share_free(gpu, later) < ONE for gpu in gpus)


_GPUS: dict[int, tuple[int, ...]] = {}


def gpus_of(bits: int) -> tuple[int, ...]:
    """The numbers of the GPUs in `bits`."""
    found = _GPUS.get(bits)
    if found is None:
        found = tuple(gpu for gpu in range(bits.bit_length()) if bits >> gpu & 1)
        if len(_GPUS) < 4096:
            _GPUS[bits] = found
    return found
