"""Reduction up a k-nomial tree: in each round every receiver combines what k - 1 others send.

Ranks are numbered from the root on. For the distances d = k**i, the smallest first, every number that is a
multiple of k*d receives from those j*d further on, j = 1 ... k - 1, and combines.

**Cost**: ``(k-1)*log_k(p) * (alpha + n*beta)`` for powers of k, less where subtrees are missing. Combining
adds as much as the messages, times gamma, at most: the next part is received meanwhile.

**Requires**: nothing; any number of ranks, any root, any associative operator. Parameters: `radix`
(k), `segments`, `ahead` (receives posted), `in_turn` (each send is waited for).

**Properties**: operands in rank order; with k = 2 the binomial tree.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(16, 800)
Cost(rounds=6, volume_bytes=4800.0, reduced_bytes=4800.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.reduce._tree import POSTING, TEMPORARIES, cost_of, rounds_below
from labkit.registry import Algorithm, Cost, in_segments
from labkit.schedule import Group, Step, trees

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(
    group: Group, radix: int = 4, segments: int = 1, ahead: int = 1, in_turn: int = 0
) -> Iterator[Step]:
    """Yield the message's way up, part by part."""
    first = group.root if group.commutative else 0
    tree = trees.knomial(group.size, radix)
    return rounds_below(group, tree, first, segments, ahead=ahead, in_turn=in_turn)


def cost(
    ranks: int, n_bytes: float, radix: int = 4, segments: int = 1, ahead: int = 1, in_turn: int = 0
) -> Cost:
    """Return the cost when the number of segments divides the message."""
    return cost_of(trees.knomial(ranks, radix), n_bytes, segments)


ALGORITHM = Algorithm(
    "knomial",
    "reduce",
    schedule=rounds,
    cost=cost,
    parts=in_segments(1),
    temporaries=TEMPORARIES,
    parameters={"radix": 4, "segments": 1, **POSTING},
)
