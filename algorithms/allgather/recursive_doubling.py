"""Allgather by recursive doubling: partners at distance 1, 2, 4, ... exchange all they have.

In the round with distance d ranks r and r XOR d swap the blocks of their groups of d ranks; groups double.
If p is no power of two, the first 2*(p - q) ranks (q the largest power of two in p) first fold in pairs:
the even one hands its block to the odd one, and gets all it lacks at the end. With the switch `subtrees`
nobody folds: who finds no partner in a round gets what it lacks from others of its group
(`labkit.schedule.doubling`), as in MPICH.

**Cost**: q = 2**k = p: k rounds, p - 1 blocks of n bytes: ``log2(p)*alpha + (p-1)*n*beta``. Otherwise
with e = p - q: k + 2 rounds and ``p + sum over j < k of (2**j + min(2**j, e))`` blocks. With
subtrees, p = q + 1: 2k + 1 rounds.

**Requires**: nothing; any number of ranks (Bruck's algorithm is better where p is no power of two).
Parameter: `subtrees`.

**Properties**: minimal rounds and volume for powers of two; contiguous messages; no work buffer.

**Reference**: R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations
in MPICH. IJHPCA 19(1), 2005. doi:10.1177/1094342005051521

>>> cost(8, 100), cost(5, 100)
(Cost(rounds=3, volume_bytes=700, reduced_bytes=0.0), Cost(rounds=4, volume_bytes=1000, reduced_bytes=0.0))
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Section, Step, block, blocks
from labkit.schedule.doubling import core_of, doublings, floor_power_of_two, spread, times
from labkit.schedule.group import everyone

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, subtrees: int = 0) -> Iterator[Step]:
    """Yield fold, one step for each distance, unfold."""
    me, p = group.ranks, group.size
    if subtrees:
        yield group.copy(block("send"), block("recv", me))
        yield from spread(everyone(group), lambda first, n: blocks("recv", first, n))
        return
    core = core_of(everyone(group))
    yield group.copy(block("send"), block("recv", me))
    yield group.send(block("recv", me), to=core.neighbor, where=core.is_out) + group.recv(
        block("recv", me - 1), source=core.neighbor, where=core.has_out
    )
    number = core.number
    for distance in doublings(core.size):
        mine, theirs = number // distance, (number ^ distance) // distance
        partner = number ^ distance
        peer = core.team_number(partner)
        yield group.sendrecv(
            _blocks_of(mine, distance, core.extra),
            peer,
            _blocks_of(theirs, distance, core.extra),
            peer,
            where=~core.is_out,
        )
    yield group.send(blocks("recv", me, p - 1), to=core.neighbor, where=core.has_out) + group.recv(
        blocks("recv", me + 1, p - 1), source=core.neighbor, where=core.is_out
    )


def _blocks_of(group_number: NDArray[np.int64], distance: int, extra: int) -> Section:
    """Return the blocks of one group of `distance` core ranks: the folded ranks' blocks come first."""
    begin, end = group_number * distance, (group_number + 1) * distance
    first = begin + np.minimum(begin, extra)
    return blocks("recv", first, end + np.minimum(end, extra) - first)


def cost(ranks: int, n_bytes: float, subtrees: int = 0) -> Cost:
    """Return the exact cost for blocks of `n_bytes`; the first group is the largest in each round."""
    if subtrees:
        return Cost(int(times(ranks, np.ones_like).max()), int(times(ranks, np.positive).max()) * n_bytes)
    core = floor_power_of_two(ranks)
    extra = ranks - core
    moved = sum(distance + min(distance, extra) for distance in doublings(core)) + (ranks if extra else 0)
    return Cost(core.bit_length() - 1 + 2 * bool(extra), moved * n_bytes)


ALGORITHM = Algorithm(
    "recursive_doubling", "allgather", schedule=rounds, cost=cost, parameters={"subtrees": 0}
)
