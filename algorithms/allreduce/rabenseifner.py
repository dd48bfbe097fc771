"""Rabenseifner's allreduce: reduce-scatter by recursive halving, allgather by recursive doubling.

In the round with distance d = 1, 2, 4, ... partners r and r XOR d share the range of blocks they both
still work on: each sends the half it gives up and combines the half it keeps. After log2 p rounds every
rank owns one complete block; the same rounds backwards collect the blocks. If p is no power of two the
first ranks fold in pairs, as in recursive doubling; with the switch `halves` both of a pair combine one half
of the message, and the second one hands its half over.

**Cost**: with q = 2**k <= p < 2q: 2k rounds, ``2(q-1)/q*n`` bytes, ``(q-1)/q*n`` bytes combined; if p > q
two rounds, 2n bytes and n bytes combined more, by halves three rounds, 2n bytes and n/2 bytes.

**Requires**: nothing; any number of ranks, any associative operator. Parameter: `halves`.

**Properties**: minimal volume in few rounds; operands in rank order, because neighbors combine first.

**Reference**: R. Rabenseifner: Optimization of collective reduction operations. ICCS 2004, LNCS 3036.
doi:10.1007/978-3-540-24685-5_1

>>> cost(8, 800)
Cost(rounds=6, volume_bytes=1400.0, reduced_bytes=700.0)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, blocks, whole
from labkit.schedule.doubling import Core, core_of, doublings, floor_power_of_two
from labkit.schedule.group import everyone

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, halves: int = 0) -> Iterator[Step]:
    """Yield fold, halving, doubling, unfold."""
    me, core = group.ranks, core_of(everyone(group), kept=0 if halves else 1)
    result, incoming = whole("recv"), whole("incoming")
    yield group.copy(whole("send"), result)
    if halves:
        yield from _fold_by_halves(group, core)
    else:
        yield (
            group.send(result, to=core.neighbor, where=core.is_out)
            + group.recv(incoming, source=core.neighbor, where=core.has_out)
            + group.combine(incoming, result, source_first=True, where=core.has_out)
        )
    number = core.number
    first, length = np.zeros_like(me), core.size
    ranges = []
    for distance in doublings(core.size):
        partner = number ^ distance
        peer = core.team_number(partner)
        length //= 2
        keeps_upper = (number & distance) != 0
        kept = np.where(keeps_upper, first + length, first)
        given = np.where(keeps_upper, first, first + length)
        ranges.append((peer, kept, given, length))
        yield group.sendrecv(
            blocks("recv", given, length), peer, blocks("incoming", kept, length), peer, where=~core.is_out
        ) + group.combine(
            blocks("incoming", kept, length), blocks("recv", kept, length), peer < me, where=~core.is_out
        )
        first = kept
    for peer, kept, given, length in reversed(ranges):
        yield group.sendrecv(
            blocks("recv", kept, length), peer, blocks("recv", given, length), peer, where=~core.is_out
        )
    yield group.send(result, to=core.neighbor, where=core.has_out)
    yield group.recv(result, source=core.neighbor, where=core.is_out)


def _fold_by_halves(group: Group, core: Core) -> Iterator[Step]:
    """Yield the exchange of halves in pairs, and the second rank's half on its way to the first."""
    half = core.size // 2
    for is_mine, kept, given in ((core.has_out, 0, half), (core.is_out, half, 0)):
        received = blocks("incoming", kept, half)
        sent = blocks("recv", given, half)
        yield group.isend(sent, core.neighbor, is_mine) + group.irecv(received, core.neighbor, is_mine)
    yield group.wait(core.has_out | core.is_out)
    for is_mine, kept in ((core.has_out, 0), (core.is_out, half)):
        yield group.combine(
            blocks("incoming", kept, half), blocks("recv", kept, half), core.is_out, where=is_mine
        )
    yield group.send(blocks("recv", half, half), core.neighbor, where=core.is_out)
    yield group.recv(blocks("recv", half, half), core.neighbor, where=core.has_out)


def cost(ranks: int, n_bytes: float, halves: int = 0) -> Cost:
    """Return the exact cost when the largest power of two in p divides the message."""
    core = floor_power_of_two(ranks)
    levels, fold = core.bit_length() - 1, int(ranks > core)
    volume = n_bytes * (core - 1) / core
    if halves:
        return Cost(2 * levels + 3 * fold, 2 * volume + 2 * fold * n_bytes, volume + fold * n_bytes / 2)
    return Cost(2 * levels + 2 * fold, 2 * volume + 2 * fold * n_bytes, volume + fold * n_bytes)


ALGORITHM = Algorithm(
    "rabenseifner",
    "allreduce",
    schedule=rounds,
    cost=cost,
    parts=floor_power_of_two,
    temporaries=("incoming",),
    parameters={"halves": 0},
)
