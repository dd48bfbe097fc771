"""The machine as synthesis sees it: the links between two ranks, and how long messages take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from labkit.errors import PlatformError
from labkit.machines.models import NetworkModel
from labkit.machines.platform import Platform

if TYPE_CHECKING:
    from labkit import _kernels

__all__ = ["CROSS", "Fabric", "Ideal", "Way", "affine", "fabric_of"]

#: a message of 5 % travels back with every message where a model has cross traffic
CROSS = 1.05


@dataclass(frozen=True, slots=True)
class Way:
    """How messages get from one rank to another.

    `links`: The links that are shared, by number, in order.
    `latency_s`: Sum of the latencies of all links, as declared.
    `bytes_per_s`: The narrowest link's bandwidth, as declared.
    """

    links: tuple[int, ...]
    latency_s: float
    bytes_per_s: float


@dataclass(frozen=True)
class Ideal:
    """What no message on a machine undercuts, whatever its size.

    `latency_factor`, `rate_factor`: Least and largest factor of latencies and bandwidths.
    `send_s`, `receive_s`: Least time of a processor for a message.
    """

    latency_factor: float
    rate_factor: float
    send_s: float
    receive_s: float


class Fabric:
    """Ranks on a machine, and the ways between them.

    `capacity`: Bytes/s of each link.
    `ways`: ``ways[u][v]``: from rank u to rank v, or None.
    """

    def __init__(self, model: NetworkModel, capacity: list[float], ways: list[list[Way | None]]) -> None:
        self.model, self.capacity, self.ways = model, capacity, ways
        self.size = len(ways)

    def reversed(self) -> Fabric:
        """Return the machine on which every message goes the other way."""
        p = self.size
        turned: list[list[Way | None]] = [[None] * p for _ in range(p)]
        for u in range(p):
            for v, way in enumerate(self.ways[u]):
                if way is not None:
                    turned[v][u] = Way(way.links[::-1], way.latency_s, way.bytes_per_s)
        return Fabric(self.model, self.capacity, turned)

    @cached_property
    def is_even(self) -> bool:
        """Whether every way has a twin for the other direction, over other links of the same bandwidths."""
        for u, row in enumerate(self.ways):
            for v, way in enumerate(row):
                back = self.ways[v][u]
                if way is None or back is None:
                    continue
                there, here = (tuple(self.capacity[i] for i in one) for one in (way.links, back.links[::-1]))
                is_alike = there == here and (way.latency_s, way.bytes_per_s) == (
                    back.latency_s,
                    back.bytes_per_s,
                )
                if not is_alike or (way.links and not set(way.links).isdisjoint(back.links)):
                    return False
        return True

    # -- messages ------------------------------------------------------------------------------------
    def travel_s(self, way: Way, n_bytes: float) -> tuple[float, float]:
        """Return latency and transfer time of a message that shares no link."""
        model = self.model
        size = n_bytes + model.envelope_bytes
        if model.sharing == "delay":
            latency = model.latency_s if model.latency_s >= 0 else self._latency_s(way, n_bytes)
            each = model.gap_per_byte_s
            rate = way.bytes_per_s * self._at("bandwidth", size)
            return latency, model.gap_s + size * each if each >= 0 else model.gap_s + size / rate
        rate = way.bytes_per_s
        if model.tcp_gamma_bytes > 0 and way.latency_s > 0:
            rate = min(rate, model.tcp_gamma_bytes / (2 * way.latency_s))
        back = CROSS if model.cross_traffic else 1.0
        return self._latency_s(way, n_bytes), size * back / (rate * self._at("bandwidth", size))

    def _latency_s(self, way: Way, n_bytes: float) -> float:
        """Return the latency of the links and of the message itself."""
        model = self.model
        links_s = way.latency_s * self._at("latency", n_bytes + model.envelope_bytes)
        return links_s + affine(model.message_latency, n_bytes)

    def rate(self, way: Way) -> float:
        """Return the bandwidth that a message alone takes of its links, bytes/s."""
        if self.model.tcp_gamma_bytes > 0 and way.latency_s > 0 and self.model.sharing != "delay":
            return min(way.bytes_per_s, self.model.tcp_gamma_bytes / (2 * way.latency_s))
        return way.bytes_per_s

    def send_s(self, n_bytes: float) -> float:
        """Return what posting a send costs its rank."""
        return affine(self.model.isend_overhead, n_bytes)

    def receive_s(self, n_bytes: float) -> float:
        """Return what receiving costs its rank."""
        return affine(self.model.recv_overhead, n_bytes) if n_bytes < self.model.detached_below_bytes else 0.0

    def least_send_s(self, n_bytes: float) -> float:
        """Return what sending costs a rank at least, blocking or not; one that waits for its receive: 0."""
        if n_bytes >= self.model.detached_below_bytes:
            return 0.0
        return min(affine(table, n_bytes) for table in (self.model.send_overhead, self.model.isend_overhead))

    def least_message_s(self, way: Way, n_bytes: float, has_bytes: bool = True) -> float:
        """Return what no message of this length undercuts, with the way of its bytes or without."""
        latency, transfer = self.travel_s(way, n_bytes)
        if self.model.cross_traffic and self.model.sharing != "delay":
            transfer /= CROSS  # what travels back may have its own links
        return self.least_send_s(n_bytes) + latency + transfer * has_bytes + self.receive_s(n_bytes)

    def turning_points(self, most_bytes: float) -> list[float]:
        """Return the lengths of 1 to `most_bytes` bytes before which a longer message may cost less."""
        model = self.model
        factors = (*model.latency_factor, *model.bandwidth_factor)
        costs = (
            *(*model.message_latency, *model.send_overhead),
            *(*model.isend_overhead, *model.recv_overhead),
        )
        starts: set[float] = {threshold + 1 - model.envelope_bytes for threshold, _ in factors}
        starts |= {threshold + 1 for threshold, *_ in costs} | {1, model.detached_below_bytes}
        return sorted(n for n in starts if 1 <= n <= most_bytes)

    def message_s(self, way: Way, n_bytes: float) -> float:
        """Return how long a message takes, from posting the send to having received it."""
        return self.send_s(n_bytes) + sum(self.travel_s(way, n_bytes)) + self.receive_s(n_bytes)

    def _at(self, name: str, size: float) -> float:
        factor = 1.0
        for threshold, value in getattr(self.model, f"{name}_factor"):
            if threshold < size:
                factor = value
        return factor

    def ideal(self, most_bytes: float) -> Ideal:
        """Return what no message of 1 to `most_bytes` bytes undercuts."""
        model = self.model
        top = most_bytes + model.envelope_bytes
        latency = [v for t, v in model.latency_factor if t < top] or [1.0]
        rate = [v for t, v in model.bandwidth_factor if t < top] or [1.0]
        if not model.latency_factor or model.latency_factor[0][0] >= 1 + model.envelope_bytes:
            latency.append(1.0)
        if not model.bandwidth_factor or model.bandwidth_factor[0][0] >= 1 + model.envelope_bytes:
            rate.append(1.0)
        send = min(_least(model.send_overhead, most_bytes), _least(model.isend_overhead, most_bytes))
        receive = _least(model.recv_overhead, most_bytes)
        if most_bytes >= model.detached_below_bytes:  # a send that waits for its receive costs neither
            send = receive = 0.0
        return Ideal(min(latency), max(rate), send, receive)

    # -- neighbors --------------------------------------------------------------------------
    @cached_property
    def beside(self) -> list[list[int]]:
        """For each rank those whose way passes by no other rank, nearest first."""
        near = []
        for u, row in enumerate(self.ways):
            passed = {way.links for v, way in enumerate(row) if way is not None and v != u}
            here = [
                v
                for v, way in enumerate(row)
                if way is not None
                and v != u
                and not any(way.links[:k] in passed for k in range(1, len(way.links)))
            ]
            near.append(self.sorted_by_way(u, here))
        return near

    def sorted_by_way(self, u: int, ranks: Iterable[int]) -> list[int]:
        """Return ranks by how long a small message to them takes; of equals the next ones first."""
        row, p = self.ways[u], self.size
        keyed = []
        for v in ranks:
            way = row[v]
            if way is not None and v != u:
                keyed.append((sum(self.travel_s(way, 1)), (v - u) % p, v))
        return [v for _, _, v in sorted(keyed)]


def fabric_of(platform: Platform, ranks: int, model: NetworkModel) -> Fabric:
    """Read a platform with this many ranks on it."""
    built = platform.build(ranks)
    number: dict[str, int] = {}
    capacity, fatpipe = [], []
    for i in range(built.link_count):
        name, bandwidth, _, policy = built.link(i)
        number[name] = i
        capacity.append(float(bandwidth))
        fatpipe.append(policy == "fatpipe")
    hosts = list(built.rank_hosts)
    if model.sharing == "delay":  # messages meet at their hosts' interfaces only
        first = len(capacity)
        capacity += [1.0] * (2 * built.host_count)
    known: dict[tuple[int, int], Way] = {}

    def way(a: int, b: int) -> Way:
        if (a, b) not in known:
            known[a, b] = _read(built, a, b, number, capacity, fatpipe)
            if model.sharing == "delay":
                old = known[a, b]
                known[a, b] = Way((first + 2 * a, first + 2 * b + 1), old.latency_s, old.bytes_per_s)
        return known[a, b]

    ways: list[list[Way | None]] = [
        [way(a, b) if u != v else None for v, b in enumerate(hosts)] for u, a in enumerate(hosts)
    ]
    return Fabric(model, capacity, ways)


def _read(
    built: _kernels.Platform,
    a: int,
    b: int,
    number: dict[str, int],
    capacity: list[float],
    fatpipe: list[bool],
) -> Way:
    try:
        names, latency = built.route(a, b)
    except ValueError as error:
        raise PlatformError(
            f"no route from host {a} to host {b}: {error}; synthesis needs all", code="not-connected"
        ) from None
    links = [number[name] for name in names]
    narrowest = min((capacity[i] for i in links), default=float("inf"))
    return Way(tuple(i for i in links if not fatpipe[i]), float(latency), narrowest)


def affine(table: tuple[tuple[int, float, float], ...], n_bytes: float) -> float:
    """Return the cost of the last row whose threshold lies below, or of the first row."""
    rows = [row for row in table if row[0] < n_bytes] or table[:1]
    return rows[-1][1] + rows[-1][2] * n_bytes if rows else 0.0


def _least(table: tuple[tuple[int, float, float], ...], most_bytes: float) -> float:
    """Return the least cost of 1 to `most_bytes` bytes: costs grow within a section."""
    starts = [1, *(max(1, t + 1) for t, _, _ in table[1:])]
    costs = (
        a + b * start for start, (_, a, b) in zip(starts, table, strict=False) if start <= max(1, most_bytes)
    )
    return min(costs, default=0.0)
