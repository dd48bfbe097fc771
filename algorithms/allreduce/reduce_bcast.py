"""Allreduce as reduction and broadcast: up a binomial tree to rank 0, and down again.

In the way up every rank combines what its children send; the result goes the same ways back.

**Cost**: with L = ceil(log2 p): ``2L * (alpha + n*beta) + L*n*gamma``, for every p.

**Requires**: nothing; any number of ranks, any associative operator.

**Properties**: the baseline; operands in rank order, and all ranks get the result of the same combinations.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(8, 800)
Cost(rounds=6, volume_bytes=4800, reduced_bytes=2400)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block
from labkit.schedule.phases import down, up
from labkit.schedule.powers import ceil_log2
from labkit.schedule.team import everyone
from labkit.schedule.trees import knomial

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield the way up, then the way down."""
    team, tree = everyone(group), knomial(group.size, 2)
    yield group.copy(block("send"), block("recv"))
    yield from up(team, tree, lambda part: block("recv"), lambda part, turn: block("incoming"))
    yield from down(team, tree, lambda part: block("recv"), is_posted=False)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost: the levels of the tree, twice."""
    levels = ceil_log2(ranks)
    return Cost(2 * levels, 2 * levels * n_bytes, levels * n_bytes)


ALGORITHM = Algorithm(
    "reduce_bcast",
    "allreduce",
    schedule=rounds,
    cost=cost,
    temporaries=("incoming",),
)
