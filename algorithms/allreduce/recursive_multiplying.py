"""Allreduce by recursive multiplying: groups of k exchange all they have, round after round.

Runs of neighbors stand for p ranks: with q the largest power of k in p, every run of p/q ranks, rounded up
or down, first hands its operands to its first rank, which tells them the result at the end. In the round
with distance d = 1, k, k**2, ... the k ranks whose numbers differ in that digit only send each other all
they have, and combine.

**Cost**: with q = k**i = p: ``i*(k-1) * (alpha + n*beta + n*gamma)``; otherwise with runs of s ranks
``2(s-1)`` messages and s - 1 combinations more.

**Requires**: nothing; any number of ranks, any associative operator. Parameter: `radix`.

**Properties**: with k = 2 recursive doubling; a larger k has fewer rounds where a rank's start-ups overlap.
Operands in rank order: what wraps around is collected apart.

**Reference**: M. Ruefenacht, M. Bull, S. Booth: Generalisation of recursive doubling for AllReduce. Parallel
Computing 69, 2017. doi:10.1016/j.parco.2017.08.004

>>> cost(64, 800)
Cost(rounds=9, volume_bytes=7200, reduced_bytes=7200)
"""

from __future__ import annotations

from collections.abc import Iterator

from labkit.algorithms.allreduce._runs import core_and_run, runs_of
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, Temporary, block

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, radix: int = 4) -> Iterator[Step]:
    """Yield fold, k - 1 exchanges for each digit, unfold."""
    runs = runs_of(group, max(radix, 2))
    total, incoming = block("recv"), block("incoming")
    sent, above = block("sent"), block("above")
    yield group.copy(block("send"), total)
    yield from runs.fold(total, incoming)
    for distance in runs.distances:
        digit = runs.number // distance % runs.radix
        yield group.copy(total, sent, where=runs.is_first)
        for j in range(1, runs.radix):
            to, source = (runs.rank_at(distance, (digit + s) % runs.radix) for s in (j, -j))
            is_in_front = runs.is_first & ((digit >= j) | group.commutative)
            is_last = runs.is_first & ~is_in_front & (j == digit + 1)
            is_above = runs.is_first & ~is_in_front & (j > digit + 1)
            yield (
                group.isend(sent, to, where=runs.is_first)
                + group.irecv(above, source, where=is_last)
                + group.irecv(incoming, source, where=runs.is_first & ~is_last)
                + group.wait(where=runs.is_first)
                + group.combine(incoming, total, source_first=True, where=is_in_front)
                + group.combine(incoming, above, source_first=True, where=is_above)
            )
        if not group.commutative:
            has_above = runs.is_first & (digit < runs.radix - 1)
            yield group.combine(above, total, source_first=False, where=has_above)
    yield from runs.unfold(total)


def cost(ranks: int, n_bytes: float, radix: int = 4) -> Cost:
    """Return the exact cost for operators that commute."""
    _, rounds_, size = core_and_run(ranks, max(radix, 2))
    exchanges, fold = rounds_ * (max(radix, 2) - 1), size - 1
    return Cost(exchanges + 2 * fold, (exchanges + 2 * fold) * n_bytes, (exchanges + fold) * n_bytes)


ALGORITHM = Algorithm(
    "recursive_multiplying",
    "allreduce",
    schedule=rounds,
    cost=cost,
    temporaries=(Temporary("incoming"), Temporary("sent"), Temporary("above")),
    parameters={"radix": 4},
)
