"""Inclusive prefix sums up and down a binomial tree: few messages, in twice the rounds.

Up: for d = 1, 2, 4, ... rank r with r + 1 a multiple of 2d puts the sum that r - d has in front of its own;
it then has that of its last 2d ranks. Down: for d = ..., 4, 2, 1 such a rank, which has its prefix by now,
sends it to r + d, which puts it in front of its own sum.

**Cost**: ``2*log2(p) - 1`` messages of n bytes for powers of two; combinations about as many.

**Requires**: nothing; any number of ranks, any associative operator.

**Properties**: about 2p messages in all, not p*log2 p as recursive doubling, so less traffic; operands in
rank order. Who sends twice does not wait for the first receiver's combination: a bound.

**Reference**: P. Sanders, J. L. Träff: Parallel prefix (scan) algorithms for MPI. EuroPVM/MPI 2006, LNCS
4192. doi:10.1007/11846802_15

>>> cost(8, 800)
Cost(rounds=5, volume_bytes=4000, reduced_bytes=3200)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block
from labkit.schedule.doubling import doublings

__all__ = ["ALGORITHM", "cost", "rounds"]


def _longest(p: int, message: int, combination: int) -> int:
    """Return when the last rank is done, if messages and combinations last so long."""
    done = [0] * p

    def pass_on(source: int, distance: int) -> None:
        if source + distance < p:
            end = max(done[source], done[source + distance]) + message
            done[source], done[source + distance] = end, end + combination

    for distance in doublings(p):
        for source in range(distance - 1, p, 2 * distance):
            pass_on(source, distance)
    for distance in reversed(doublings(p)):
        for source in range(2 * distance - 1, p, 2 * distance):
            pass_on(source, distance)
    return max(done)


def rounds(group: Group) -> Iterator[Step]:
    """Yield the way up, then the way down."""
    me, p = group.ranks, group.size
    total, incoming = block("recv"), block("incoming")
    yield group.copy(block("send"), total)
    for distance in doublings(p):
        is_end = (me + 1) % (2 * distance) == 0
        is_middle = ((me + 1) % (2 * distance) == distance) & (me + distance < p)
        yield group.send(total, to=me + distance, where=is_middle)
        yield group.recv(incoming, source=me - distance, where=is_end)
        yield group.combine(incoming, total, source_first=True, where=is_end)
    for distance in reversed(doublings(p)):
        is_end = ((me + 1) % (2 * distance) == 0) & (me + distance < p)
        is_next = ((me + 1) % (2 * distance) == distance) & (me > distance)
        yield group.send(total, to=me + distance, where=is_end)
        yield group.recv(incoming, source=me - distance, where=is_next)
        yield group.combine(incoming, total, source_first=True, where=is_next)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost: the longest way of messages, and that of combinations."""
    return Cost(_longest(ranks, 1, 0), n_bytes * _longest(ranks, 1, 0), n_bytes * _longest(ranks, 0, 1), True)


ALGORITHM = Algorithm(
    "binomial",
    "scan",
    schedule=rounds,
    cost=cost,
    temporaries=("incoming",),
)
