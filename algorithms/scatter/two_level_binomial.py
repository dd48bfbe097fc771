"""Scatter in two levels: down a binomial tree to the leaders of nodes, then inside every node.

A node is `node` consecutive ranks; its leader is its first rank, or the root. The nodes
are numbered from the root's on. A leader passes the blocks of all nodes below it on in one message, keeps its
own node's, and hands them out. With the switch `near_first` it serves the nearest leaders first.

**Cost**: with N nodes of c ranks ``(ceil(log2 N) + c-1)*alpha + (p-1)*n*beta``; near first
for powers of two ``(L*(L+1)/2 + c-1)*alpha`` with L = log2 N.

**Requires**: nothing; any number of ranks, any root. Parameters: `node` (ranks of a node), `near_first`.

**Properties**: few messages between nodes; the leaders near the root need work buffers for all nodes below.

**Reference**: N. T. Karonis, B. R. de Supinski, I. Foster, W. Gropp, E. Lusk, J. Bresnahan: Exploiting
hierarchy in parallel computer networks to optimize collective operation performance. IPDPS 2000.
doi:10.1109/IPDPS.2000.846009

>>> cost(32, 100)
Cost(rounds=9, volume_bytes=3100, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from labkit.algorithms.gather import _passing
from labkit.algorithms.scatter.two_level_direct import hand_out
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary, blocks, whole
from labkit.schedule.doubling import ceil_log2, doublings
from labkit.schedule.group import leaders
from labkit.schedule.step import Ints

__all__ = ["ALGORITHM", "cost", "rounds"]


def _begin(group: Group, number: Ints, node: int) -> NDArray[np.int64]:
    """Return how many ranks are in the nodes before a number, counted from the root's node on."""
    p, home = group.size, group.root // node
    nodes = -(-p // node)
    at = (np.asarray(number) + home) % nodes * node
    return np.where(np.asarray(number) >= nodes, p, (at - home * node) % p)


def subtree_blocks(group: Group, node: int = 8) -> NDArray[np.int64]:
    """Return how many blocks pass through each rank's work buffer: those of all nodes below a leader."""
    outside = leaders(group, node, group.root)
    number, n = outside.number, outside.largest
    end = np.minimum(number + np.where(number == 0, n, number & -number), n)
    mine = _begin(group, end, node) - _begin(group, number, node)
    return np.where(outside.chosen(number > 0), mine, 0)


def rounds(group: Group, node: int = 8, near_first: int = 0) -> Iterator[Step]:
    """Yield the levels between leaders, then the messages inside nodes."""
    root, outside = group.root, leaders(group, node, group.root)
    number, n, is_root = outside.number, outside.largest, group.ranks == root
    home = root // node * node
    begin = _begin(group, number, node)

    def taken(distance: int) -> Step:
        return outside.recv(whole("node"), number - distance, where=number % (2 * distance) == distance)

    def given(distance: int) -> Step:
        is_parent = (number % (2 * distance) == 0) & (number + distance < n)
        child = np.minimum(number + distance, n)
        first, end = _begin(group, child, node), _begin(group, np.minimum(child + distance, n), node)
        return outside.send(
            blocks("send", home + first, end - first), child, where=is_parent & is_root
        ) + outside.send(blocks("node", first - begin, end - first), child, where=is_parent & ~is_root)

    if near_first:
        yield from map(taken, doublings(n))
        yield from map(given, doublings(n))
    else:
        for distance in reversed(doublings(n)):
            yield taken(distance) + given(distance)
    yield from hand_out(group, node)


def cost(ranks: int, n_bytes: float, node: int = 8, near_first: int = 0) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    nodes = -(-ranks // node)
    if near_first:
        messages, sent = _passing.near_first(nodes, 2, node, ranks)
        return Cost(messages, sent * n_bytes, is_bound=True)
    return Cost(ceil_log2(nodes) + min(node, ranks) - 1, (ranks - 1) * n_bytes)


ALGORITHM = Algorithm(
    "two_level_binomial",
    "scatter",
    schedule=rounds,
    cost=cost,
    temporaries=(Temporary("node", like="recv", blocks=subtree_blocks),),
    parameters={"node": 8, "near_first": 0},
)
