"""Allgather by recursive halving: everyone passes all it has to a rank half as far away each time.

In the round with distance d = p/2, p/4, ..., 1 ranks r and r XOR d swap all they have: first what is far
away, one block, at last half of everything with the neighbor. If p is no power of two, the dimensions are
its prime factors f, and everyone sends to all f - 1 others of its line.

With the switch `swapped` everyone first gives its block to the rank whose digits are its own backwards (for
powers of two bits): then what a rank knows is one stretch of blocks all the time.

**Cost**: ``log2(p)*alpha + (p-1)*n*beta`` for powers of two; in general a message for each f - 1. Swapped:
one block more, where p has two factors.

**Requires**: nothing; any number of ranks.

**Properties**: minimal volume and, for powers of two, fewest rounds; long messages go to near ranks, but
their blocks lie apart, unless they were swapped.

**Reference**: A. Faraj, X. Yuan: Automatic generation and tuning of MPI collective communication routines.
ICS 2005. doi:10.1145/1088149.1088202

>>> cost(8, 100), cost(8, 100, swapped=1)
(Cost(rounds=3, volume_bytes=700, reduced_bytes=0.0), Cost(rounds=4, volume_bytes=800, reduced_bytes=0.0))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from labkit.algorithms.allgather._mesh import line, nearest_first
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Section, Step, block, blocks
from labkit.schedule.doubling import backwards, prime_factors
from labkit.schedule.step import Ints

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, swapped: int = 0) -> Iterator[Step]:
    """Yield, from the first dimension on, the exchanges with all other ranks of the line."""
    me, dims = group.ranks, prime_factors(group.size)
    place = backwards(dims) if swapped else np.arange(group.size)
    start, is_own = np.argsort(place), place[me] == me
    yield group.copy(block("send"), block("recv", me), where=is_own)
    yield group.sendrecv(block("send"), start[me], block("recv", place[me]), place[me], where=~is_own)
    for axis in range(len(dims)):
        team = line(group, dims, axis)
        known = _stretch(dims, axis, place) if swapped else _apart(dims, axis)
        yield from nearest_first(team, known)


def _stretch(dims: Sequence[int], axis: int, place: NDArray[np.int64]) -> Callable[[Ints], Section]:
    """Return which blocks a rank knows before the exchange along an axis, when they were swapped."""
    length = prod(dims[:axis])
    return lambda rank: blocks("recv", place[rank] // length * length, length)


def _apart(dims: Sequence[int], axis: int) -> Callable[[Ints], Section]:
    """Return which blocks a rank knows otherwise: those of all ranks that agree with it from the axis on."""
    outer, span = prod(dims[:axis]), prod(dims[axis:])
    return lambda rank: blocks("recv", np.asarray(rank) % span, (outer - 1) * span + 1, 1, span)


def cost(ranks: int, n_bytes: float, swapped: int = 0) -> Cost:
    """Return the exact cost: d - 1 messages along a dimension of d ranks; every block arrives once."""
    dims = prime_factors(ranks)
    swap = int(swapped > 0 and len(dims) > 1)
    return Cost(sum(d - 1 for d in dims) + swap, (ranks - 1 + swap) * n_bytes)


ALGORITHM = Algorithm("recursive_halving", "allgather", schedule=rounds, cost=cost, parameters={"swapped": 0})
