"""Gather up a k-nomial tree: subtrees' blocks travel together.

Ranks are numbered from the root on. For the distances d = k**i every number that is a multiple of k*d
receives from those j*d further on, j = 1 ... k - 1, the blocks of their subtrees, the nearest ones first.

**Cost**: ``(k-1)*log_k(p)*alpha + (p-1)*n*beta`` for powers of k; fewer messages where subtrees are missing.

**Requires**: nothing; any number of ranks, any root. Parameter: `radix` (k).

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


def rounds(group: Group, radix: int = 4) -> Iterator[Step]:
    """Yield one step for each distance and child."""
    root, is_root, is_inner = group.root, group.ranks == group.root, subtree_blocks(group, radix) > 0
    yield group.copy(block("send"), block("recv", root), where=is_root)
    yield group.copy(block("send"), block("subtree"), where=is_inner)
    for hop in _passing.hops(group, radix):
        at, child, received = hop.distance, hop.child, hop.n_blocks
        yield (
            group.send(whole("subtree"), hop.parent, where=hop.is_child & is_inner)
            + group.send(block("send"), hop.parent, where=hop.is_child & ~is_inner)
            + group.recv(blocks("subtree", at, received), child, where=hop.is_parent & is_inner)
            + group.recv(blocks("recv", child, received), child, where=hop.is_parent & is_root)
        )


def cost(ranks: int, n_bytes: float, radix: int = 4) -> Cost:
    """Return the exact cost (a bound, as messages differ in size) for blocks of `n_bytes`."""
    return Cost(tree_of(ranks, radix).up(), (ranks - 1) * n_bytes, is_bound=radix > 2)


ALGORITHM = Algorithm(
    "knomial",
    "gather",
    schedule=rounds,
    cost=cost,
    temporaries=(Temporary("subtree", like="send", blocks=subtree_blocks),),
    parameters={"radix": 4},
)
