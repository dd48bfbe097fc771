"""Allreduce as reduce-scatter and allgather of any radix.

Runs of neighbors stand for p ranks: with q the largest power of k in p, every run of p/q ranks, rounded up
or down, first hands its operands to its first rank, which tells them the result at the end. In the round
with distance d = 1, k, k**2, ... the k ranks whose numbers differ in that digit only share the range of
blocks they all work on: each gets a k-th of it from the others, and combines. The same rounds backwards
collect the blocks.

**Cost**: with q = k**i = p: ``2*i*(k-1)*alpha + 2(q-1)/q*n*beta + (q-1)/q*n*gamma``; otherwise with runs of
s ranks 2(s-1) messages of n bytes and s - 1 combinations more.

**Requires**: a commutative operator; any number of ranks. Parameter: `radix`.

**Properties**: with k = 2 Rabenseifner's algorithm; minimal volume for every k, with fewer and more crowded
rounds.

**Reference**: M. Wilkins, H. Wang, P. Liu, B. Pham, Y. Guo, R. Thakur, P. Dinda, N. Hardavellas: Generalized
collective algorithms for the exascale era. CLUSTER 2023. doi:10.1109/CLUSTER52292.2023.00013

>>> cost(64, 800)
Cost(rounds=18, volume_bytes=1575.0, reduced_bytes=787.5)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labkit.algorithms.allreduce._runs import core_and_run, runs_of
from labkit.registry import Algorithm, Cost, Requirements
from labkit.schedule import Group, Step, blocks, whole

__all__ = ["ALGORITHM", "cost", "rounds"]


def parts_of_message(ranks: int, radix: int = 4) -> int:
    """Return the largest power of the radix in p."""
    return core_and_run(ranks, max(radix, 2))[0]


def rounds(group: Group, radix: int = 4) -> Iterator[Step]:
    """Yield fold, the reduce-scatter, its rounds backwards, unfold."""
    runs = runs_of(group, max(radix, 2))
    first, length, ranges = np.zeros_like(group.ranks), runs.size, []
    yield group.copy(whole("send"), whole("recv"))
    yield from runs.fold(whole("recv"), whole("incoming"))
    for distance in runs.distances:
        digit = runs.number // distance % runs.radix
        length //= runs.radix
        kept = first + digit * length
        received = blocks("incoming", kept, length)
        for j in range(1, runs.radix):
            to, source = ((digit + s) % runs.radix for s in (j, -j))
            yield group.sendrecv(
                blocks("recv", first + to * length, length),
                runs.rank_at(distance, to),
                received,
                runs.rank_at(distance, source),
                where=runs.is_first,
            ) + group.combine(received, blocks("recv", kept, length), where=runs.is_first)
        ranges.append((distance, digit, first, length))
        first = kept
    for distance, digit, first, length in reversed(ranges):
        for j in range(1, runs.radix):
            to, source = ((digit + s) % runs.radix for s in (j, -j))
            yield group.sendrecv(
                blocks("recv", first + digit * length, length),
                runs.rank_at(distance, to),
                blocks("recv", first + source * length, length),
                runs.rank_at(distance, source),
                where=runs.is_first,
            )
    yield from runs.unfold(whole("recv"))


def cost(ranks: int, n_bytes: float, radix: int = 4) -> Cost:
    """Return the exact cost when the number of parts divides the message."""
    core, rounds_, size = core_and_run(ranks, max(radix, 2))
    exchanges, fold = rounds_ * (max(radix, 2) - 1), size - 1
    volume = (core - 1) * n_bytes / core
    return Cost(2 * (exchanges + fold), 2 * (volume + fold * n_bytes), volume + fold * n_bytes)


ALGORITHM = Algorithm(
    "reduce_scatter_allgather",
    "allreduce",
    schedule=rounds,
    cost=cost,
    requirements=Requirements(commutative=True),
    parts=parts_of_message,
    temporaries=("incoming",),
    parameters={"radix": 4},
)
