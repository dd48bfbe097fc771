"""Barrier by a token that goes around a ring twice.

The token starts at rank 0; every rank passes it on when it has entered. When it is back at rank 0 all have
entered, which the second turn tells them.

**Cost**: ``2p * alpha`` (p > 1).

**Requires**: nothing; any number of ranks.

**Properties**: one message under way at a time; of interest only as a baseline, or on rings.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(8, 0)
Cost(rounds=16, volume_bytes=0.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield two turns of the token."""
    me, p = group.ranks, group.size
    is_first = (me == 0) & (p > 1)
    for _ in range(2):
        yield group.recv(None, source=(me - 1) % p, where=me > 0)
        yield group.isend(None, to=(me + 1) % p, where=(me > 0) | is_first)
        yield group.recv(None, source=p - 1, where=is_first)
        yield group.wait(where=(me > 0) | is_first)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost: 2p messages, one after another."""
    return Cost(2 * ranks if ranks > 1 else 0)


ALGORITHM = Algorithm("double_ring", "barrier", schedule=rounds, cost=cost)
