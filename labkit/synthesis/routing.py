"""All-to-all through ranks in between: ways that share the load, then greedy matching in time.

On a sparse machine most messages of an all-to-all cross the places of other ranks, and the machine's own
routes may crowd on some cables while others are idle. Here every block goes from rank to neighbouring rank.
First the ways: blocks are taken off one by one and put where a way over the least loaded links leads,
several times over. Then the times: whenever the links to a neighbour are free, that block goes which has the
longest way before it.

Reference for matching in a network expanded in time: W. Won et al.: TACOS: topology-aware collective
algorithm synthesizer for distributed machine learning. MICRO 2024. doi:10.1109/MICRO61859.2024.00068
"""

from __future__ import annotations

import random
from heapq import heappop, heappush
from itertools import pairwise
from math import exp, inf

from labkit.synthesis.fabric import Fabric
from labkit.synthesis.plan import Plan, Transfer

__all__ = ["has_relays", "routed"]

#: how often all blocks are put anew
_ROUNDS = 6
#: shortest ways looked for in a round, at least one for each rank
_WAYS = 768
#: how much longer a way over the fullest link counts, as a power of e
_AVOIDED = 7.0

Routes = dict[tuple[int, int], list[int]]


def has_relays(fabric: Fabric) -> bool:
    """Whether some ranks have others between them."""
    return any(len(near) < fabric.size - 1 for near in fabric.beside)


def routed(fabric: Fabric, parts: int, chunk_bytes: float, seed: int = 0, window: int = 1) -> Plan:
    """Plan an all-to-all from rank to near rank.

    Parameters
    ----------
    fabric : Fabric
    parts : int
        Chunks of a block: chunk ``(source * p + destination) * parts + j``.
    chunk_bytes : float
    seed : int
        Draws the order in which ways are looked for.
    window : int
        Messages under way on a link: 2 hide latencies.

    Returns
    -------
    Plan
    """
    routes = _balanced(fabric, parts, chunk_bytes, random.Random(seed))
    return _timed(fabric, routes, parts, chunk_bytes, window)


def _balanced(fabric: Fabric, parts: int, chunk_bytes: float, draw: random.Random) -> Routes:
    """Return each block's ranks from source to destination, of several tries that with the least load."""
    p = fabric.size
    load = [0.0] * len(fabric.capacity)
    routes: Routes = {}
    best, best_load = routes, inf
    lots = [(u, lot) for u in range(p) for lot in _lots(p, u)]
    for _ in range(_ROUNDS):
        draw.shuffle(lots)
        for u, lot in lots:
            for v in lot:
                _count(fabric, routes.get((u, v), []), -parts * chunk_bytes, load)
            before = _ways_from(fabric, u, chunk_bytes, load)
            for v in lot:
                route = [v]
                while route[-1] != u:
                    route.append(before[route[-1]])
                routes[u, v] = route[::-1]
                _count(fabric, routes[u, v], parts * chunk_bytes, load)
        if max(load, default=0.0) < best_load:
            best, best_load = dict(routes), max(load, default=0.0)
    return best


def _lots(p: int, u: int) -> list[list[int]]:
    """Return the destinations of a rank, in lots that take their ways together."""
    count = max(1, min(p - 1, _WAYS // p))
    others = [(u + k) % p for k in range(1, p)]
    return [others[first::count] for first in range(count)]


def _count(fabric: Fabric, route: list[int], n_bytes: float, load: list[float]) -> None:
    """Add what a block takes of the links on its way, in seconds."""
    for u, v in pairwise(route):
        way = fabric.ways[u][v]
        assert way is not None
        for link in way.links:
            load[link] += n_bytes / fabric.capacity[link]


def _ways_from(fabric: Fabric, u: int, chunk_bytes: float, load: list[float]) -> list[int]:
    """Return the rank before each one, on the shortest ways from u where loaded links are long."""
    most = max(load, default=0.0) or 1.0
    far, before, queue = [inf] * fabric.size, [u] * fabric.size, [(0.0, u)]
    far[u] = 0.0
    while queue:
        here, a = heappop(queue)
        if here > far[a]:
            continue
        for b in fabric.beside[a]:
            way = fabric.ways[a][b]
            assert way is not None
            fullest = max((load[link] for link in way.links), default=0.0) / most
            there = here + max(fabric.message_s(way, chunk_bytes), 1e-15) * exp(_AVOIDED * fullest)
            if there < far[b]:
                far[b], before[b] = there, a
                heappush(queue, (there, b))
    return before


def _timed(fabric: Fabric, routes: Routes, parts: int, chunk_bytes: float, window: int) -> Plan:  # noqa: C901
    """Return when each block is on each part of its way."""
    p = fabric.size
    waiting: dict[tuple[int, int], list[tuple[float, int, int, tuple[int, int]]]] = {}
    free_from = [0.0] * len(fabric.capacity)
    events: list[tuple[float, int, int, tuple[int, int]]] = []
    transfers: list[Transfer] = []
    times = {}
    for u in range(p):
        for v in fabric.beside[u]:
            way = fabric.ways[u][v]
            assert way is not None
            latency, transfer = fabric.travel_s(way, chunk_bytes)
            there = max(fabric.message_s(way, chunk_bytes), 1e-15)
            times[u, v] = max(transfer, (latency + transfer) / window, 1e-15), there, way.links
    left_s = {}
    for pair, route in routes.items():
        rest = [0.0]
        for hop in reversed(list(pairwise(route))):
            rest.append(rest[-1] + times[hop][1])
        left_s[pair] = rest[::-1]

    def arrive(pair: tuple[int, int], part: int, at: int) -> None:
        route = routes[pair]
        if at + 1 < len(route):
            hop = route[at], route[at + 1]
            heappush(waiting.setdefault(hop, []), (-left_s[pair][at], at, part, pair))

    for pair in routes:
        for part in range(parts):
            arrive(pair, part, 0)
    now, wakes = 0.0, [0.0]
    while True:
        hops = sorted((hop for hop in waiting if waiting[hop]), key=lambda hop: waiting[hop][0])
        for hop in hops:
            taken, there, links = times[hop]
            if any(free_from[link] > now * (1 + 1e-12) for link in links):
                continue
            _, at, part, pair = heappop(waiting[hop])
            for link in links:
                free_from[link] = now + taken
            chunk = (pair[0] * p + pair[1]) * parts + part
            transfers.append(Transfer(now, now + there, *hop, (chunk,), links))
            heappush(events, (now + there, at + 1, part, pair))
            heappush(wakes, now + taken)
            heappush(wakes, now + there)
        while wakes and wakes[0] <= now * (1 + 1e-12):
            heappop(wakes)
        if not wakes:
            break
        now = wakes[0]
        while events and events[0][0] <= now * (1 + 1e-12):
            _, at, part, pair = heappop(events)
            arrive(pair, part, at)
    return Plan.of(transfers)
