"""Reduce-scatter by a butterfly: recursive halving with neighbors first, so that operands keep their order.

In the round with distance d = 1, 2, 4, ... the partners r and r XOR d give each other the blocks whose
numbers end like the other's number in the last bits, and combine those that they keep, the lower rank's
operand first: a partial result always covers consecutive ranks, and the blocks left are every second,
every fourth, ... With the switch `swapped` they keep one stretch of blocks instead, and at the end everyone
has what belongs to the rank whose bits are its own backwards: these two swap. If p is no power of two, the
first 2*(p - q) ranks fold in pairs before (q the largest power of two in p, e = p - q), and the owners of the
finished blocks send them home.

**Cost**: k rounds for p = q = 2**k blocks of n bytes: ``k*alpha + (p-1)*n*(beta + gamma)``. Otherwise the
rounds carry ``sum over d of ceil(p/2d)`` blocks, and fold and delivery add
``3*alpha + (p+2)*n*beta + p*n*gamma``.

**Requires**: nothing; any number of ranks, any associative operator. Parameter: `swapped`.

**Properties**: minimal volume in the fewest rounds for powers of two; operands in rank order. Messages
gather every 2d-th block.

**Reference**: J. L. Träff: An improved algorithm for (non-commutative) reduce-scatter with an application.
EuroPVM/MPI 2005, LNCS 3666. doi:10.1007/11557265_20

>>> cost(8, 100), cost(5, 100).rounds
(Cost(rounds=3, volume_bytes=700, reduced_bytes=700), 5)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary, block, blocks, whole
from labkit.schedule.doubling import Core, backwards, core_of, doublings, floor_power_of_two, prime_factors
from labkit.schedule.group import everyone
from labkit.schedule.step import Ints

__all__ = ["ALGORITHM", "TEMPORARIES", "cost", "rounds"]

Numbers = NDArray[np.int64]
TEMPORARIES = (Temporary("partial", like="send"), Temporary("incoming", like="send"))


def rounds(group: Group, swapped: int = 0) -> Iterator[Step]:
    """Yield fold, one step for each distance, delivery."""
    me, p = group.ranks, group.size
    core = core_of(everyone(group))
    yield group.copy(whole("send"), whole("partial"), where=~core.is_out)
    yield (
        group.send(whole("send"), to=core.neighbor, where=core.is_out)
        + group.recv(whole("incoming"), source=core.neighbor, where=core.has_out)
        + group.combine(whole("incoming"), whole("partial"), source_first=True, where=core.has_out)
    )
    number = core.number
    length, held = core.size, np.zeros_like(number)
    for distance in doublings(core.size):
        partner = number ^ distance
        peer = core.team_number(partner)
        if swapped:
            length //= 2
            upper = (number & distance != 0) * length
            kept, given = _stretch(core, held + upper, length), _stretch(core, held + length - upper, length)
            held += upper
        else:
            kept, given = _every(number, 2 * distance, p), _every(partner, 2 * distance, p)
        yield group.sendrecv(
            blocks("partial", *given), peer, blocks("incoming", *kept), peer, where=~core.is_out
        ) + group.combine(
            blocks("incoming", *kept), blocks("partial", *kept), source_first=peer < me, where=~core.is_out
        )
    yield from (_swap(group, core, held) if swapped else _delivery(group, core))


def _every(first: Numbers, stride: int, p: int) -> tuple[Ints, ...]:
    """Return every `stride`-th block from a number on."""
    return first % stride, p - first % stride, 1, stride


def _stretch(core: Core, first: Numbers, length: int) -> tuple[Ints, ...]:
    """Return the blocks of some numbers of the core: the first ones have two, of those who folded, too."""
    begin = first + np.minimum(first, core.extra)
    end = first + length + np.minimum(first + length, core.extra)
    return begin, end - begin


def _swap(group: Group, core: Core, held: Numbers) -> Iterator[Step]:
    """Bring the blocks of number `held`, whose bits are the own ones backwards, to it and to who folded."""
    me, is_in, number = group.ranks, ~core.is_out, core.number
    first, n_blocks = _stretch(core, held, 1)
    target = core.team_number(held)
    yield group.send(block("partial", first), to=first, where=is_in & (n_blocks == 2))
    own, is_home = block("partial", first + n_blocks - 1), held == number
    yield group.copy(own, block("recv"), where=is_in & is_home)
    yield group.sendrecv(own, target, block("recv"), target, where=is_in & ~is_home)
    giver = core.team_number(backwards(prime_factors(core.size))[me // 2 % core.size])
    yield group.recv(block("recv"), source=giver, where=core.is_out)


def _delivery(group: Group, core: Core) -> Iterator[Step]:
    """Bring block b from core rank b mod q to rank b."""
    me, number, is_in = group.ranks, core.number, ~core.is_out
    if core.extra == 0:
        yield group.copy(block("partial", me), block("recv"))
        return
    second = number + core.size
    yield (
        group.irecv(block("recv"), core.team_number(me % core.size))
        + group.isend(block("partial", number), to=number, where=is_in)
        + group.isend(block("partial", second), to=second, where=is_in & (number < core.extra))
        + group.wait()
    )


def cost(ranks: int, n_bytes: float, swapped: int = 0) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    core = floor_power_of_two(ranks)
    distances = doublings(core)
    halves = sum(-(-ranks // (2 * distance)) for distance in distances)
    if swapped:
        return _cost_swapped(ranks, n_bytes)
    if core == ranks:
        return Cost(len(distances), halves * n_bytes, halves * n_bytes)
    return Cost(len(distances) + 3, (halves + ranks + 2) * n_bytes, (halves + ranks) * n_bytes)


def _cost_swapped(ranks: int, n_bytes: float) -> Cost:
    """Follow every number of the core: partners wait for each other's message, the longer one."""
    core = core_of(everyone(Group(np.arange(ranks), ranks, 0, True, ())))
    number, fold = np.arange(core.size), (np.arange(core.size) < core.extra) * ranks
    sent, combined, length, held = fold.copy(), fold.copy(), core.size, np.zeros(core.size, np.int64)
    for distance in doublings(core.size):
        length //= 2
        held += (number & distance != 0) * length
        kept, partner = np.asarray(_stretch(core, held, length)[1]), number ^ distance
        sent = np.maximum(sent, sent[partner]) + np.maximum(kept, kept[partner])
        combined = np.maximum(combined, combined[partner]) + kept
    gives = (held < core.extra).astype(np.int64)  # a block to who folded, before the swap
    levels = int(core.extra > 0) + len(doublings(core.size))
    return Cost(
        levels + _swapped(gives, held), _swapped(sent + gives, held) * n_bytes, int(combined.max()) * n_bytes
    )


def _swapped(at: Numbers, held: Numbers) -> int:
    """Return when the last one is done that begins the swap at these times."""
    return int(np.where(held == np.arange(len(held)), at, np.maximum(at, at[held]) + 1).max())


ALGORITHM = Algorithm(
    "butterfly",
    "reduce_scatter_block",
    schedule=rounds,
    cost=cost,
    temporaries=TEMPORARIES,
    parameters={"swapped": 0},
)
