"""Reduction up a k-nomial tree: in each round every receiver combines what k - 1 others send.

Ranks are numbered from the root on. For the distances d = k**i, the smallest first, every number that is a
multiple of k*d receives from those j*d further on, j = 1 ... k - 1, and combines.

**Cost**: ``(k-1)*log_k(p) * (alpha + n*beta)`` for powers of k, less where subtrees are missing. Combining
adds as much as the messages, times gamma, at most: the next part is received meanwhile.

**Requires**: nothing; any number of ranks, any root, any associative operator. Parameter: `radix` (k).

**Properties**: operands in rank order; with k = 2 the binomial tree.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(16, 800)
Cost(rounds=6, volume_bytes=4800.0, reduced_bytes=4800.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.reduce._tree import TEMPORARIES, cost_of, rounds_below
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, trees

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, radix: int = 4) -> Iterator[Step]:
    """Yield the message's way up, part by part."""
    first = group.root if group.commutative else 0
    return rounds_below(group, trees.knomial(group.size, radix), first)


def cost(ranks: int, n_bytes: float, radix: int = 4) -> Cost:
    """Return the cost when the number of segments divides the message."""
    return cost_of(trees.knomial(ranks, radix), n_bytes, 1)


ALGORITHM = Algorithm(
    "knomial",
    "reduce",
    schedule=rounds,
    cost=cost,
    temporaries=TEMPORARIES,
    parameters={"radix": 4},
)
