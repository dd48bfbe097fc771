"""Lower bounds: no schedule of a collective is faster on a machine, in labkit's simulation of it.

Latency: what one rank has must get to another one, message by message; with a processor's time for each
message it spreads like the best tree of the LogP model. Bandwidth: what must get into a set of ranks has to
pass the links that lead into it, and what all messages carry has to pass all links. Message sizes count with
the factors that suit them best, so the bound holds for every way to cut the data.

References: E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn: Collective communication: theory, practice,
and experience. CCPE 19(13), 2007, doi:10.1002/cpe.1206. R. Karp, A. Sahay, E. Santos, K. Schauser: Optimal
broadcast and summation in the LogP model. SPAA 1993, doi:10.1145/165231.165250. P. Patarasuk, X. Yuan, as in
`labkit.algorithms.allreduce.ring`: each element of an allreduce is in at least 2(p - 1) messages.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from labkit.synthesis.fabric import Fabric, Ideal

__all__ = ["LowerBound", "lower_bound", "lower_bounds"]


#: capacities are whole numbers for the flow algorithm: this one for the widest link
_SCALE = 1 << 20


class Network:
    """Points and links of a fabric; ranks on one host are one point.

    `point_of`: The point of each rank.
    `tail`, `head`: Where each used link begins and ends.
    `capacity`: Bytes/s of each used link.
    `latency_s`: The least latency between two ranks at different points, as declared.
    """

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        parent = list(range(fabric.size))

        def root(x: int) -> int:
            while parent[x] != x:
                parent[x] = parent[parent[x]]
                x = parent[x]
            return x

        def join(x: int, y: int) -> None:
            parent[root(x)] = root(y)

        ends: dict[int, tuple[int, int]] = {}
        for u, row in enumerate(fabric.ways):
            for v, way in enumerate(row):
                if way is None:
                    continue
                at = u
                for link in way.links:
                    if link not in ends:
                        parent.append(len(parent))
                        ends[link] = (at, len(parent) - 1)
                    tail, head = ends[link]
                    if root(at) == root(head) and root(at) != root(tail):
                        at = tail  # a link for both directions, on its way back
                        continue
                    join(at, tail)
                    at = head
                join(at, v)
        names = sorted({root(x) for x in range(len(parent))})
        number = {name: i for i, name in enumerate(names)}
        self.points = len(names)
        self.point_of = [number[root(rank)] for rank in range(fabric.size)]
        both = self._two_way(ends, root)
        pairs = [(number[root(a)], number[root(b)], fabric.capacity[link]) for link, (a, b) in ends.items()]
        pairs += [(b, a, c) for (a, b, c), link in zip(pairs, ends, strict=True) if link in both]
        pairs = [(a, b, c) for a, b, c in pairs if a != b]
        self.tail = np.array([a for a, _, _ in pairs], np.int64)
        self.head = np.array([b for _, b, _ in pairs], np.int64)
        self.capacity = np.array([c for _, _, c in pairs], np.float64)

    def _two_way(self, ends: dict[int, tuple[int, int]], root: object) -> set[int]:
        """Return the links that are crossed in both directions."""
        fabric, found = self.fabric, set()
        for u, row in enumerate(fabric.ways):
            for way in row:
                if way is None:
                    continue
                at = u
                for link in way.links:
                    tail, head = ends[link]
                    if root(at) == root(head) and root(at) != root(tail):  # type: ignore[operator]
                        found.add(link)
                        at = tail
                    else:
                        at = head
        return found

    # -- cuts ----------------------------------------------------------------------------------------
    def through(self, inside: set[int]) -> tuple[float, float]:
        """Return the bandwidth of the links that lead into a set of points, and out of it."""
        member = np.zeros(self.points, bool)
        member[list(inside)] = True
        into = float(self.capacity[~member[self.tail] & member[self.head]].sum())
        out = float(self.capacity[member[self.tail] & ~member[self.head]].sum())
        return into, out

    def narrowest(self, weights: dict[int, float], sink: int) -> tuple[float, set[int]]:
        """Find the cut around `sink` with the most weight outside for its bandwidth.

        `weights`: What each point has for the sink, bytes.
        Returns: Seconds that the bytes outside take, and the points inside.
        """
        inside = {sink}
        best = self._seconds(weights, inside)
        for _ in range(30):  # Dinkelbach: look for a cut that the time found so far does not satisfy
            if best == 0 or best == float("inf"):
                break
            other = self._violated(weights, sink, best)
            seconds = self._seconds(weights, other)
            if seconds <= best * (1 + 1e-9):
                break
            best, inside = seconds, other
        return best, inside

    def _seconds(self, weights: dict[int, float], inside: set[int]) -> float:
        outside = sum(weight for point, weight in weights.items() if point not in inside)
        into, _ = self.through(inside)
        return outside / into if into else 0.0 if not outside else float("inf")

    def _violated(self, weights: dict[int, float], sink: int, seconds: float) -> set[int]:
        """Return the points on the sink's side of a least cut, with sources of weight / seconds."""
        source, top = self.points, max(float(self.capacity.max()), max(weights.values()) / seconds)
        rows = np.concatenate([self.tail, np.full(len(weights), source)])
        columns = np.concatenate([self.head, np.fromiter(weights, np.int64)])
        rates = np.concatenate([self.capacity, np.fromiter(weights.values(), np.float64) / seconds])
        whole = np.ceil(rates / top * _SCALE).astype(np.int32)
        n = self.points + 1
        graph = csr_array((whole, (rows, columns)), shape=(n, n), dtype=np.int32)
        graph.sum_duplicates()
        flow = maximum_flow(graph, source, sink).flow
        rest = csr_array(graph - flow)
        seen, stack = {source}, [source]
        while stack:
            at = stack.pop()
            span = slice(rest.indptr[at], rest.indptr[at + 1])
            for to, left in zip(rest.indices[span].tolist(), rest.data[span].tolist(), strict=True):
                if left > 0 and to not in seen:
                    seen.add(to)
                    stack.append(to)
        return set(range(self.points)) - seen

    # -- distances -----------------------------------------------------------------------------------
    def distances(self, length: np.ndarray, sources: Iterable[int]) -> np.ndarray:
        """Return the shortest ways from some points to all, for a length of each link."""
        from scipy.sparse.csgraph import dijkstra

        order = np.lexsort((length, self.head, self.tail))
        tail, head = self.tail[order], self.head[order]
        first = np.ones(len(order), bool)
        first[1:] = (tail[1:] != tail[:-1]) | (head[1:] != head[:-1])
        shape = (self.points, self.points)
        graph = csr_array((length[order][first], (tail[first], head[first])), shape=shape)
        return np.atleast_2d(dijkstra(graph, indices=list(sources)))


Floats = npt.NDArray[np.float64]

#: of more ranks than this only some are asked for the narrowest cut around them: still a bound
_MOST_SINKS = 128
_INTO_ALL = ("allgather",)
_OUT_OF_ALL = ("reduce_scatter", "reduce_scatter_block")
#: all ranks need what the first rank has; all that all ranks have goes to the root, or comes from it
_FROM_ONE, _TO_ROOT, _FROM_ROOT = ("bcast", "scan", "exscan"), ("gather",), ("scatter",)
#: their amounts are those of the collective without the v, where all blocks are of one size
_OF_ANY_SIZES = ("allgatherv", "alltoallv", "gatherv", "scatterv")


@dataclass(frozen=True)
class LowerBound:
    """A lower bound of a collective's time.

    `latency_s`, `bandwidth_s`: Of as few bytes as a message can have, and of nothing but bytes; `seconds` is
        at least either.
    `reason`: What takes that long, as the end of a sentence.
    """

    seconds: float
    latency_s: float
    bandwidth_s: float
    reason: str


def lower_bound(fabric: Fabric, problem: str, n_bytes: float, root: int = 0) -> LowerBound:
    """Return a time that no schedule of the collective undercuts, whose messages carry nothing but its data.

    Where a network model lets longer messages be faster, beyond a threshold of its factors or of the
    processors' times, the bound of more bytes may be the lower one.
    """
    return lower_bounds(fabric, problem, [n_bytes], root)[0]


def lower_bounds(fabric: Fabric, problem: str, sizes: Sequence[float], root: int = 0) -> list[LowerBound]:
    """Return the bounds of several sizes; the cuts are looked for once. Parameters as of `lower_bound`."""
    p = fabric.size
    if p == 1:
        return [LowerBound(0.0, 0.0, 0.0, "one rank has everything already") for _ in sizes]
    problem = problem.removesuffix("v") if problem in _OF_ANY_SIZES else problem
    root = 0 if problem in ("scan", "exscan") else root
    is_apart = fabric.model.sharing == "delay"
    has_bytes = max(sizes) > 0 and problem != "barrier"
    each, why = _links(fabric, problem, 1.0, root) if has_bytes and not is_apart else (0.0, "")
    bounds = []
    for n_bytes in sizes:
        total = n_bytes * (p * p if problem == "alltoall" else 1 if _is_message(problem) else p)
        ideal = fabric.ideal(max(total, 1.0))
        latency, far = _latency(fabric, problem, ideal, root, total)
        if n_bytes <= 0 or not has_bytes:
            bounds.append(LowerBound(latency, latency, 0.0, far))
            continue
        bandwidth, reason = n_bytes * each, why
        if is_apart:
            bandwidth, reason = _interfaces(fabric, problem, n_bytes, root, ideal)
        bandwidth /= ideal.rate_factor
        first = _first_byte(fabric, ideal)
        if first + bandwidth >= latency:
            bounds.append(LowerBound(first + bandwidth, latency, bandwidth, reason))
        else:
            bounds.append(LowerBound(latency, latency, bandwidth, far))
    return bounds


def _is_message(problem: str) -> bool:
    return problem in ("bcast", "reduce", "allreduce", "scan", "exscan")


# -- latency -------------------------------------------------------------------------------------------
def _first_byte(fabric: Fabric, ideal: Ideal) -> float:
    """Return the time before any byte can move between ranks that differ in place."""
    delay = fabric.model.latency_s if fabric.model.sharing == "delay" else -1.0
    ways = [way for row in fabric.ways for way in row if way is not None]
    return ideal.send_s + (delay if delay >= 0 else min(w.latency_s for w in ways) * ideal.latency_factor)


def _latency(fabric: Fabric, problem: str, ideal: Ideal, root: int, most_bytes: float) -> tuple[float, str]:
    p = fabric.size
    times = _times_of_messages(fabric, most_bytes)
    from scipy.sparse.csgraph import floyd_warshall

    far = np.maximum(times, 0) if p > 600 else floyd_warshall(np.maximum(times, 1e-300))
    if p > 600:  # relays could be faster than the direct way; no less than the fastest message helps
        far = np.minimum(far, 2 * np.min(times[times > 0], initial=np.inf)) if np.any(times > 0) else far
    rows = [root] if problem in (*_FROM_ONE, *_FROM_ROOT) else range(p)
    columns = [root] if problem in ("reduce", *_TO_ROOT) else range(p)
    part = far[np.ix_(list(rows), list(columns))]
    u, v = np.unravel_index(int(np.argmax(part)), part.shape)
    seconds, reason = float(part.max()), f"what rank {list(rows)[u]} has must get to rank {list(columns)[v]}"
    least = float(np.min(times[~np.eye(p, dtype=bool)]))
    is_inward = problem in ("reduce", *_TO_ROOT)
    tree = _tree_s(p, least, _steps(fabric, ideal, most_bytes, is_inward))
    if problem not in ("alltoall", *_OUT_OF_ALL) and tree > seconds:
        way = (
            f"{p - 1} ranks' data must get to one"
            if is_inward
            else f"one rank's data must get to {p - 1} others"
        )
        return tree, f"{way}, a processor's message after the other"
    return seconds, reason


def _times_of_messages(fabric: Fabric, most_bytes: float) -> Floats:
    """Return the least time of a message from rank to rank, ranks x ranks, with the bytes it carries.

    A message may be longer than what it is for, where a longer one costs less.
    """
    known: dict[tuple[float, float], float] = {}
    lengths = fabric.turning_points(max(most_bytes, 1.0))
    times = np.zeros((fabric.size, fabric.size))
    for u, row in enumerate(fabric.ways):
        for v, way in enumerate(row):
            if way is None:
                continue
            at = way.latency_s, way.bytes_per_s
            if at not in known:
                known[at] = min(fabric.least_message_s(way, n, most_bytes > 0) for n in lengths)
            times[u, v] = known[at]
    return times


def _steps(fabric: Fabric, ideal: Ideal, most_bytes: float, is_inward: bool) -> list[float]:
    """Return how long a rank is busy with each message it sends (or receives), in each way it has.

    A message that is copied takes its processor; one that waits for its receive does not, but it is long,
    and all that leave a rank (or come to it) share its links.
    """
    cost = fabric.receive_s if is_inward else fabric.least_send_s
    limit = fabric.model.detached_below_bytes
    lengths = fabric.turning_points(max(most_bytes, 1.0))
    steps = [cost(n) for n in lengths if n < limit]
    found = [min(steps)] if steps else []
    if most_bytes >= limit:
        found.append(limit / (_rate_of_a_rank(fabric, is_inward) * ideal.rate_factor))
    return found


def _rate_of_a_rank(fabric: Fabric, is_inward: bool) -> float:
    """Return the most bytes/s that all links out of a rank (or into it) carry, as declared."""
    seen = fabric.reversed() if is_inward else fabric
    most = 0.0
    for row in seen.ways:
        ways = [way for way in row if way is not None]
        if fabric.model.sharing == "delay":
            each = fabric.model.gap_per_byte_s
            most = max(most, max(w.bytes_per_s for w in ways) if each < 0 else 1 / each if each else np.inf)
        elif all(way.links for way in ways):
            most = max(most, sum(fabric.capacity[link] for link in {way.links[0] for way in ways}))
        else:
            return float(np.inf)
    return most


def _tree_s(ranks: int, message_s: float, steps: Sequence[float]) -> float:
    """Return the time of a broadcast tree in which an informed rank informs another one in every step.

    Each of several steps is a separate way.
    """
    if min(steps) <= 0:
        return message_s
    free, last = [(0.0, step) for step in steps], 0.0
    for _ in range(ranks - 1):
        begin, step = heapq.heappop(free)
        last = begin + message_s
        heapq.heappush(free, (begin + step, step))
        for other in steps:
            heapq.heappush(free, (last, other))
    return last


# -- bandwidth -----------------------------------------------------------------------------------------
def _interfaces(fabric: Fabric, problem: str, n_bytes: float, root: int, ideal: Ideal) -> tuple[float, str]:
    """Bytes into or out of one host, where messages meet at the hosts' interfaces only."""
    model, p = fabric.model, fabric.size
    hosts: dict[int, list[int]] = {}
    for rank in range(p):
        other = 1 if rank == 0 else 0
        way = fabric.ways[rank][other]
        assert way is not None
        hosts.setdefault(way.links[0], []).append(rank)
    if len(hosts) < 2:
        return 0.0, "all ranks are on one host"
    best, why = 0.0, ""
    for members in hosts.values():
        others = [r for r in range(p) if r not in members]
        ways = [w for u in members for v in others for w in (fabric.ways[u][v], fabric.ways[v][u]) if w]
        each = 1.0 / max(w.bytes_per_s for w in ways)
        if model.gap_per_byte_s >= 0:
            each = model.gap_per_byte_s * ideal.rate_factor
        inward, outward = _crossing(problem, n_bytes, len(members), p, root in members)
        seconds = max(inward, outward) * each
        if seconds > best:
            best, why = seconds, f"the bytes of {_ranks(members)} must pass one interface"
    return best, why


def _links(fabric: Fabric, problem: str, n_bytes: float, root: int) -> tuple[float, str]:
    network = Network(fabric)
    p, best, why = fabric.size, 0.0, "no link is shared"
    if not len(network.capacity):
        return 0.0, why
    for inside in _families(network, problem, n_bytes, root):
        into, out = network.through(inside)
        members = [rank for rank in range(p) if network.point_of[rank] in inside]
        inward, outward = _crossing(problem, n_bytes, len(members), p, root in members)
        for amount, rate, word in ((inward, into, "into"), (outward, out, "out of")):
            if rate > 0 and amount / rate > best:
                best = amount / rate
                why = f"what must get {word} {_ranks(members)} has to pass the links that lead there"
    seconds, reason = _volume(network, problem, n_bytes, root)
    return (seconds, reason) if seconds > best else (best, why)


def _crossing(problem: str, n: float, inside: int, p: int, has_root: bool) -> tuple[float, float]:
    """Return the least bytes into and out of a set of ranks."""
    outside = p - inside
    if not inside or not outside:
        return 0.0, 0.0
    if problem in _INTO_ALL:
        return outside * n, inside * n
    if problem in _OUT_OF_ALL:
        return inside * n, outside * n
    if problem == "alltoall":
        return inside * outside * n, inside * outside * n
    if problem == "allreduce":
        return n, n
    if problem in _TO_ROOT:
        return (outside * n, 0.0) if has_root else (0.0, inside * n)
    if problem in _FROM_ROOT:
        return (0.0, outside * n) if has_root else (inside * n, 0.0)
    if problem == "barrier":
        return 0.0, 0.0
    if problem in _FROM_ONE:
        return (0.0, n) if has_root else (n, 0.0)
    return (n, 0.0) if has_root else (0.0, n)


def _families(network: Network, problem: str, n_bytes: float, root: int) -> list[set[int]]:
    """Return sets of points around which the cut may be narrow."""
    places = sorted(set(network.point_of))
    if len(places) < 2:
        return []
    found = [{place} for place in places]
    chosen = places[:: -(-len(places) // _MOST_SINKS)]
    weights = {place: n_bytes * network.point_of.count(place) for place in places}
    if problem in (*_TO_ROOT, *_FROM_ROOT):
        way = network if problem in _TO_ROOT else _turned(network)
        return [*found, way.narrowest(weights, network.point_of[root])[1]]
    if problem in (*_FROM_ONE, "reduce"):
        at = network.point_of[root]
        for place in chosen:
            if place != at:
                sink = at if problem == "reduce" else place
                source = place if problem == "reduce" else at
                found.append(network.narrowest({source: n_bytes}, sink)[1])
        return found
    for place in chosen:
        found.append(network.narrowest(weights, place)[1])
    turned = _turned(network)
    for place in chosen:
        found.append(turned.narrowest(weights, place)[1])
    return found


def _turned(network: Network) -> Network:
    """Return the network with every link the other way."""
    other = object.__new__(Network)
    other.__dict__ = dict(network.__dict__, tail=network.head, head=network.tail)
    return other


def _volume(network: Network, problem: str, n: float, root: int) -> tuple[float, str]:
    """All bytes over all links: however long a link counts, each byte goes the shortest way at best."""
    p, best, why = network.fabric.size, 0.0, ""
    places = np.array(network.point_of)
    distinct = sorted(set(network.point_of))
    for length in (np.ones(len(network.capacity)), 1.0 / network.capacity, _outward(network)):
        room = float((length * network.capacity).sum())
        if room <= 0:
            continue
        positive = np.maximum(length, 1e-30)
        far = network.distances(positive, distinct)
        index = {place: i for i, place in enumerate(distinct)}
        between = far[np.array([index[x] for x in places.tolist()])][:, places]
        apart = places[:, None] != places[None, :]
        if not apart.any() or not np.isfinite(between).all():
            continue
        if problem == "alltoall":
            amount = n * float(between[apart].sum())
        elif problem in _TO_ROOT:
            amount = n * float(between[:, root][apart[:, root]].sum())
        elif problem in _FROM_ROOT:
            amount = n * float(between[root][apart[root]].sum())
        else:
            nearest = float(between[apart].min())
            groups = len(distinct)
            amount = (
                nearest
                * n
                * (
                    2 * (groups - 1)
                    if problem == "allreduce"
                    else groups - 1
                    if problem in (*_FROM_ONE, "reduce")
                    else p * (groups - 1)
                )
            )
        if amount / room > best:
            best, why = amount / room, "all messages together have to pass all links"
    return best, why


def _outward(network: Network) -> np.ndarray:
    """Lengths that count how many times ranks send: 1 for links out of their points, else 0."""
    return np.isin(network.tail, np.array(sorted(set(network.point_of)))).astype(float)


def _ranks(members: list[int]) -> str:
    if len(members) == 1:
        return f"rank {members[0]}"
    return f"{len(members)} ranks (rank {members[0]} among them)"
