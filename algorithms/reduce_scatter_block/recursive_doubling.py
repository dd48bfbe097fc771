"""Reduce-scatter by recursive doubling: partial results of ever larger groups are exchanged.

In the round with distance d = 1, 2, 4, ... partners r and r XOR d, each with partial results over its group
of d ranks, exchange those of all blocks outside the sender's group, and combine those that they still need:
their own block, and what lies outside both groups. If p is no power of two, neighbors fold in pairs first;
with the switch `subtrees` nobody does: who finds no partner in a round gets what it lacks from others of its
group (`labkit.schedule.doubling`), as in MPICH.

**Cost**: ``log2(p)*alpha + (p*log2(p) - (p-1))*n*beta`` for powers of two.

**Requires**: nothing; any number of ranks, any associative operator. Parameter: `subtrees`.

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
from numpy.typing import NDArray

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary, block, blocks, whole
from labkit.schedule.doubling import Turn, core_of, doublings, floor_power_of_two, times, turns
from labkit.schedule.group import everyone
from labkit.schedule.step import Ints

__all__ = ["ALGORITHM", "cost", "rounds"]


TEMPORARIES = (Temporary("partial", like="send"), Temporary("incoming", like="send"))


def rounds(group: Group, subtrees: int = 0) -> Iterator[Step]:
    """Yield fold, one step for each distance, unfold."""
    me, p = group.ranks, group.size
    if subtrees:
        yield from _in_subtrees(group)
        return
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


def _in_subtrees(group: Group) -> Iterator[Step]:
    """Yield one step for each distance, and what is handed on inside subtrees."""
    me, p, team = group.ranks, group.size, everyone(group)
    yield group.copy(whole("send"), whole("partial"))
    for turn in turns(me, p):
        (mine, n_mine), (theirs, n_theirs) = turn.mine, turn.theirs
        received = blocks("incoming", theirs + n_theirs, p - n_theirs)
        sent = blocks("partial", mine + n_mine, p - n_mine)
        yield team.sendrecv(sent, turn.partner, received, turn.partner, where=turn.is_met)
        has_got = turn.is_met.copy()
        for other, gives, takes in turn.hops:
            yield team.send(received, other, where=gives) + team.recv(received, other, where=takes)
            has_got |= takes
        first, n_outside = _outside(turn, p)
        for section in ((me, 1), (first, n_outside)):
            yield group.combine(
                blocks("incoming", *section),
                blocks("partial", *section),
                theirs < mine,
                where=has_got & (np.asarray(section[1]) > 0),
            )
    yield group.copy(block("partial", me), block("recv"))


def _outside(turn: Turn, p: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the blocks outside both subtrees: the first one, and how many."""
    (mine, n_mine), (theirs, n_theirs) = turn.mine, turn.theirs
    return np.maximum(mine + n_mine, theirs + n_theirs), p - n_mine - n_theirs


def cost(ranks: int, n_bytes: float, subtrees: int = 0) -> Cost:
    """Return the exact cost for blocks of `n_bytes` (a bound where p is no power of two)."""
    if subtrees:
        return _cost_in_subtrees(ranks, n_bytes)
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


def _cost_in_subtrees(ranks: int, n_bytes: float) -> Cost:
    messages = times(ranks, np.ones_like)
    sent = times(ranks, lambda n: ranks - n)
    combined = times(ranks, np.zeros_like, lambda turn: 1 + _outside(turn, ranks)[1])
    blocks_, reduced = int(sent.max()), int(combined.max())
    return Cost(int(messages.max()), blocks_ * n_bytes, reduced * n_bytes, is_bound=True)


ALGORITHM = Algorithm(
    "recursive_doubling",
    "reduce_scatter_block",
    schedule=rounds,
    cost=cost,
    temporaries=TEMPORARIES,
    parameters={"subtrees": 0},
)
