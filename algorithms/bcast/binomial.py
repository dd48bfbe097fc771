"""Broadcast along a binomial tree: whoever has the message sends it on, so that holders double.

Ranks are numbered from the root on. In the round with distance d = 2**k (the largest first) every rank
whose number is a multiple of 2d, and so holds the message, sends it to the rank d further on. A rank
receives once, from the rank without its lowest set bit.

**Cost**: ceil(log2 p) rounds of n bytes for every p: ``ceil(log2 p) * (alpha + n*beta)``.

**Requires**: nothing; any number of ranks, any root.

**Properties**: optimal in rounds; the root sends ceil(log2 p) times, so long messages do better with a
scatter followed by an allgather, or with a pipeline.

**Reference**: S. L. Johnsson, C.-T. Ho: Optimum broadcasting and personalized communication in
hypercubes. IEEE Transactions on Computers 38(9), 1989. doi:10.1109/12.29465

>>> cost(5, 100)
Cost(rounds=3, volume_bytes=300, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block
from labkit.schedule.doubling import ceil_log2, doublings

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield one step for each level of the tree, from the root down."""
    me, p = group.ranks, group.size
    number = (me - group.root) % p
    message = block("data")
    for distance in reversed(doublings(p)):
        is_child = number % (2 * distance) == distance
        is_parent = (number % (2 * distance) == 0) & (number + distance < p)
        yield group.recv(message, source=(me - distance) % p, where=is_child) + group.send(
            message, to=(me + distance) % p, where=is_parent
        )


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost: ceil(log2 p) messages one after another."""
    levels = ceil_log2(ranks)
    return Cost(levels, levels * n_bytes)


ALGORITHM = Algorithm("binomial", "bcast", schedule=rounds, cost=cost)
