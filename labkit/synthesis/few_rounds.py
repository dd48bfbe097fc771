"""Plans in few rounds, for short messages: ranks exchange all that they have with ever farther ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from labkit.schedule.powers import floor_power_of_two
from labkit.synthesis.fabric import Fabric
from labkit.synthesis.plan import Plan, Transfer

__all__ = ["dissemination", "doubling"]


def dissemination(fabric: Fabric, chunk_bytes: float, order: Sequence[int], is_near_first: bool) -> Plan:
    """Plan how one chunk of each rank gets to all in the fewest rounds, in an order of one's own.

    In each round every rank sends to the one that is so many places before it what it has and that one lacks:
    first to the next place, then two, four, ... places away; or the farthest first, where the number of ranks
    is a power of two.
    """
    p = fabric.size
    distances = [1 << k for k in range((p - 1).bit_length())]
    if not is_near_first and p & (p - 1) == 0:
        distances.reverse()
    held: list[set[int]] = [{rank} for rank in range(p)]
    found: list[Transfer] = []
    clock = 0.0
    for distance in distances:
        sent = []
        for place, u in enumerate(order):
            v = order[place - distance]
            chunks = sorted(held[u] - held[v])
            if chunks:
                way = fabric.ways[u][v]
                assert way is not None
                took = max(fabric.message_s(way, chunk_bytes * len(chunks)), 1e-12)
                sent.append(Transfer(clock, clock + took, u, v, tuple(chunks), way.links))
        end = max((one.end_s for one in sent), default=clock)
        for one in sent:
            held[one.destination] |= set(one.chunks)
        found += [replace(one, end_s=end) for one in sent]
        clock = end
    return Plan(tuple(found))


def doubling(fabric: Fabric, n_bytes: float, order: Sequence[int]) -> Plan:
    """Plan recursive doubling among ranks in an order; those beyond a power of two fold in and out.

    Parameters
    ----------
    fabric : Fabric
    n_bytes : float
    order : sequence of int
        Ranks: in round k those whose places differ in bit k exchange.
    """
    p = fabric.size
    core = floor_power_of_two(p)
    found: list[Transfer] = []
    clock = 0.0

    def together(pairs: list[tuple[int, int]], is_combined: bool) -> float:
        took = 0.0
        for u, v in pairs:
            way = fabric.ways[u][v]
            assert way is not None
            took = max(took, fabric.message_s(way, n_bytes), 1e-12)
        found.extend(
            Transfer(clock, clock + took, u, v, (0,), _links(fabric, u, v), is_combined) for u, v in pairs
        )
        return clock + took

    extra = [(order[core + i], order[i]) for i in range(p - core)]
    if extra:
        clock = together(extra, True)
    distance = 1
    while distance < core:
        clock = together([(order[i], order[i ^ distance]) for i in range(core)], True)
        distance *= 2
    if extra:
        together([(v, u) for u, v in extra], False)
    return Plan(tuple(found))


def _links(fabric: Fabric, u: int, v: int) -> tuple[int, ...]:
    way = fabric.ways[u][v]
    assert way is not None
    return way.links
