"""Allgather as gather and broadcast: everything goes to rank 0 and back.

The blocks go up a binomial tree to rank 0, or, with the switch `flat`, from everyone straight to rank 0,
which then broadcasts all of them down a binomial tree.

**Cost**: with L = ceil(log2 p): ``2L*alpha + (p-1 + L*p)*n*beta``; flat ``(p-1 + L)*alpha`` and as
many bytes.

**Requires**: nothing; any number of ranks. Parameter: `flat`.

**Properties**: the baseline: L times the minimal volume, and all of it through rank 0.

**Reference**: R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations
in MPICH. IJHPCA 19(1), 2005. doi:10.1177/1094342005051521

>>> cost(8, 100)
Cost(rounds=6, volume_bytes=3100, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labkit.algorithms.bcast.knomial import levels
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block, blocks, whole
from labkit.schedule.doubling import ceil_log2, doublings
from labkit.schedule.group import everyone
from labkit.schedule.phases import down
from labkit.schedule.trees import knomial

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, flat: int = 0, radix: int = 2) -> Iterator[Step]:
    """Yield the way up, then the levels down, of a k-nomial tree by its radix."""
    yield group.copy(block("send"), block("recv", group.ranks))
    yield from (_all_at_once if flat else _up)(group)
    if radix > 2:
        yield from levels(everyone(group), radix, whole("recv"))
        return
    tree = knomial(group.size, 2)
    yield from down(everyone(group), tree, lambda part: whole("recv"), is_posted=False)


def _all_at_once(group: Group) -> Iterator[Step]:
    me = group.ranks
    for source in range(1, group.size):
        yield group.irecv(block("recv", source), source, where=me == 0)
    yield group.send(block("recv", me), 0, where=me > 0)
    yield group.wait(where=(me == 0) & (group.size > 1))


def _up(group: Group) -> Iterator[Step]:
    me, p = group.ranks, group.size
    for distance in doublings(p):
        is_child = me % (2 * distance) == distance
        is_parent = (me % (2 * distance) == 0) & (me + distance < p)
        length, theirs = np.minimum(distance, p - me), np.minimum(distance, p - me - distance)
        yield group.send(blocks("recv", me, length), me - distance, where=is_child) + group.recv(
            blocks("recv", me + distance, theirs), me + distance, where=is_parent
        )


def cost(ranks: int, n_bytes: float, flat: int = 0, radix: int = 2) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    down_levels = knomial(ranks, radix, radix > 2).down(1)
    rounds_up = ranks - 1 if flat else ceil_log2(ranks)
    return Cost(rounds_up + down_levels, (ranks - 1 + down_levels * ranks) * n_bytes)


ALGORITHM = Algorithm(
    "gather_bcast", "allgather", schedule=rounds, cost=cost, parameters={"flat": 0, "radix": 2}
)
