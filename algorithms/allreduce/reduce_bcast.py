"""Allreduce as reduction and broadcast: up a binomial tree to rank 0, and down again.

In the way up every rank combines what its children send; the result goes the same ways back.

**Cost**: with L = ceil(log2 p): ``2L * (alpha + n*beta) + L*n*gamma``, for every p.

**Requires**: nothing; any number of ranks, any associative operator. Parameters: the switches
`ahead` (the next receive is posted before a message is waited for) and `binary` (up a binary tree, where the
operator commutes); `radix` of the tree down.

**Properties**: the baseline; operands in rank order, and all ranks get the result of the same combinations.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(8, 800)
Cost(rounds=6, volume_bytes=4800, reduced_bytes=2400)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.bcast.knomial import levels
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Section, Step, block
from labkit.schedule.doubling import ceil_log2
from labkit.schedule.group import everyone
from labkit.schedule.phases import down, up
from labkit.schedule.trees import kary, knomial

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, ahead: int = 0, binary: int = 0, radix: int = 2) -> Iterator[Step]:
    """Yield the way up, then the way down."""
    team, result = everyone(group), block("recv")
    yield group.copy(block("send"), result)

    def incoming(part: int, turn: int) -> Section:
        return block("incoming2" if ahead and turn % 2 else "incoming")

    tree = kary(group.size, 2) if binary and group.commutative else knomial(group.size, 2)
    yield from up(team, tree, lambda part: result, incoming, ahead=2 if ahead else 0)
    if radix > 2:
        yield from levels(team, radix, result)
    else:
        yield from down(team, knomial(group.size, 2), lambda part: result, is_posted=False)


def cost(ranks: int, n_bytes: float, ahead: int = 0, binary: int = 0, radix: int = 2) -> Cost:
    """Return the cost: the ways up and down the trees."""
    if not (ahead or binary or radix > 2):
        exact = ceil_log2(ranks)
        return Cost(2 * exact, 2 * exact * n_bytes, exact * n_bytes)
    rounds_up = (kary(ranks, 2) if binary else knomial(ranks, 2)).up(1)
    messages = rounds_up + knomial(ranks, radix, radix > 2).down(1)
    return Cost(messages, messages * n_bytes, rounds_up * n_bytes, is_bound=True)


ALGORITHM = Algorithm(
    "reduce_bcast",
    "allreduce",
    schedule=rounds,
    cost=cost,
    temporaries=("incoming", "incoming2"),
    parameters={"ahead": 0, "binary": 0, "radix": 2},
)
