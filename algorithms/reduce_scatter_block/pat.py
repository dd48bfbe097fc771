"""Reduce-scatter by parallel aggregated trees (PAT): the allgather's messages backwards, combined on the way.

What rank r + d would get from r in the allgather, r gets from r + d: partial results of these blocks, nearest
ranks first, and combines them with its own.

**Cost**: p - 1 blocks of n bytes, all combined, in as many messages as the allgather: with no limit
``ceil(log2 p)*alpha + (p-1)*n*(beta + gamma)``, for every p.

**Requires**: a commutative operator; any number of ranks. Parameter: `together` (blocks in a message).

**Properties**: the fewest bytes over far links, whose messages come last.

**Reference**: S. Jeaugey: PAT: a new algorithm for all-gather and reduce-scatter operations at scale. 2025.
doi:10.48550/arXiv.2506.20252

>>> cost(5, 800)
Cost(rounds=3, volume_bytes=3200, reduced_bytes=3200)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.allgather.pat import messages
from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step, Temporary, block, whole

__all__ = ["ALGORITHM", "cost", "rounds"]

TEMPORARIES = (Temporary("partial", like="send"), Temporary("incoming", like="send"))


def rounds(group: Group, together: int = 8) -> Iterator[Step]:
    """Yield one exchange for each message of the allgather, the last one first."""
    me, p = group.ranks, group.size
    yield group.copy(whole("send"), whole("partial"))
    for message in reversed(messages(p, together)):
        target, source = (me - message.distance) % p, (me + message.distance) % p
        incoming = message.section("incoming", me)
        yield group.sendrecv(message.section("partial", target), target, incoming, source)
        yield group.combine(incoming, message.section("partial", me))
    yield group.copy(block("partial", me), block("recv"))


def cost(ranks: int, n_bytes: float, together: int = 8) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    n = (ranks - 1) * n_bytes
    return Cost(len(messages(ranks, together)), n, n)


ALGORITHM = Algorithm(
    "pat",
    "reduce_scatter_block",
    schedule=rounds,
    cost=cost,
    requirements=Requirements(commutative=True),
    temporaries=TEMPORARIES,
    parameters={"together": 8},
)
