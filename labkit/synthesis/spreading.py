"""Chunks spread over a machine: a greedy matching of links and chunks in time.

Time goes from event to event. Whenever a link is free again, or a rank has got something new, the ways that
this concerns are tried, the fastest first: a way takes a chunk that its sender has and its receiver neither
has nor is about to get, the rarest of a few drawn at random. A slow way leaves alone what a faster one can
bring before it.

Reference: W. Won, M. Elavazhagan, S. Srinivasan, S. Gupta, T. Krishna: TACOS: Topology-Aware Collective
Algorithm Synthesizer for Distributed Machine Learning. MICRO 2024, arXiv:2304.05301.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise
from math import exp, inf

from labkit.schedule.check import uncollected
from labkit.synthesis.fabric import Fabric, Way
from labkit.synthesis.programs import Transfer, TransferPlan

__all__ = ["Options", "direct", "exchange", "has_relays", "plan_spread", "routed"]


#: chunks drawn at random, of which the rarest is taken
_DRAWN = 4
#: a way is slow if it is slower than its receiver's fastest one by this factor
_SLOW = 1.5


@dataclass(frozen=True)
class Options:
    """What may differ from one attempt to the next.

    `batch`: Most chunks in a message.
    `reach`: Each rank sends to this number of others in addition to its neighbors; -1: to all.
    `is_rarest`: Whether rare chunks go first.
    `window`: Messages under way on a link: 2 hide latencies.
    `order`: Each rank sends to the next one of these only, around a ring; empty: to its neighbors.
    """

    batch: int = 1
    reach: int = 0
    seed: int = 0
    is_rarest: bool = True
    window: int = 1
    order: tuple[int, ...] = ()


@dataclass(slots=True)
class _Edge:
    source: int
    destination: int
    links: tuple[int, ...]
    rate: float
    #: by number of chunks: how long the links are taken, and when the message is there
    times: dict[int, tuple[float, float]]
    way: Way
    is_slow: bool = False
    faster: list[_Edge] = field(default_factory=list)


def neighbors(fabric: Fabric, options: Options) -> list[list[int]]:
    """Return to whom each rank may send: its neighbors and some farther ones, or the next one only."""
    p, reach, found = fabric.size, options.reach, []
    if options.order:
        after = dict(zip(options.order, (*options.order[1:], options.order[0]), strict=True))
        return [[after[u]] if p > 1 else [] for u in range(p)]
    for u in range(p):
        near = fabric.beside[u]
        if reach < 0 or len(near) <= max(reach, 8) or p <= 32:
            others = set(near)
        else:  # many equals, as around a switch: powers of two away, and the next ones
            others = {(u + (1 << k)) % p for k in range(p.bit_length())} & set(near)
            others |= set(near[: max(reach, 4)])
        if reach < 0:
            others |= {v for v in range(p) if v != u and fabric.ways[u][v] is not None}
        elif reach > 0:
            far = [(u + (1 << k)) % p for k in range(p.bit_length())]
            others |= {v for v in far if v != u and fabric.ways[u][v] is not None}
        found.append(fabric.sorted_by_way(u, others))
    return found


def plan_spread(fabric: Fabric, origins: Sequence[int], chunk_bytes: float, options: Options) -> TransferPlan:
    """Plan how every chunk gets from its origin to every rank."""
    with uncollected():
        return _Spreading(fabric, origins, chunk_bytes, options).run()


class _Spreading:
    def __init__(self, fabric: Fabric, origins: Sequence[int], chunk_bytes: float, options: Options) -> None:
        self.fabric, self.chunk_bytes, self.options = fabric, chunk_bytes, options
        self.random = random.Random(options.seed)
        self.count = len(origins)
        self.everything = (1 << self.count) - 1
        self.held = [0] * fabric.size  #: bit sets of chunks that are there
        for chunk, rank in enumerate(origins):
            self.held[rank] |= 1 << chunk
        self.coming = list(self.held)  #: ... or under way
        self.holders = [1] * self.count
        self.free = list(fabric.capacity)
        self.busy_until = [0.0] * fabric.size
        self.out: list[list[_Edge]] = [[] for _ in range(fabric.size)]
        self.into: list[list[_Edge]] = [[] for _ in range(fabric.size)]
        self.over: dict[int, list[_Edge]] = {}
        self._lay_edges()
        self.transfers: list[Transfer] = []
        self.events: list[tuple[float, int, _Edge, int, tuple[int, ...], float]] = []
        self.number = 0
        self.is_forced = False

    def _lay_edges(self) -> None:
        for u, others in enumerate(neighbors(self.fabric, self.options)):
            for v in others:
                way = self.fabric.ways[u][v]
                assert way is not None
                rate = 1.0 if self.fabric.model.sharing == "delay" else self.fabric.rate(way)
                edge = _Edge(u, v, way.links, rate, {}, way)
                self.out[u].append(edge)
                self.into[v].append(edge)
                for link in way.links:
                    self.over.setdefault(link, []).append(edge)
        for edges in self.into:
            fastest = min((self._times(e, 1)[1] for e in edges), default=0.0)
            for edge in edges:
                took = self._times(edge, 1)[1]
                edge.is_slow = took > _SLOW * fastest
                if edge.is_slow:
                    edge.faster = [e for e in edges if self._times(e, 1)[1] * _SLOW < took]

    def _times(self, edge: _Edge, chunks: int) -> tuple[float, float]:
        known = edge.times.get(chunks)
        if known is None:
            n = chunks * self.chunk_bytes
            latency, transfer = self.fabric.travel_s(edge.way, n)
            there = latency + transfer
            taken = max(transfer, there / self.options.window)
            known = edge.times[chunks] = (max(taken, 1e-15), max(there, 1e-15))
        return known

    def run(self) -> TransferPlan:
        ready = [edge for edges in self.out for edge in edges]
        self.random.shuffle(ready)
        now = 0.0
        while True:
            ready.sort(key=lambda edge: self._times(edge, 1)[1])
            for edge in ready:
                self._try(edge, now)
            if not self.events:
                if all(have == self.everything for have in self.coming) or self.is_forced:
                    break
                self.is_forced = True
                ready = [edge for edges in self.out for edge in edges]
                continue
            self.is_forced = False
            now = self.events[0][0]
            ready = self._pass(now)
        return TransferPlan.of(self.transfers)

    def _pass(self, now: float) -> list[_Edge]:
        """Let happen what happens now; return the ways that may be used because of it."""
        touched: dict[int, _Edge] = {}
        limit = now + 1e-12 + 1e-9 * now
        while self.events and self.events[0][0] <= limit:
            _, _, edge, gained, links, share = heappop(self.events)
            for link in links:
                self.free[link] += share
                for other in self.over[link]:
                    if self.coming[other.destination] != self.everything:
                        touched[id(other)] = other
            if gained:
                self.held[edge.destination] |= gained
                for other in self.out[edge.destination]:
                    if self.coming[other.destination] != self.everything:
                        touched[id(other)] = other
        ready = list(touched.values())
        self.random.shuffle(ready)
        return ready

    def _try(self, edge: _Edge, now: float) -> None:
        """Use a way, as often as its links have room."""
        u, v, free = edge.source, edge.destination, self.free
        while True:
            useful = self.held[u] & ~self.coming[v]
            if not useful:
                return
            share = edge.rate
            for link in edge.links:
                if free[link] < share:
                    share = free[link]
            if share < 0.45 * edge.rate:
                return
            if edge.is_slow and not self.is_forced:
                useful = self._left_to_slow(edge, useful)
                if not useful:
                    return
            self._send(edge, self._chosen(useful, edge), now, share)
            if not edge.links:
                return

    def _left_to_slow(self, edge: _Edge, useful: int) -> int:
        """Return those that no faster way can bring in the time that this one takes."""
        v, elsewhere, rate = edge.destination, 0, 0.0
        for other in edge.faster:
            elsewhere |= self.coming[other.source]
            rate += 1.0 / self._times(other, 1)[0]
        only_here = useful & ~elsewhere
        if only_here:
            return only_here
        missing = (self.everything & ~self.coming[v]).bit_count()
        return useful if self._times(edge, 1)[1] * rate < missing + 1 else 0

    def _chosen(self, useful: int, edge: _Edge) -> tuple[int, ...]:
        """Return which chunks a message takes."""
        batch = self.options.batch
        if batch > 1 and useful.bit_count() <= batch:
            return tuple(_bits(useful))
        draws = _DRAWN if self.options.is_rarest else 1
        best, fewest = -1, 1 << 60
        for _ in range(draws):
            chunk = _one_of(useful, self.random.randrange(self.count))
            if self.holders[chunk] < fewest:
                best, fewest = chunk, self.holders[chunk]
        if batch == 1:
            return (best,)
        taken = [best]
        for chunk in (*range(best + 1, self.count), *range(best)):  # neighbors travel as one piece
            if len(taken) == batch:
                break
            if useful >> chunk & 1:
                taken.append(chunk)
        return tuple(sorted(taken))

    def _send(self, edge: _Edge, chunks: tuple[int, ...], now: float, share: float) -> None:
        fabric, u, v, n = self.fabric, edge.source, edge.destination, len(chunks)
        begin = max(now, self.busy_until[u])
        posted = begin + fabric.send_s(n * self.chunk_bytes)
        self.busy_until[u] = posted
        taken, there = self._times(edge, n)
        slower = edge.rate / share
        end = posted + there + (slower - 1) * taken
        received = fabric.receive_s(n * self.chunk_bytes)
        if received:
            end = max(end, self.busy_until[v] if self.busy_until[v] > end else end) + received
        gained = 0
        for chunk in chunks:
            gained |= 1 << chunk
            self.holders[chunk] += 1
        self.coming[v] |= gained
        for link in edge.links:
            self.free[link] -= share
        self.number += 1
        if self.options.window == 1:
            heappush(self.events, (end, self.number, edge, gained, edge.links, share))
        else:
            heappush(self.events, (posted + taken * slower, self.number, edge, 0, edge.links, share))
            heappush(self.events, (end, self.number + (1 << 40), edge, gained, (), share))
        self.transfers.append(Transfer(begin, end, u, v, chunks, edge.links))


def _one_of(bits: int, start: int) -> int:
    """Return the first set bit from `start` on, or from the beginning."""
    above = bits >> start
    if above:
        return start + (above & -above).bit_length() - 1
    return (bits & -bits).bit_length() - 1


def _bits(bits: int) -> list[int]:
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found


# All-to-all on a machine: direct messages, each when its links are free, full links first.


#: number of times all blocks are routed again
_ROUNDS = 6
#: shortest ways looked for in a round, at least one for each rank
_WAYS = 768
#: how much longer a way over the fullest link counts, as a power of e
_AVOIDED = 7.0

Routes = dict[tuple[int, int], list[int]]


def has_relays(fabric: Fabric) -> bool:
    """Whether some ranks have others between them."""
    return any(len(near) < fabric.size - 1 for near in fabric.beside)


def routed(fabric: Fabric, parts: int, chunk_bytes: float, seed: int = 0, window: int = 1) -> TransferPlan:
    """Plan an all-to-all from rank to near rank."""
    routes = _balanced(fabric, parts, chunk_bytes, random.Random(seed))
    return _Relayed(fabric, routes, parts, chunk_bytes, window).plan()


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


class _Relayed:
    """When each block is on each part of its way."""

    def __init__(self, fabric: Fabric, routes: Routes, parts: int, chunk_bytes: float, window: int) -> None:
        self.p, self.routes, self.parts = fabric.size, routes, parts
        self.waiting: dict[tuple[int, int], list[tuple[float, int, int, tuple[int, int]]]] = {}
        self.free_from = [0.0] * len(fabric.capacity)
        self.events: list[tuple[float, int, int, tuple[int, int]]] = []
        self.wakes = [0.0]
        self.transfers: list[Transfer] = []
        self.times = {}
        for u in range(self.p):
            for v in fabric.beside[u]:
                way = fabric.ways[u][v]
                assert way is not None
                latency, transfer = fabric.travel_s(way, chunk_bytes)
                there = max(fabric.message_s(way, chunk_bytes), 1e-15)
                self.times[u, v] = max(transfer, (latency + transfer) / window, 1e-15), there, way.links
        self.left_s = {pair: self._left_s(route) for pair, route in routes.items()}

    def _left_s(self, route: list[int]) -> list[float]:
        """Return the time from each rank of a route to its end."""
        rest = [0.0]
        for hop in reversed(list(pairwise(route))):
            rest.append(rest[-1] + self.times[hop][1])
        return rest[::-1]

    def plan(self) -> TransferPlan:
        for pair in self.routes:
            for part in range(self.parts):
                self._arrive(pair, part, 0)
        now = 0.0
        while True:
            hops = (hop for hop in self.waiting if self.waiting[hop])
            for hop in sorted(hops, key=lambda hop: self.waiting[hop][0]):
                self._begin(hop, now)
            while self.wakes and self.wakes[0] <= now * (1 + 1e-12):
                heappop(self.wakes)
            if not self.wakes:
                return TransferPlan.of(self.transfers)
            now = self.wakes[0]
            while self.events and self.events[0][0] <= now * (1 + 1e-12):
                _, at, part, pair = heappop(self.events)
                self._arrive(pair, part, at)

    def _arrive(self, pair: tuple[int, int], part: int, at: int) -> None:
        route = self.routes[pair]
        if at + 1 < len(route):
            hop = route[at], route[at + 1]
            heappush(self.waiting.setdefault(hop, []), (-self.left_s[pair][at], at, part, pair))

    def _begin(self, hop: tuple[int, int], now: float) -> None:
        """Send the most urgent block of a hop if all links are free."""
        taken, there, links = self.times[hop]
        if any(self.free_from[link] > now * (1 + 1e-12) for link in links):
            return
        _, at, part, pair = heappop(self.waiting[hop])
        for link in links:
            self.free_from[link] = now + taken
        chunk = (pair[0] * self.p + pair[1]) * self.parts + part
        self.transfers.append(Transfer(now, now + there, *hop, (chunk,), links))
        heappush(self.events, (now + there, at + 1, part, pair))
        heappush(self.wakes, now + taken)
        heappush(self.wakes, now + there)


#: destinations that a rank looks at before it waits
_LOOKED_AT = 24


def direct(fabric: Fabric, origins: Sequence[int], chunk_bytes: float) -> TransferPlan:
    """Plan that every chunk's origin sends it to all others itself, all of them in one step."""
    p, found = fabric.size, []
    for k in range(1, p):
        for chunk, u in enumerate(origins):
            v = (u + k) % p
            way = fabric.ways[u][v]
            assert way is not None
            took = max(fabric.message_s(way, chunk_bytes), 1e-12)
            found.append(Transfer(0.0, took, u, v, (chunk,), way.links))
    return TransferPlan(tuple(found))


def exchange(fabric: Fabric, parts: int, chunk_bytes: float, seed: int = 0, window: int = 1) -> TransferPlan:
    """Plan an all-to-all."""
    return _Direct(fabric, parts, chunk_bytes, seed, window).plan()


class _Direct:
    """Direct messages over shared links: each rank sends next over the link that has most left to carry."""

    def __init__(self, fabric: Fabric, parts: int, chunk_bytes: float, seed: int, window: int) -> None:
        self.fabric, self.parts, self.chunk_bytes = fabric, parts, chunk_bytes
        self.seed, self.window, self.draw = seed, window, random.Random(seed)
        p = fabric.size
        self.load = [0.0] * len(fabric.capacity)
        self.times: dict[tuple[int, int], tuple[float, float, float]] = {}
        self.left: list[dict[int, int]] = [{} for _ in range(p)]
        self.free = list(fabric.capacity)
        self.busy_until = [0.0] * p
        self.events: list[tuple[float, int, tuple[int, ...], float]] = []
        self.transfers: list[Transfer] = []
        for u in range(p):
            for k in range(1, p):
                self._prepare(u, (u + k) % p if seed % 2 == 0 or p & (p - 1) else u ^ k)

    def _prepare(self, u: int, v: int) -> None:
        way = self.fabric.ways[u][v]
        assert way is not None
        latency, transfer = self.fabric.travel_s(way, self.chunk_bytes)
        rate = 1.0 if self.fabric.model.sharing == "delay" else self.fabric.rate(way)
        there = latency + transfer
        self.times[u, v] = (max(transfer, there / self.window), max(there, 1e-15), rate)
        self.left[u][v] = self.parts
        for link in way.links:
            self.load[link] += self.parts * transfer * rate / self.fabric.capacity[link]

    def plan(self) -> TransferPlan:
        now, waiting = 0.0, list(range(self.fabric.size))
        while waiting:
            self.draw.shuffle(waiting)
            waiting.sort(key=lambda u: -sum(self.left[u].values()))
            for u in waiting:
                while self.left[u] and self._send(u, now):
                    pass
            waiting = [u for u in waiting if self.left[u]]
            if not self.events:
                break
            now = self.events[0][0]
            while self.events and self.events[0][0] <= now * (1 + 1e-9) + 1e-12:
                _, _, links, share = heappop(self.events)
                for link in links:
                    self.free[link] += share
        return TransferPlan.of(self.transfers)

    def _next(self, u: int) -> tuple[int, float]:
        """Return the destination of a rank's next message, -1 if none, and its share of the links."""
        best, best_key, best_share = -1, (-1.0, -1.0), 0.0
        for looked, v in enumerate(self.left[u]):
            if looked >= _LOOKED_AT and best >= 0:
                break
            way = self.fabric.ways[u][v]
            assert way is not None
            rate = self.times[u, v][2]
            share = min([rate, *(self.free[link] for link in way.links)])
            if share < 0.45 * rate:
                continue
            key = (max((self.load[link] for link in way.links), default=0.0), -float(looked))
            if self.seed > 1:
                key = (key[0] * self.draw.uniform(0.97, 1.0), key[1])
            if key > best_key:
                best, best_key, best_share = v, key, share
        return best, best_share

    def _send(self, u: int, now: float) -> bool:
        best, best_share = self._next(u)
        if best < 0:
            return False
        fabric = self.fabric
        way = fabric.ways[u][best]
        assert way is not None
        taken, there, rate = self.times[u, best]
        begin = max(now, self.busy_until[u])
        self.busy_until[u] = begin + fabric.send_s(self.chunk_bytes)
        slower = rate / best_share
        end = self.busy_until[u] + there + (slower - 1) * taken + fabric.receive_s(self.chunk_bytes)
        for link in way.links:
            self.free[link] -= best_share
            self.load[link] -= taken * rate / fabric.capacity[link]
        part = self.parts - self.left[u][best]
        self.left[u][best] -= 1
        if not self.left[u][best]:
            del self.left[u][best]
        over_s = self.busy_until[u] + (taken * slower if self.window > 1 else there)
        heappush(self.events, (over_s, len(self.transfers), way.links, best_share))
        chunk = (u * fabric.size + best) * self.parts + part
        self.transfers.append(Transfer(begin, end, u, best, (chunk,), way.links))
        return True
