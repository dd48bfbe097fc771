"""The network as a graph, from its routes; cuts of it, and what they let through.

Routes tell which links follow each other. Points at which links meet are found from that; where routes leave
open whether two points are one, they are taken for one. So every route is a walk in the graph, and what the
graph cannot let through the machine cannot either.

Reference: L. Zhao, S. Maleki et al.: ForestColl: Efficient Collective Communications on Heterogeneous Network
Fabrics. arXiv:2402.06787. (An allgather is as fast as the narrowest cut lets the blocks outside of it in.)
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from labkit.synthesis.fabric import Fabric

__all__ = ["Network"]

#: capacities are whole numbers for the flow algorithm: so many for the widest link
_SCALE = 1 << 20


class Network:
    """Points and links of a fabric; ranks on one host are one point.

    Attributes
    ----------
    points : int
    point_of : list of int
        The point of each rank.
    tail, head : array of int
        Where each used link begins and ends.
    capacity : array of float
        Bytes/s of each used link.
    latency_s : float
        The least latency between two ranks at different points, as declared.
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

        Parameters
        ----------
        weights : dict of int to float
            What each point has for the sink, bytes.
        sink : int

        Returns
        -------
        float, set of int
            Seconds that the bytes outside take, and the points inside.
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
