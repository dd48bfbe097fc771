"""Barrier in two levels: nodes report to their leaders, the leaders disseminate, the nodes are released.

A node is `node` consecutive ranks, led by the first one. Reports go up a binomial tree in every node; the
leaders tell each other by dissemination; then every node is released down its tree.

**Cost**: ``(2*ceil(log2 c) + ceil(log2 N)) * alpha`` for N nodes of c ranks.

**Requires**: nothing; any number of ranks. Parameter: `node` (ranks of a node).

**Properties**: between nodes only the leaders talk.

**Reference**: N. T. Karonis, B. R. de Supinski, I. Foster, W. Gropp, E. Lusk, J. Bresnahan: Exploiting
hierarchy in parallel computer networks to optimize collective operation performance. IPDPS 2000.
doi:10.1109/IPDPS.2000.846009

>>> cost(64, 0)
Cost(rounds=9, volume_bytes=0.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step
from labkit.schedule.doubling import ceil_log2, doublings
from labkit.schedule.group import leaders, members
from labkit.schedule.phases import down, up
from labkit.schedule.trees import knomial

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, node: int = 8) -> Iterator[Step]:
    """Yield the reports, the leaders' rounds, the releases."""
    inside, outside = members(group, node), leaders(group, node)
    tree = knomial(inside.largest, 2)
    yield from up(inside, tree, lambda part: None)
    n = outside.largest
    for distance in doublings(n):
        yield outside.sendrecv(None, (outside.number + distance) % n, None, (outside.number - distance) % n)
    yield from down(inside, tree, lambda part: None, is_posted=False)


def cost(ranks: int, n_bytes: float, node: int = 8) -> Cost:
    """Return the exact cost: the levels of a full node twice, the leaders' rounds once."""
    return Cost(2 * ceil_log2(min(node, ranks)) + ceil_log2(-(-ranks // node)))


ALGORITHM = Algorithm("smp", "barrier", schedule=rounds, cost=cost, parameters={"node": 8})
