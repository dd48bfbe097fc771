"""Reduction up a binary tree whose subtrees are ranges of ranks: operands stay in order.

The last rank is at the top; below the top of a range stand the tops of the halves of the rest. Everyone puts
what comes from the nearer half in front of its own operand, and what comes from the farther one in front of
that. The result goes from the last rank to the root.

**Cost**: with m segments ``(d + 2*(m-1)) * (alpha + n/m*beta)`` (p > 2) with d messages until the first one
is done, and ``alpha + n*beta`` for the way to the root. Combining adds as much as the messages, times
gamma, at most: the next part is received meanwhile.

**Requires**: nothing; any number of ranks, any root, any associative operator. Parameter: `segments`.

**Properties**: operands in rank order in every part, for operators that do not commute.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(8, 800)
Cost(rounds=19, volume_bytes=2600.0, reduced_bytes=1800.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.reduce._tree import POSTING, TEMPORARIES, cost_of, rounds_below
from labkit.registry import Algorithm, Cost, in_segments
from labkit.schedule import Group, Step
from labkit.schedule.trees import in_order

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, segments: int = 8, ahead: int = 1, in_turn: int = 0) -> Iterator[Step]:
    """Yield the message's way up, part by part, and the result's way to the root."""
    return rounds_below(group, in_order(group.size), 0, segments, True, ahead, in_turn)


def cost(ranks: int, n_bytes: float, segments: int = 8, ahead: int = 1, in_turn: int = 0) -> Cost:
    """Return the cost for any root but the last rank when the number of segments divides the message."""
    found, home = cost_of(in_order(ranks), n_bytes, segments), int(ranks > 1)
    return Cost(found.rounds + home, found.volume_bytes + home * n_bytes, found.reduced_bytes, is_bound=True)


ALGORITHM = Algorithm(
    "in_order_binary",
    "reduce",
    schedule=rounds,
    cost=cost,
    parts=in_segments(8),
    temporaries=TEMPORARIES,
    parameters={"segments": 8, **POSTING},
)
