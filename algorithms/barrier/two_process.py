"""Barrier of two processes: one exchange of empty messages.

Each rank tells the other one that it is there.

**Cost**: one round: ``alpha``.

**Requires**: at most two ranks.

**Properties**: the special case that Open MPI keeps apart.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(2, 0)
Cost(rounds=1, volume_bytes=0.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield the one exchange."""
    me = group.ranks
    yield group.sendrecv(None, 1 - me, None, 1 - me, where=group.size == 2)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost: one round."""
    return Cost(ranks - 1)


ALGORITHM = Algorithm(
    "two_process",
    "barrier",
    schedule=rounds,
    cost=cost,
    requirements=Requirements(max_ranks=2),
)
