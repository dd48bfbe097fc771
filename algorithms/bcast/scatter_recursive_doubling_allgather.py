"""Broadcast of long messages: a scatter, then an allgather by recursive doubling.

The message is cut into q parts, q the largest power of two in p. A binomial tree brings part v to number v
(counted from the root on); then numbers v and v XOR d, d = 1, 2, 4, ..., swap all they have. If p > q, number
v - q hands the whole message to number v at the end. With the switch `subtrees` there are p parts, one for
everybody, and who finds no partner in a round gets what it lacks from others of its group
(`labkit.schedule.doubling`), as in MPICH.

**Cost**: with q = 2**k: ``2k*alpha + 2(q-1)/q*n*beta``, and ``alpha + n*beta`` more if p > q.

**Requires**: nothing; any number of ranks, any root. Parameter: `subtrees`.

**Properties**: twice the message's volume in few rounds: for messages of middle length.

**Reference**: R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations
in MPICH. IJHPCA 19(1), 2005. doi:10.1177/1094342005051521

>>> cost(8, 800)
Cost(rounds=6, volume_bytes=1400.0, reduced_bytes=0.0)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from labkit.algorithms.bcast._scatter import scatter_parts, scattered
from labkit.registry import Algorithm, Cost
from labkit.schedule import Group, Step, blocks, whole
from labkit.schedule.doubling import doublings, floor_power_of_two, spread, times
from labkit.schedule.group import everyone

__all__ = ["ALGORITHM", "cost", "rounds"]


def rounds(group: Group, subtrees: int = 0) -> Iterator[Step]:
    """Yield the scatter's levels, one step for each distance, and the hand-over to the rest."""
    team = everyone(group, group.root)
    if subtrees:
        yield from scatter_parts(team, group.size)
        yield from spread(team, lambda first, n: blocks("data", first, n))
        return
    number, core = team.number, floor_power_of_two(group.size)
    yield from scatter_parts(team, core)
    for distance in doublings(core):
        partner = number ^ distance
        yield team.sendrecv(
            blocks("data", number // distance * distance, distance),
            partner,
            blocks("data", partner // distance * distance, distance),
            partner,
            where=number < core,
        )
    yield team.send(whole("data"), number + core, where=number + core < group.size)
    yield team.recv(whole("data"), number - core, where=number >= core)


def number_of_parts(ranks: int, subtrees: int = 0) -> int:
    """Return into how many parts the message is cut."""
    return ranks if subtrees else floor_power_of_two(ranks)


def cost(ranks: int, n_bytes: float, subtrees: int = 0) -> Cost:
    """Return the exact cost when the largest power of two in p (with subtrees: p) divides the message."""
    if subtrees:
        messages, parts = (
            times(ranks, each, start=scattered(ranks, each)).max() for each in (np.ones_like, np.positive)
        )
        return Cost(int(messages), int(parts) * n_bytes / ranks)
    core = floor_power_of_two(ranks)
    levels, late = core.bit_length() - 1, int(ranks > core)
    return Cost(2 * levels + late, 2 * (core - 1) * n_bytes / core + late * n_bytes)


ALGORITHM = Algorithm(
    "scatter_recursive_doubling_allgather",
    "bcast",
    schedule=rounds,
    cost=cost,
    parts=number_of_parts,
    parameters={"subtrees": 0},
)
