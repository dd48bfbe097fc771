"""Barrier by recursive doubling: partners at distance 1, 2, 4, ... tell each other.

In the round with distance d ranks r and r XOR d exchange empty messages. If p is no power of two, rank
r >= q (q the largest power of two in p) reports to r - q before, and hears from it at the end.

**Cost**: with q = 2**k <= p: k rounds, two more if p > q.

**Requires**: nothing; any number of ranks.

**Properties**: as fast as dissemination for powers of two; partners talk in both directions, which one
send-receive does.

**Reference**: R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations
in MPICH. IJHPCA 19(1), 2005. doi:10.1177/1094342005051521

>>> cost(8, 0)
Cost(rounds=3, volume_bytes=0.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step
from labkit.schedule.doubling import doublings, floor_power_of_two

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield the reports, one step for each distance, the releases."""
    me, p = group.ranks, group.size
    core = floor_power_of_two(p)
    is_late, has_late = me >= core, me + core < p
    yield group.send(None, to=me - core, where=is_late)
    yield group.recv(None, source=me + core, where=has_late)
    for distance in doublings(core):
        yield group.sendrecv(None, me ^ distance, None, me ^ distance, where=~is_late)
    yield group.send(None, to=me + core, where=has_late)
    yield group.recv(None, source=me - core, where=is_late)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost: floor(log2 p) rounds, and two for the rest."""
    core = floor_power_of_two(ranks)
    return Cost(core.bit_length() - 1 + 2 * int(ranks > core))


ALGORITHM = Algorithm("recursive_doubling", "barrier", schedule=rounds, cost=cost)
