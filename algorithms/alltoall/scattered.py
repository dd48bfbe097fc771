"""Alltoall in batches: only a few messages are posted at the same time.

The offsets i = 0, 1, ..., p - 1 are taken `outstanding` at a time: rank r posts the receives from r + i, the
sends to r - i (mod p), and waits for all of them before the next batch.

**Cost**: p - 1 messages through every port: ``(p-1) * (alpha + n*beta)``.

**Requires**: nothing; any number of ranks. Parameter: `outstanding`.

**Properties**: between the linear algorithm (all at once) and the exchange by shifts (one at once): few
requests to match, and yet rounds overlap.

**Reference**: R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations
in MPICH. IJHPCA 19(1), 2005. doi:10.1177/1094342005051521

>>> cost(8, 100)
Cost(rounds=7, volume_bytes=700, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, outstanding: int = 4, own_message: int = 0) -> Iterator[Step]:
    """Yield a batch of receives and sends, and a wait, until all are done."""
    me, p = group.ranks, group.size
    if not own_message:
        yield group.copy(block("send", me), block("recv", me))
    for first in range(0, p, outstanding):
        offsets = range(first if own_message else max(first, 1), min(first + outstanding, p))
        for i in offsets:
            yield group.irecv(block("recv", (me + i) % p), source=(me + i) % p)
        for i in offsets:
            yield group.isend(block("send", (me - i) % p), to=(me - i) % p)
        yield group.wait(bool(offsets))


def cost(ranks: int, n_bytes: float, outstanding: int = 4, own_message: int = 0) -> Cost:
    """Return the exact cost for blocks of `n_bytes`, however many are outstanding."""
    messages = ranks - 1 + bool(own_message)
    return Cost(messages, messages * n_bytes)


ALGORITHM = Algorithm(
    "scattered", "alltoall", schedule=rounds, cost=cost, parameters={"outstanding": 4, "own_message": 0}
)
