"""Allreduce around a ring, in phases: every block goes around in segments, one phase after the other.

The message is cut into p blocks of m segments. In each of m phases every rank passes a segment to its right
and combines the one from its left, p - 1 times; then the whole blocks travel around once more.

**Cost**: ``(m+1)*(p-1)*alpha + 2(p-1)/p*n*beta + (p-1)/p*n*gamma``.

**Requires**: a commutative operator; any number of ranks. Parameter: `segments`.

**Properties**: as the ring, with messages small enough for caches and buffers in the part that combines.

**Reference**: J. Pjesivac-Grbovic et al.: Performance analysis of MPI collective operations. Cluster
Computing 10(2), 2007. doi:10.1007/s10586-007-0012-0

>>> cost(8, 800)
Cost(rounds=35, volume_bytes=1400.0, reduced_bytes=700.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step, block, blocks, whole

__all__ = ["ALGORITHM", "cost", "rounds"]


def parts_of_message(ranks: int, segments: int = 4) -> int:
    """Return how many segments there are in all."""
    return ranks * segments


def rounds(group: Group, segments: int = 4) -> Iterator[Step]:
    """Yield m times p - 1 steps that combine, then p - 1 steps that only pass on."""
    me, p = group.ranks, group.size
    left, right = (me - 1) % p, (me + 1) % p
    yield group.copy(whole("send"), whole("recv"))
    for segment in range(segments):
        for i in range(p - 1):
            passed, arriving = ((me - i - hop) % p * segments + segment for hop in (0, 1))
            yield group.sendrecv(block("recv", passed), right, block("incoming", arriving), left)
            yield group.combine(block("incoming", arriving), block("recv", arriving))
    for i in range(p - 1):
        known, new = (blocks("recv", (me + 1 - i - hop) % p * segments, segments) for hop in (0, 1))
        yield group.sendrecv(known, right, new, left)


def cost(ranks: int, n_bytes: float, segments: int = 4) -> Cost:
    """Return the exact cost when p times the number of segments divides the message."""
    volume = (ranks - 1) * n_bytes / ranks
    return Cost((segments + 1) * (ranks - 1), 2 * volume, volume)


ALGORITHM = Algorithm(
    "ring_segmented",
    "allreduce",
    schedule=rounds,
    cost=cost,
    requirements=Requirements(commutative=True),
    parts=parts_of_message,
    temporaries=("incoming",),
    parameters={"segments": 4},
)
