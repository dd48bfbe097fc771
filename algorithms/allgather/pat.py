"""Allgather by parallel aggregated trees (PAT): far messages first and small, no message above a limit.

The block of each rank goes down a binomial tree of its own, to far ranks first. In a message over distance d
rank r sends r + d some of the blocks that it has, and receives from r - d those that lie d before them. The
trees' messages over one distance go together as long as no more than `together` blocks are in a message;
beyond that the trees are gone through depth first, a group of blocks after the other.

**Cost**: p - 1 blocks of n bytes for every p: with no limit sparbit's ``ceil(log2 p)*alpha + (p-1)*n*beta``;
with together = 1 there are p - 1 messages; in between about p/together more than log2 p.

**Requires**: nothing; any number of ranks. Parameter: `together`.

**Properties**: the fewest bytes over far links; where blocks are forwarded from buffers of their own, few of
these suffice, whatever p is.

**Reference**: S. Jeaugey: PAT: a new algorithm for all-gather and reduce-scatter operations at scale. 2025.
doi:10.48550/arXiv.2506.20252

>>> cost(16, 100, together=8), cost(16, 100, together=2), cost(16, 100, together=1)
(Cost(rounds=4, volume_bytes=1500, reduced_bytes=0.0), Cost(rounds=8, volume_bytes=1500, reduced_bytes=0.0), \
Cost(rounds=15, volume_bytes=1500, reduced_bytes=0.0))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Section, Step, block, blocks
from labkit.schedule.doubling import doublings
from labkit.schedule.step import Ints

__all__ = ["ALGORITHM", "Message", "cost", "messages", "rounds"]


@dataclass(frozen=True)
class Message:
    """What every rank r sends to r + distance: its blocks r - first - i*stride, i < count."""

    distance: int
    first: int
    stride: int
    count: int

    def section(self, buffer: str, origin: Ints) -> Section:
        """Return the blocks of the message that a rank, the origin, sends."""
        span = (self.count - 1) * self.stride
        return blocks(buffer, origin - self.first - span, span + 1, 1, self.stride)


def messages(p: int, together: int) -> list[Message]:
    """Return the messages of every rank, in order."""
    found: list[Message] = []

    def spread(level: int, first: int, stride: int, count: int) -> None:
        """Pass on the blocks r - first - i*stride, i < count, over this distance and the nearer ones."""
        if level < 0:
            return
        distance = distances[level]
        moved = sum(first + i * stride + distance < p for i in range(count))
        if moved:
            found.append(Message(distance, first, stride, moved))
        if 2 * count <= together and stride == 2 * distance:
            spread(level - 1, first, distance, count + moved)
        else:
            spread(level - 1, first, stride, count)
            if moved:
                spread(level - 1, first + distance, stride, moved)

    distances = doublings(p)
    if distances:
        spread(len(distances) - 1, 0, 2 * distances[-1], 1)
    return found


def rounds(group: Group, together: int = 8) -> Iterator[Step]:
    """Yield one exchange for each message."""
    me, p = group.ranks, group.size
    yield group.copy(block("send"), block("recv", me))
    for message in messages(p, together):
        source = (me - message.distance) % p
        yield group.sendrecv(
            message.section("recv", me), (me + message.distance) % p, message.section("recv", source), source
        )


def cost(ranks: int, n_bytes: float, together: int = 8) -> Cost:
    """Return the exact cost for blocks of `n_bytes`."""
    return Cost(len(messages(ranks, together)), (ranks - 1) * n_bytes)


ALGORITHM = Algorithm("pat", "allgather", schedule=rounds, cost=cost, parameters={"together": 8})
