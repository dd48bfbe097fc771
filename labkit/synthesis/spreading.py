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

from labkit.schedule.check import uncollected
from labkit.synthesis.fabric import Fabric, Way
from labkit.synthesis.plan import Plan, Transfer

__all__ = ["Options", "spread"]

#: chunks drawn at random, of which the rarest is taken
_DRAWN = 4
#: a way so many times slower than its receiver's fastest one is a slow one
_SLOW = 1.5


@dataclass(frozen=True)
class Options:
    """What may differ from one attempt to the next.

    Attributes
    ----------
    batch : int
        Most chunks in a message.
    reach : int
        Each rank sends to so many others besides those beside it; -1: to all.
    seed : int
    is_rarest : bool
        Whether rare chunks go first.
    window : int
        Messages under way on a link: 2 hide latencies.
    order : tuple of int
        Each rank sends to the next one of these only, around a ring; empty: to whom it is beside.
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
    """Return to whom each rank may send: those beside it and some farther ones, or the next one only."""
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


def spread(fabric: Fabric, origins: Sequence[int], chunk_bytes: float, options: Options) -> Plan:
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

    def run(self) -> Plan:
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
        return Plan.of(self.transfers)

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
        for chunk in (*range(best + 1, self.count), *range(best)):  # neighbours travel as one piece
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
