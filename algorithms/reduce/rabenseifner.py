"""Rabenseifner's reduction: reduce-scatter by recursive halving, then a gather to the root.

Ranks are numbered from the root on. In the round with distance d = 1, 2, 4, ... partners that still work on
the same range of blocks give each other one half of it and combine the other. The same rounds backwards
gather the blocks: of two partners the one with the higher number sends. If p is no power of two, neighbors
fold first: in the first p - q pairs the second rank hands its operand to the first one.

**Cost**: with q = 2**k <= p < 2q: 2k rounds, ``2(q-1)/q*n`` bytes, ``(q-1)/q*n`` bytes combined; if p > q one
round, n bytes and n bytes combined more.

**Requires**: nothing; any number of ranks, any root, any associative operator.

**Properties**: half of the volume of a binomial tree and less for long messages; operands in rank order (for
operators that do not commute rank 0 is number 0, and sends the result to the root).

**Reference**: R. Rabenseifner: Optimization of collective reduction operations. ICCS 2004, LNCS 3036.
doi:10.1007/978-3-540-24685-5_1

>>> cost(8, 800)
Cost(rounds=6, volume_bytes=1400.0, reduced_bytes=700.0)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary, blocks, whole
from labkit.schedule.doubling import doublings, floor_power_of_two
from labkit.schedule.group import everyone

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield fold, halving, gathering."""
    me, p, root = group.ranks, group.size, group.root
    top = root if group.commutative else 0
    team = everyone(group, top)
    core = floor_power_of_two(p)
    extra = p - core
    is_folded = (team.number < 2 * extra) & (team.number % 2 == 1)
    is_keeper = (team.number < 2 * extra) & (team.number % 2 == 0)
    total, incoming = whole("partial"), whole("incoming")
    yield group.copy(whole("send"), total)
    yield (
        team.send(total, team.number - 1, where=is_folded)
        + team.recv(incoming, team.number + 1, where=is_keeper)
        + team.combine(incoming, total, source_first=False, where=is_keeper)
    )
    number = np.where(team.number < 2 * extra, team.number // 2, team.number - extra)
    first, length = np.zeros_like(me), core
    ranges = []
    for distance in doublings(core):
        partner = number ^ distance
        peer = np.where(partner < extra, 2 * partner, partner + extra)
        length //= 2
        is_upper = (number & distance) != 0
        kept, given = first + is_upper * length, first + ~is_upper * length
        ranges.append((peer, is_upper, kept, given, length))
        yield team.sendrecv(
            blocks("partial", given, length), peer, blocks("incoming", kept, length), peer, where=~is_folded
        ) + team.combine(
            blocks("incoming", kept, length), blocks("partial", kept, length), is_upper, where=~is_folded
        )
        first = kept
    # a rank that has sent what it has does not take part any more
    is_done = is_folded.copy()
    for peer, is_upper, kept, given, length in reversed(ranges):
        yield team.send(blocks("partial", kept, length), peer, where=~is_done & is_upper)
        yield team.recv(blocks("partial", given, length), peer, where=~is_done & ~is_upper)
        is_done |= is_upper
    if top == root:
        yield group.copy(total, whole("recv"), where=me == root)
    else:
        yield group.send(total, to=root, where=me == top) + group.recv(whole("recv"), top, where=me == root)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost when the largest power of two in p divides the message."""
    core = floor_power_of_two(ranks)
    levels, fold = core.bit_length() - 1, int(ranks > core)
    volume = n_bytes * (core - 1) / core
    return Cost(2 * levels + fold, 2 * volume + fold * n_bytes, volume + fold * n_bytes)


ALGORITHM = Algorithm(
    "rabenseifner",
    "reduce",
    schedule=rounds,
    cost=cost,
    parts=floor_power_of_two,
    temporaries=(Temporary("partial", like="send"), Temporary("incoming", like="send")),
)
