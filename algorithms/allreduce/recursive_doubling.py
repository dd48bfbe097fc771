"""Allreduce by recursive doubling: partners at distance 1, 2, 4, ... exchange and combine everything.

In the round with distance d rank r exchanges its partial result with r XOR d, and both combine the two,
the lower rank's first: after the round every group of 2d ranks holds the group's result. If p is no power
of two, the first 2*(p - q) ranks (q the largest power of two in p) first fold in pairs: the even one hands
its operand to the odd one and gets the result at the end.

**Cost**: with q = 2**k <= p < 2q: k rounds of n bytes, and two more rounds if p > q:
``k * (alpha + n*beta + n*gamma)``, plus ``2*alpha + 2*n*beta + n*gamma`` if p is no power of two.

**Requires**: nothing; any number of ranks, any associative operator.

**Properties**: optimal in rounds for powers of two; operands in rank order. The volume is log2(p)
times the minimum: for short messages.

**Reference**: R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations
in MPICH. IJHPCA 19(1), 2005. doi:10.1177/1094342005051521

>>> cost(8, 100), cost(5, 100).rounds
(Cost(rounds=3, volume_bytes=300, reduced_bytes=300), 4)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block
from labkit.schedule.powers import doublings, floor_power_of_two

__all__ = ["ALGORITHM", "cost", "rounds"]

RESULT, INCOMING = block("recv"), block("incoming")


def rounds(group: Group) -> Iterator[Step]:
    """Yield fold, one step for each distance, unfold."""
    me, p = group.ranks, group.size
    core = floor_power_of_two(p)
    extra = p - core
    is_folded = (me < 2 * extra) & (me % 2 == 0)
    is_keeper = (me < 2 * extra) & (me % 2 == 1)
    yield group.copy(block("send"), RESULT)
    yield (
        group.send(RESULT, to=me + 1, where=is_folded)
        + group.recv(INCOMING, source=me - 1, where=is_keeper)
        + group.combine(INCOMING, RESULT, source_first=True, where=is_keeper)
    )
    number = np.where(me < 2 * extra, me // 2, me - extra)
    for distance in doublings(core):
        partner = number ^ distance
        peer = np.where(partner < extra, 2 * partner + 1, partner + extra)
        yield group.sendrecv(RESULT, peer, INCOMING, peer, where=~is_folded) + group.combine(
            INCOMING, RESULT, source_first=peer < me, where=~is_folded
        )
    yield group.send(RESULT, to=me - 1, where=is_keeper) + group.recv(RESULT, source=me + 1, where=is_folded)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost: floor(log2 p) rounds, and the fold if p is no power of two."""
    core = floor_power_of_two(ranks)
    levels, fold = core.bit_length() - 1, int(ranks > core)
    return Cost(levels + 2 * fold, (levels + 2 * fold) * n_bytes, (levels + fold) * n_bytes)


ALGORITHM = Algorithm(
    "recursive_doubling", "allreduce", schedule=rounds, cost=cost, temporaries=("incoming",)
)
