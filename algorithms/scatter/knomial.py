"""Scatter down a k-nomial tree: subtrees' blocks travel together.

Ranks are numbered from the root on. For the distances d = k**i every number that is a multiple of k*d sends
to those j*d further on, j = k - 1 ... 1, the blocks of their subtrees, the largest distance first. With the
switch `near_first` it begins with the nearest ones.

**Cost**: ``(k-1)*log_k(p)*alpha + (p-1)*n*beta`` for powers of k; fewer messages where subtrees are missing.
Near first every subtree waits for all smaller ones: for powers of 2 ``log2(p)*(log2(p)+1)/2`` messages.

**Requires**: nothing; any number of ranks, any root. Parameters: `radix` (k), `near_first`.

**Properties**: minimal volume at the root; k = 2 is the binomial tree, k = p the linear algorithm.

**Reference**: E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn: Collective communication: theory,
practice, and experience. Concurrency and Computation 19(13), 2007. doi:10.1002/cpe.1206

>>> cost(16, 800)
Cost(rounds=6, volume_bytes=12000, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from labkit.algorithms.gather import _passing
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary, block, blocks, whole
from labkit.schedule.trees import knomial as tree_of

__all__ = ["ALGORITHM", "cost", "rounds", "subtree_blocks"]


def subtree_blocks(group: Group, radix: int = 4) -> NDArray[np.int64]:
    """Return how many blocks pass through each rank's work buffer."""
    return _passing.subtree_blocks(group, radix)


def rounds(group: Group, radix: int = 4, near_first: int = 0) -> Iterator[Step]:
    """Yield one step for each distance and child; near first, what is received, then what is sent."""
    root, is_root, is_inner = group.root, group.ranks == group.root, subtree_blocks(group, radix) > 0

    def taken(hop: _passing.Hop) -> Step:
        return group.recv(whole("subtree"), hop.parent, where=hop.is_child & is_inner) + group.recv(
            block("recv"), hop.parent, where=hop.is_child & ~is_inner
        )

    def given(hop: _passing.Hop) -> Step:
        at, child, sent = hop.distance, hop.child, hop.n_blocks
        return group.send(blocks("subtree", at, sent), child, where=hop.is_parent & is_inner) + group.send(
            blocks("send", child, sent), child, where=hop.is_parent & is_root
        )

    if near_first:
        hops = list(_passing.hops(group, radix))
        yield from map(taken, hops)
        yield from map(given, hops)
    else:
        for hop in _passing.hops(group, radix, is_down=True):
            yield taken(hop) + given(hop)
    yield group.copy(block("send", root), block("recv"), where=is_root)
    yield group.copy(block("subtree"), block("recv"), where=is_inner)


def cost(ranks: int, n_bytes: float, radix: int = 4, near_first: int = 0) -> Cost:
    """Return the exact cost (a bound, as messages differ in size) for blocks of `n_bytes`."""
    if near_first:
        messages, sent = _passing.near_first(ranks, radix)
        return Cost(messages, sent * n_bytes, is_bound=True)
    return Cost(tree_of(ranks, radix).down(), (ranks - 1) * n_bytes, is_bound=radix > 2)


ALGORITHM = Algorithm(
    "knomial",
    "scatter",
    schedule=rounds,
    cost=cost,
    temporaries=(Temporary("subtree", like="recv", blocks=subtree_blocks),),
    parameters={"radix": 4, "near_first": 0},
)
