"""Reduce-scatter by recursive doubling: partial results of ever larger groups are exchanged.

In the round with distance d = 1, 2, 4, ... partners r and r XOR d, each with partial results over its group
of d ranks, exchange those of all blocks outside the sender's group, and combine those that they still need:
their own block, and what lies outside both groups. If p is no power of two, neighbours fold in pairs first.

**Cost**: ``log2(p)*alpha + (p*log2(p) - (p-1))*n*beta`` for powers of two.

**Requires**: nothing; any number of ranks, any associative operator.

**Properties**: operands in rank order, so that it serves operators that do not commute; log2(p) times the
volume of recursive halving.

**Reference**: R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations
in MPICH. IJHPCA 19(1), 2005. doi:10.1177/1094342005051521

>>> cost(8, 800)
Cost(rounds=3, volume_bytes=13600, reduced_bytes=10400)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary, block, blocks, whole
from labkit.schedule.core import core_of
from labkit.schedule.powers import doublings, floor_power_of_two
from labkit.schedule.section import Ints
from labkit.schedule.team import everyone

__all__ = ["ALGORITHM", "cost", "rounds"]


TEMPORARIES = (Temporary("partial", like="send"), Temporary("incoming", like="send"))


def rounds(group: Group) -> Iterator[Step]:
    """Yield fold, one step for each distance, unfold."""
    me, p = group.ranks, group.size
    core = core_of(everyone(group))
    yield group.copy(whole("send"), whole("partial"), where=~core.is_out)
    yield group.send(whole("send"), to=core.neighbor, where=core.is_out)
    yield group.recv(whole("incoming"), source=core.neighbor, where=core.has_out)
    yield group.combine(whole("incoming"), whole("partial"), source_first=True, where=core.has_out)

    def begin(number: Ints) -> Ints:
        """Return the first block of a core rank: the first ranks have two."""
        return number + np.minimum(number, core.extra)

    number = core.number
    own, n_own = begin(number), begin(number + 1) - begin(number)
    for distance in doublings(core.size):
        partner = number ^ distance
        peer = core.team_number(partner)
        mine, theirs = number // distance * distance, partner // distance * distance
        ends = [begin(first + distance) for first in (mine, theirs)]
        sizes = [end - begin(first) for end, first in zip(ends, (mine, theirs), strict=True)]
        yield group.sendrecv(
            blocks("partial", ends[0], p - sizes[0]),
            peer,
            blocks("incoming", ends[1], p - sizes[1]),
            peer,
            where=~core.is_out,
        )
        both = number // (2 * distance) * (2 * distance)
        outside = (begin(both + 2 * distance), p - (begin(both + 2 * distance) - begin(both)))
        for section in ((own, n_own), outside) if 2 * distance < core.size else ((own, n_own),):
            yield group.combine(
                blocks("incoming", *section), blocks("partial", *section), peer < me, where=~core.is_out
            )
    yield group.copy(block("partial", me), block("recv"), where=~core.is_out)
    yield group.send(block("partial", me - 1), to=core.neighbor, where=core.has_out)
    yield group.recv(block("recv"), source=core.neighbor, where=core.is_out)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost for blocks of `n_bytes` (a bound where p is no power of two)."""
    core = floor_power_of_two(ranks)
    extra, number = ranks - core, np.arange(core)
    begin = np.arange(core + 1) + np.minimum(np.arange(core + 1), extra)
    own = begin[1:] - begin[:-1]
    sent, combined = np.where(own == 2, ranks, 0), np.where(own == 2, ranks, 0)
    for distance in doublings(core):
        first, both = number // distance * distance, number // (2 * distance) * 2 * distance
        given = ranks - (begin[first + distance] - begin[first])
        # both partners wait for both messages
        sent = np.maximum(sent, sent[number ^ distance]) + np.maximum(given, given[number ^ distance])
        outside = ranks - (begin[both + 2 * distance] - begin[both])
        combined = np.maximum(combined, combined[number ^ distance]) + own + outside
    rounds_ = core.bit_length() - 1 + 2 * int(extra > 0)
    return Cost(
        rounds_, int((sent + own - 1).max()) * n_bytes, int(combined.max()) * n_bytes, is_bound=extra > 0
    )


ALGORITHM = Algorithm(
    "recursive_doubling",
    "reduce_scatter_block",
    schedule=rounds,
    cost=cost,
    temporaries=TEMPORARIES,
)
