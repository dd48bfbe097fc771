"""Reduce-scatter by recursive halving: partners at half the distance each time share out what is left.

Every rank starts with all blocks. In the round with distance d = q/2, q/4, ..., 1 the partners r and
r XOR d give each other the half that belongs to the other's side, and combine the half that they keep:
the blocks that a rank still works on halve until its own is left. If p is no power of two, the first
2*(p - q) ranks (q the largest power of two in p) fold in pairs before: the even one hands its operands to
the odd one, which works for both and gives the even one its block at the end.

**Cost**: k rounds for p = q = 2**k blocks of n bytes: ``k*alpha + (p-1)*n*(beta + gamma)``. Otherwise with
e = p - q: the rounds carry ``sum over d of d + min(d, e)`` blocks, and the fold adds
``2*alpha + (p+1)*n*beta + p*n*gamma``.

**Requires**: a commutative operator (the first partners are far apart).

**Properties**: minimal volume in the fewest rounds for powers of two; every message is one stretch of
memory.

**Reference**: R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations
in MPICH. IJHPCA 19(1), 2005. doi:10.1177/1094342005051521

>>> cost(8, 100), cost(5, 100).rounds
(Cost(rounds=3, volume_bytes=700, reduced_bytes=700), 4)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step, Temporary, block, blocks, whole
from labkit.schedule.doubling import core_of, doublings, floor_power_of_two
from labkit.schedule.group import everyone

__all__ = ["ALGORITHM", "TEMPORARIES", "cost", "rounds"]

TEMPORARIES = (Temporary("partial", like="send"), Temporary("incoming", like="send"))


def rounds(group: Group) -> Iterator[Step]:
    """Yield fold, one step for each distance, unfold."""
    me, core = group.ranks, core_of(everyone(group))
    yield group.copy(whole("send"), whole("partial"), where=~core.is_out)
    yield (
        group.send(whole("send"), to=core.neighbor, where=core.is_out)
        + group.recv(whole("incoming"), source=core.neighbor, where=core.has_out)
        + group.combine(whole("incoming"), whole("partial"), where=core.has_out)
    )

    def first_block(number: Any) -> Any:
        """Blocks come in the order of the core's ranks: two for each of the first, then one."""
        return number + np.minimum(number, core.extra)

    number = core.number
    for distance in reversed(doublings(core.size)):
        partner = number ^ distance
        peer = core.team_number(partner)
        mine, theirs = number // distance * distance, partner // distance * distance
        kept, given = first_block(mine), first_block(theirs)
        n_kept, n_given = first_block(mine + distance) - kept, first_block(theirs + distance) - given
        received = blocks("incoming", kept, n_kept)
        yield group.irecv(received, peer, where=~core.is_out)
        yield group.send(blocks("partial", given, n_given), peer, where=~core.is_out)
        yield group.wait(~core.is_out)
        yield group.combine(received, blocks("partial", kept, n_kept), where=~core.is_out)
    yield group.copy(block("partial", me), block("recv"), where=~core.is_out)
    yield (
        group.send(block("partial", me - 1), to=core.neighbor, where=core.has_out)
        + group.recv(block("recv"), source=core.neighbor, where=core.is_out)
    )


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    core = floor_power_of_two(ranks)
    extra = ranks - core
    distances = doublings(core)
    halves = sum(distance + min(distance, extra) for distance in distances)
    if extra == 0:
        return Cost(len(distances), halves * n_bytes, halves * n_bytes)
    return Cost(len(distances) + 2, (halves + ranks + 1) * n_bytes, (halves + ranks) * n_bytes)


ALGORITHM = Algorithm(
    "recursive_halving",
    "reduce_scatter_block",
    schedule=rounds,
    cost=cost,
    requirements=Requirements(commutative=True),
    temporaries=TEMPORARIES,
)
