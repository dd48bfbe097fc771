"""Alltoall in one go: everyone posts all its receives and sends, then waits.

Rank r posts its receives from r + 1, r + 2, ... and its sends to r - 1, r - 2, ... (mod p), so that not
all ranks start with the same target; with the switch `in_order` both begin with rank 0.

**Cost**: p - 1 messages through every port: ``(p-1) * (alpha + n*beta)``. In order the first that
find both ports free are r and r XOR i in round i, as many rounds as the next power of two has.

**Requires**: nothing; any number of ranks. Parameter: `in_order`.

**Properties**: nobody waits for a round to end, but all p*(p-1) messages are under way at once and share
the network's links.

**Reference**: R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations
in MPICH. IJHPCA 19(1), 2005. doi:10.1177/1094342005051521

>>> cost(5, 100)
Cost(rounds=4, volume_bytes=400, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block
from labkit.schedule.doubling import ceil_log2

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, in_order: int = 0) -> Iterator[Step]:
    """Yield all receives, all sends, one wait."""
    me, p = group.ranks, group.size
    yield group.copy(block("send", me), block("recv", me))
    for i in range(p - 1):
        source = i + (me <= i) if in_order else (me + 1 + i) % p
        yield group.irecv(block("recv", source), source)
    for i in range(p - 1):
        to = i + (me <= i) if in_order else (me - 1 - i) % p
        yield group.isend(block("send", to), to)
    yield group.wait()


def cost(ranks: int, n_bytes: float, in_order: int = 0) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    messages = (1 << ceil_log2(ranks) if in_order else ranks) - 1
    return Cost(messages, messages * n_bytes)


ALGORITHM = Algorithm("linear", "alltoall", schedule=rounds, cost=cost, parameters={"in_order": 0})
