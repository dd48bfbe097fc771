"""Broadcast over a circulant graph: round-optimal for every number of ranks and of segments.

With q = ceil(log2 p) and the skips s_q = p, s_k = ceil(s_{k+1}/2), a rank sends one segment to the rank s_k
further on and receives one from the rank s_k before it, for k = 0, 1, ..., q - 1 over and over; ranks are
numbered from the root on. A number that is, taken greedily, a sum of skips whose smallest is s_b has the
base block b: the first one of the root's q first segments that reaches it. In round k a rank receives the
largest base block, not taken in another round, of those numbered from s_{k+1} before it (itself left out) to
s_k before it, its own last; what stands for segments of q rounds ago is counted from -q on. Nobody sends what
it does not have, and in q rounds everybody gets q different segments.

**Cost**: with m segments q - 1 rounds more than segments: ``(m - 1 + ceil(log2 p)) * (alpha + n/m*beta)``,
for every p > 1, which is the least with one port each way.

**Requires**: nothing; any number of ranks, any root. Parameter: `segments` (m).

**Properties**: with m = 1 as many rounds as a binomial tree, with many segments nearly the volume of a
pipeline; the best m is sqrt((ceil(log2 p)-1)*n*beta/alpha).

**Reference**: J. L. Träff: Optimal broadcast schedules in logarithmic time with applications to broadcast,
all-broadcast, reduction and all-reduction. 2024. doi:10.48550/arXiv.2407.18004

>>> cost(17, 800)
Cost(rounds=12, volume_bytes=1200.0, reduced_bytes=0.0)
>>> received(17)[:, 9]
array([-3, -4, -2, -5,  4])
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.registry import Algorithm, Cost, in_segments
from labkit.schedule import Group, Step, block
from labkit.schedule.doubling import ceil_log2
from labkit.schedule.group import everyone

__all__ = ["ALGORITHM", "Turn", "cost", "received", "rounds", "skips", "turns"]

Numbers = NDArray[np.int64]


#: instead of a base block or a segment: there is none
NONE = -1


class Turn(NamedTuple):
    """One round of all numbers: how far messages go, and which segments they are; negative: no message."""

    skip: int
    received: Numbers
    sent: Numbers


def skips(p: int) -> list[int]:
    """Return 1, ..., ceil(p/4), ceil(p/2), p.

    Examples
    --------
    >>> skips(17)
    [1, 2, 3, 5, 9, 17]
    """
    found = [p]
    while found[-1] > 1:
        found.append(-(-found[-1] // 2))
    return found[::-1]


@lru_cache(maxsize=16)
def received(p: int) -> Numbers:
    """Return which of the root's segments arrive in q rounds, of shape (q, p); negative: q later."""
    skip = skips(p)
    q, number = len(skip) - 1, np.arange(p)
    base = _base_blocks(skip, 2 * p)
    counted = np.zeros((q + 1, 2 * p + 1), np.int64)
    counted[:, 1:] = np.cumsum(base[None, :] == np.arange(q + 1)[:, None], axis=1)
    own = base[:p].copy()
    own[0] = q
    taken = np.zeros((q + 1, p), bool)
    taken[own, number] = True
    result = np.empty((q, p), np.int64)
    for k in range(q):
        begin, end = number + p - skip[k + 1], number + p - skip[k]  # those after begin, end included
        largest = np.full(p, NONE)
        for b in range(q + 1):
            largest = np.where((counted[b, end + 1] > counted[b, begin + 1]) & ~taken[b], b, largest)
        at_begin = np.where(taken[base[begin], number], NONE, base[begin])
        largest = np.where(largest == NONE, at_begin, largest)
        taken[largest, number] = True
        result[k] = np.where(largest == q, own, largest - q)
    return result


def _base_blocks(skip: list[int], end: int) -> Numbers:
    """Return the index of the smallest skip in the greedy sum of each number below `end` (0: the last's)."""
    rest, base = np.arange(end), np.full(end, len(skip) - 1)
    for k in reversed(range(len(skip))):
        has = rest >= skip[k]
        base[has] = k
        rest = rest - has * skip[k]
    return base


def turns(p: int, segments: int) -> Iterator[Turn]:
    """Yield the rounds in which the first number's segments come to all others; nothing for one rank."""
    skip = skips(p)
    q = len(skip) - 1
    if q == 0:
        return
    arriving, number = received(p), np.arange(p)
    late = -(segments - 1) % q  # the first rounds would carry nothing
    for i in range(late, late + segments - 1 + q):
        k, first = i % q, i // q * q - late
        came = np.where(number > 0, np.minimum(arriving[k] + first, segments - 1), NONE)
        yield Turn(skip[k], came, came[(number + skip[k]) % p])


def rounds(group: Group, segments: int = 8) -> Iterator[Step]:
    """Yield a step for each round."""
    team = everyone(group, group.root)
    me = team.number
    for hop, received_, sent in turns(group.size, segments):
        comes, goes = received_[me], sent[me]
        yield (
            team.irecv(block("data", comes), me - hop, where=comes >= 0)
            + team.isend(block("data", goes), me + hop, where=goes >= 0)
            + team.wait()
        )


def cost(ranks: int, n_bytes: float, segments: int = 8) -> Cost:
    """Return the exact cost when the number of segments divides the message."""
    if ranks == 1:
        return Cost(0, 0.0)
    n_rounds = segments - 1 + ceil_log2(ranks)
    return Cost(n_rounds, n_rounds * n_bytes / segments)


ALGORITHM = Algorithm(
    "circulant",
    "bcast",
    schedule=rounds,
    cost=cost,
    parts=in_segments(8),
    parameters={"segments": 8},
)
