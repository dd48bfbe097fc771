"""Allreduce by recursive doubling: partners at distance 1, 2, 4, ... exchange and combine everything.

In the round with distance d rank r exchanges its partial result with r XOR d, and both combine the two,
the lower rank's first: after the round every group of 2d ranks holds the group's result. If p is no power
of two, the first 2*(p - q) ranks (q the largest power of two in p) first fold in pairs: the even one hands
its operand to the odd one and gets the result at the end.

**Cost**: with q = 2**k <= p < 2q: k rounds of n bytes, and two more rounds if p > q:
``k * (alpha + n*beta + n*gamma)``, plus ``2*alpha + 2*n*beta + n*gamma`` if p is no power of two.

**Requires**: nothing; any number of ranks, any associative operator.

**Properties**: optimal in rounds for powers of two; operands in rank order. The volume is log2(p)
times the minimum: for short messages.

**Reference**: R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations
in MPICH. IJHPCA 19(1), 2005. doi:10.1177/1094342005051521

>>> cost(8, 100), cost(5, 100).rounds
(Cost(rounds=3, volume_bytes=300, reduced_bytes=300), 4)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block
from labkit.schedule.doubling import core_of, doublings, floor_power_of_two
from labkit.schedule.group import everyone

__all__ = ["ALGORITHM", "cost", "rounds"]

RESULT, INCOMING = block("recv"), block("incoming")


def rounds(group: Group) -> Iterator[Step]:
    """Yield fold, one step for each distance, unfold."""
    me, core = group.ranks, core_of(everyone(group))
    yield group.copy(block("send"), RESULT)
    yield (
        group.send(RESULT, to=core.neighbor, where=core.is_out)
        + group.recv(INCOMING, source=core.neighbor, where=core.has_out)
        + group.combine(INCOMING, RESULT, source_first=True, where=core.has_out)
    )
    number = core.number
    for distance in doublings(core.size):
        partner = number ^ distance
        peer = core.team_number(partner)
        yield group.sendrecv(RESULT, peer, INCOMING, peer, where=~core.is_out) + group.combine(
            INCOMING, RESULT, source_first=peer < me, where=~core.is_out
        )
    yield group.send(RESULT, to=core.neighbor, where=core.has_out)
    yield group.recv(RESULT, source=core.neighbor, where=core.is_out)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost: floor(log2 p) rounds, and the fold if p is no power of two."""
    core = floor_power_of_two(ranks)
    levels, fold = core.bit_length() - 1, int(ranks > core)
    return Cost(levels + 2 * fold, (levels + 2 * fold) * n_bytes, (levels + fold) * n_bytes)


ALGORITHM = Algorithm(
    "recursive_doubling", "allreduce", schedule=rounds, cost=cost, temporaries=("incoming",)
)
