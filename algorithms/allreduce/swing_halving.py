"""Allreduce by Swing for long messages: reduce-scatter and allgather with ranks that swing from side to side.

In round s a rank exchanges with the partner that Swing gives it (1, 1, 3, 5, 11, ... ranks away, to either
side in turn): of the blocks that it still works on it sends those that the partner reaches in later rounds,
and combines the others. The same rounds backwards collect the blocks. A block's place follows from the
choices on the way to its owner, so that what a message carries lies together. If p is no power of two,
neighbors fold in pairs.

**Cost**: as Rabenseifner: with q = 2**k <= p 2k rounds, ``2(q-1)/q*n`` bytes, and the fold.

**Requires**: a commutative operator; any number of ranks.

**Properties**: minimal volume in few rounds for powers of two; the large messages of the first rounds go to
near ranks, the far ones carry little. For short messages see `swing`.

**Reference**: D. De Sensi, T. Bonato, D. Saam, T. Hoefler: Swing: short-cutting rings for higher bandwidth
allreduce. NSDI 2024. doi:10.48550/arXiv.2401.09356

>>> labels(8).tolist()
[0, 7, 1, 4, 2, 5, 3, 6]
>>> cost(8, 800)
Cost(rounds=6, volume_bytes=1400.0, reduced_bytes=700.0)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from labkit.algorithms.allreduce._team import halving, halving_cost, into_recv
from labkit.algorithms.allreduce.swing import partner_of, rho
from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step
from labkit.schedule.doubling import floor_power_of_two
from labkit.schedule.group import everyone

__all__ = ["ALGORITHM", "cost", "labels", "rounds"]


def labels(p: int) -> NDArray[np.int64]:
    """Return the choices that lead to each of a power of two ranks: bit s is that of round s.

    From round s on messages reach, from an even rank, the even ranks equal to it modulo 2**(s + 1) and the
    odd ones rho(s) to the right of these. So an odd rank's bit is that of the even one rho(s + 1) before it.
    """
    rank, label = np.arange(p, dtype=np.int64), np.zeros(p, np.int64)
    levels = p.bit_length() - 1
    for s in range(levels - 1):
        even = np.where(rank % 2 == 0, rank, rank - rho(s + 1))
        label |= (even >> (s + 1) & 1) << s
    return label | (rank & 1) << max(levels - 1, 0)


def rounds(group: Group) -> Iterator[Step]:
    """Yield fold, halving, doubling, unfold."""
    core = floor_power_of_two(group.size)
    yield into_recv(group)
    yield from halving(everyone(group), labels(core), partner_of(core))


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost when the largest power of two in p divides the message."""
    return halving_cost(ranks, n_bytes)


ALGORITHM = Algorithm(
    "swing_halving",
    "allreduce",
    schedule=rounds,
    cost=cost,
    requirements=Requirements(commutative=True),
    parts=floor_power_of_two,
    temporaries=("incoming",),
)
