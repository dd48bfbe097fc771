"""Broadcast around a ring, in parts: every rank passes on what it got while the next part arrives.

Ranks are numbered from the root on; rank k receives from k - 1 and sends to k + 1. The message is cut into p
parts, which follow one another: after the first p - 1 steps every link of the ring is at work.

**Cost**: p - 1 steps until the first part is at the last rank, p - 1 more until the last one is:
``(2p - 2) * (alpha + n/p*beta)``, for every p > 1.

**Requires**: nothing; any number of ranks, any root.

**Properties**: every rank sends the message at most once, so for long messages it takes less than two
messages' time, whatever p is; for short ones the 2p - 2 start-ups count. Only neighbors talk.

**Reference**: E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn: Collective communication: theory,
practice, and experience. Concurrency and Computation 19(13), 2007. doi:10.1002/cpe.1206

>>> cost(5, 100)
Cost(rounds=8, volume_bytes=160.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, block

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group) -> Iterator[Step]:
    """Yield one step for each part: take it from the left, pass it to the right."""
    me, p = group.ranks, group.size
    number = (me - group.root) % p
    left, right = (me - 1) % p, (me + 1) % p
    for part in range(p):
        message = block("data", part)
        yield group.recv(message, left, where=number > 0) + group.isend(message, right, where=number < p - 1)
    yield group.wait(where=number < p - 1)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return the exact cost when p divides the message."""
    if ranks == 1:
        return Cost(0, 0.0)
    return Cost(2 * ranks - 2, (2 * ranks - 2) * n_bytes / ranks)


def parts_of_message(ranks: int) -> int:
    """Return p: as many parts as ranks."""
    return ranks


ALGORITHM = Algorithm("ring", "bcast", schedule=rounds, cost=cost, parts=parts_of_message)
