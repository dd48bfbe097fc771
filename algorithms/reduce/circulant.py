"""Reduction over a circulant graph: the round-optimal broadcast backwards.

The rounds are those of the broadcast (`bcast/circulant.py`) in reverse order: what a rank received there it
sends here, to where it came from, and what it sent there it receives and combines with its own. When it sends
a segment it has combined all that others have sent it of that segment.

**Cost**: with m segments ``(m - 1 + ceil(log2 p)) * (alpha + n/m*beta + n/m*gamma)``, for every p > 1.

**Requires**: a commutative operator; any number of ranks, any root. Parameter: `segments` (m).

**Properties**: the fewest rounds with one port each way, for every p and m.

**Reference**: J. L. Träff: Optimal broadcast schedules in logarithmic time with applications to broadcast,
all-broadcast, reduction and all-reduction. 2024. doi:10.48550/arXiv.2407.18004

>>> cost(17, 800)
Cost(rounds=12, volume_bytes=1200.0, reduced_bytes=1200.0)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.bcast import circulant
from labkit.registry import Algorithm, Cost, Requirements, in_segments
from labkit.schedule import Group, Step, Temporary, block, whole
from labkit.schedule.group import everyone

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, segments: int = 8) -> Iterator[Step]:
    """Yield two steps for each round: messages, and what is combined."""
    team = everyone(group, group.root)
    me = team.number
    yield group.copy(whole("send"), whole("partial"))
    for hop, received, sent in reversed(list(circulant.turns(group.size, segments))):
        goes, comes = received[me], sent[me]
        yield (
            team.irecv(block("incoming", comes), me + hop, where=comes >= 0)
            + team.isend(block("partial", goes), me - hop, where=goes >= 0)
            + team.wait()
        )
        yield team.combine(block("incoming", comes), block("partial", comes), where=comes >= 0)
    yield group.copy(whole("partial"), whole("recv"), where=me == 0)


def cost(ranks: int, n_bytes: float, segments: int = 8) -> Cost:
    """Return the exact cost when the number of segments divides the message."""
    one_way = circulant.cost(ranks, n_bytes, segments)
    return Cost(one_way.rounds, one_way.volume_bytes, one_way.volume_bytes)


ALGORITHM = Algorithm(
    "circulant",
    "reduce",
    schedule=rounds,
    cost=cost,
    requirements=Requirements(commutative=True),
    parts=in_segments(8),
    temporaries=tuple(Temporary(name, like="send") for name in ("partial", "incoming")),
    parameters={"segments": 8},
)
