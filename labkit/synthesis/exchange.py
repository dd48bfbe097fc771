"""All-to-all on a machine: direct messages, each when its links are free, full links first."""

from __future__ import annotations

import random
from collections.abc import Sequence
from heapq import heappop, heappush

from labkit.synthesis.fabric import Fabric
from labkit.synthesis.plan import Plan, Transfer

__all__ = ["direct", "exchange"]

#: destinations that a rank looks at before it waits
_LOOKED_AT = 24


def direct(fabric: Fabric, origins: Sequence[int], chunk_bytes: float) -> Plan:
    """Plan that every chunk's origin sends it to all others itself, all of them at once."""
    p, found = fabric.size, []
    for k in range(1, p):
        for chunk, u in enumerate(origins):
            v = (u + k) % p
            way = fabric.ways[u][v]
            assert way is not None
            took = max(fabric.message_s(way, chunk_bytes), 1e-12)
            found.append(Transfer(0.0, took, u, v, (chunk,), way.links))
    return Plan(tuple(found))


def exchange(fabric: Fabric, parts: int, chunk_bytes: float, seed: int = 0, window: int = 1) -> Plan:  # noqa: C901
    """Plan an all-to-all.

    Parameters
    ----------
    fabric : Fabric
    parts : int
        Chunks of a block: chunk ``(source * p + destination) * parts + j``; they go one after another.
    chunk_bytes : float
    seed : int
        Draws the order of equals.
    window : int
        Messages under way on a link: 2 hide latencies.

    Returns
    -------
    Plan
    """
    p, draw = fabric.size, random.Random(seed)
    load = [0.0] * len(fabric.capacity)
    times: dict[tuple[int, int], tuple[float, float, float]] = {}
    left: list[dict[int, int]] = [{} for _ in range(p)]
    for u in range(p):
        for k in range(1, p):
            v = (u + k) % p if seed % 2 == 0 or p & (p - 1) else u ^ k
            way = fabric.ways[u][v]
            assert way is not None
            latency, transfer = fabric.travel_s(way, chunk_bytes)
            rate = 1.0 if fabric.model.sharing == "delay" else fabric.rate(way)
            there = latency + transfer
            times[u, v] = (max(transfer, there / window), max(there, 1e-15), rate)
            left[u][v] = parts
            for link in way.links:
                load[link] += parts * transfer * rate / fabric.capacity[link]
    free = list(fabric.capacity)
    busy_until = [0.0] * p
    events: list[tuple[float, int, tuple[int, ...], float]] = []
    transfers: list[Transfer] = []
    now, waiting = 0.0, list(range(p))

    def send(u: int) -> bool:
        best, best_key, best_share = -1, (-1.0, -1.0), 0.0
        for looked, v in enumerate(left[u]):
            if looked >= _LOOKED_AT and best >= 0:
                break
            way = fabric.ways[u][v]
            assert way is not None
            rate = times[u, v][2]
            share = min([rate, *(free[link] for link in way.links)])
            if share < 0.45 * rate:
                continue
            key = (max((load[link] for link in way.links), default=0.0), -float(looked))
            if seed > 1:
                key = (key[0] * draw.uniform(0.97, 1.0), key[1])
            if key > best_key:
                best, best_key, best_share = v, key, share
        if best < 0:
            return False
        way = fabric.ways[u][best]
        assert way is not None
        taken, there, rate = times[u, best]
        begin = max(now, busy_until[u])
        busy_until[u] = begin + fabric.send_s(chunk_bytes)
        slower = rate / best_share
        end = busy_until[u] + there + (slower - 1) * taken + fabric.receive_s(chunk_bytes)
        for link in way.links:
            free[link] -= best_share
            load[link] -= taken * rate / fabric.capacity[link]
        part = parts - left[u][best]
        left[u][best] -= 1
        if not left[u][best]:
            del left[u][best]
        heappush(
            events,
            (
                busy_until[u] + (taken * slower if window > 1 else there),
                len(transfers),
                way.links,
                best_share,
            ),
        )
        transfers.append(Transfer(begin, end, u, best, ((u * p + best) * parts + part,), way.links))
        return True

    while waiting:
        draw.shuffle(waiting)
        waiting.sort(key=lambda u: -sum(left[u].values()))
        for u in waiting:
            while left[u] and send(u):
                if not transfers[-1].links:
                    continue
        waiting = [u for u in waiting if left[u]]
        if not events:
            break
        now = events[0][0]
        while events and events[0][0] <= now * (1 + 1e-9) + 1e-12:
            _, _, links, share = heappop(events)
            for link in links:
                free[link] += share
    return Plan.of(transfers)
