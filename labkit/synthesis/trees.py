"""An allreduce along many trees at once: each chunk is combined up its tree and comes back down it.

One chunk's way down overlaps another one's way up, so that a link carries both halves of the allreduce at the
same time. That pays where some ranks' links are narrow: an allgather after a reduce-scatter uses such a link
one way in the first half and the other way in the second.

First the trees: chunk after chunk is taken off and put where a tree over the least loaded links leads,
several times over (a packing of spanning trees by weights that grow with the load). Trees that are light only
may be deep, so that a rank's distance from the root counts, too. Then the times: whenever the links to a
neighbour are free, the lowest chunk goes that is ready.

References
----------
.. [1] S. A. Plotkin, D. B. Shmoys, É. Tardos: Fast approximation algorithms for fractional packing and
   covering problems. Mathematics of Operations Research 20(2), 1995. doi:10.1287/moor.20.2.257
.. [2] C. J. Alpert, T. C. Hu, J. H. Huang, A. B. Kahng, D. Karger: Prim-Dijkstra tradeoffs for improved
   performance-driven routing tree design. IEEE TCAD 14(7), 1995. doi:10.1109/43.391737
"""

from __future__ import annotations

import random
from heapq import heappop, heappush
from math import exp, inf

from labkit.synthesis.fabric import Fabric
from labkit.synthesis.plan import Plan, Transfer

__all__ = ["edges_of", "up_and_down"]

#: number of times all trees are built again
_ROUNDS = 3
#: how much longer an edge over the fullest link counts, as a power of e
_AVOIDED = 7.0
#: how much of the distance of a rank from the root counts beside the edge to the next one
_DISTANCE = 0.5

#: each rank's parent, -1 for the root
Tree = list[int]


def edges_of(fabric: Fabric) -> int:
    """Return the number of pairs that a tree may join."""
    return sum(len(near) for near in fabric.beside)


def up_and_down(fabric: Fabric, parts: int, n_bytes: float, seed: int = 0, window: int = 1) -> Plan:
    """Plan an allreduce of a message that is cut into chunks, each with its own tree.

    Parameters
    ----------
    fabric : Fabric
    parts : int
        Chunks of the message, and trees.
    n_bytes : float
        The message.
    seed : int
        Draws roots, and the order in which trees are looked for.
    window : int
        Messages under way on a link: 2 hide latencies.

    Returns
    -------
    Plan
    """
    trees = _trees(fabric, parts, n_bytes / parts, random.Random(seed))
    return _Schedule(fabric, trees, n_bytes / parts, window).plan()


def _trees(fabric: Fabric, parts: int, chunk_bytes: float, draw: random.Random) -> list[Tree]:
    """Return a tree for each chunk, of several tries those with the least load on the fullest link."""
    load = [0.0] * len(fabric.capacity)
    ranks = list(range(fabric.size))
    draw.shuffle(ranks)
    trees: list[Tree] = [[] for _ in range(parts)]
    best, best_load = trees, inf
    order = list(range(parts))
    for _ in range(_ROUNDS):
        for chunk in order:
            _count(fabric, trees[chunk], -chunk_bytes, load)
            trees[chunk] = _tree(fabric, ranks[chunk % fabric.size], chunk_bytes, load)
            _count(fabric, trees[chunk], chunk_bytes, load)
        if max(load, default=0.0) < best_load:
            best, best_load = list(trees), max(load, default=0.0)
        draw.shuffle(order)
    return best


def _count(fabric: Fabric, tree: Tree, n_bytes: float, load: list[float]) -> None:
    """Add what a chunk takes of the links on its way up and down, in seconds."""
    for child, parent in enumerate(tree):
        if parent >= 0:
            for u, v in ((child, parent), (parent, child)):
                way = fabric.ways[u][v]
                assert way is not None
                for link in way.links:
                    load[link] += n_bytes / fabric.capacity[link]


def _tree(fabric: Fabric, root: int, chunk_bytes: float, load: list[float]) -> Tree:
    """Return the tree that grows from the root along short edges, where loaded links are long."""
    most = max(load, default=0.0) or 1.0
    tree, near = [-1] * fabric.size, [inf] * fabric.size
    is_in = [False] * fabric.size
    queue = [(0.0, root, -1)]
    while queue:
        here, u, parent = heappop(queue)
        if is_in[u]:
            continue
        is_in[u], tree[u] = True, parent
        for v in fabric.beside[u]:
            if is_in[v]:
                continue
            length = 0.0
            for way in (fabric.ways[u][v], fabric.ways[v][u]):
                assert way is not None
                fullest = max((load[link] for link in way.links), default=0.0) / most
                length += max(fabric.message_s(way, chunk_bytes), 1e-15) * exp(_AVOIDED * fullest)
            there = _DISTANCE * here + length
            if there < near[v]:
                near[v] = there
                heappush(queue, (there, v, u))
    return tree


class _Schedule:
    """When each chunk goes up and down each edge of its tree."""

    def __init__(self, fabric: Fabric, trees: list[Tree], chunk_bytes: float, window: int) -> None:
        self.fabric, self.trees, self.chunk_bytes, self.window = fabric, trees, chunk_bytes, window
        self.children = [_children(tree) for tree in trees]
        self.missing = [[len(below) for below in one] for one in self.children]
        self.waiting: dict[tuple[int, int], list[tuple[int, bool]]] = {}
        self.over: dict[int, set[tuple[int, int]]] = {}  #: by link, the edges that use it
        self.free_from = [0.0] * len(fabric.capacity)
        self.events: list[tuple[float, int, int, int, bool]] = []
        self.wakes: list[tuple[float, tuple[int, ...]]] = []
        self.fresh: set[tuple[int, int]] = set()
        self.transfers: list[Transfer] = []

    def plan(self) -> Plan:
        for chunk in range(len(self.trees)):
            for rank in range(self.fabric.size):
                if not self.missing[chunk][rank]:
                    self._combined(chunk, rank)
        now = 0.0
        while self.fresh or self.wakes:
            for edge in sorted(self.fresh, key=lambda edge: (self.waiting[edge][:1], edge)):
                self._begin(*edge, now)
            self.fresh.clear()
            if not self.wakes:
                break
            now = self.wakes[0][0]
            while self.wakes and self.wakes[0][0] <= now * (1 + 1e-12):
                for link in heappop(self.wakes)[1]:
                    self.fresh |= {edge for edge in self.over[link] if self.waiting[edge]}
            while self.events and self.events[0][0] <= now * (1 + 1e-12):
                self._arrived(*heappop(self.events)[1:])
        return Plan.of(self.transfers)

    def _put(self, u: int, v: int, chunk: int, is_up: bool) -> None:
        """Let a chunk wait for the links of an edge."""
        if (u, v) not in self.waiting:
            self.waiting[u, v] = []
            way = self.fabric.ways[u][v]
            assert way is not None
            for link in way.links:
                self.over.setdefault(link, set()).add((u, v))
        heappush(self.waiting[u, v], (chunk, is_up))
        self.fresh.add((u, v))

    def _combined(self, chunk: int, rank: int) -> None:
        """Go on from a rank that has combined what is below it: up, or from the root down."""
        if self.trees[chunk][rank] >= 0:
            self._put(rank, self.trees[chunk][rank], chunk, True)
        else:
            self._down(chunk, rank)

    def _down(self, chunk: int, rank: int) -> None:
        for child in self.children[chunk][rank]:
            self._put(rank, child, chunk, False)

    def _begin(self, u: int, v: int, now: float) -> None:
        """Send what waits for an edge, as long as all its links are free."""
        way = self.fabric.ways[u][v]
        assert way is not None
        latency, transfer = self.fabric.travel_s(way, self.chunk_bytes)
        taken = max(transfer, (latency + transfer) / self.window, 1e-15)
        there = max(self.fabric.message_s(way, self.chunk_bytes), 1e-15)
        while self.waiting[u, v] and all(self.free_from[link] <= now * (1 + 1e-12) for link in way.links):
            chunk, is_up = heappop(self.waiting[u, v])
            for link in way.links:
                self.free_from[link] = now + taken
            self.transfers.append(Transfer(now, now + there, u, v, (chunk,), way.links, is_up))
            heappush(self.events, (now + there, chunk, u, v, is_up))
            heappush(self.wakes, (now + taken, way.links))
            heappush(self.wakes, (now + there, ()))

    def _arrived(self, chunk: int, u: int, v: int, is_up: bool) -> None:
        if not is_up:
            self._down(chunk, v)
            return
        self.missing[chunk][v] -= 1
        if not self.missing[chunk][v]:
            self._combined(chunk, v)


def _children(tree: Tree) -> list[list[int]]:
    below: list[list[int]] = [[] for _ in tree]
    for child, parent in enumerate(tree):
        if parent >= 0:
            below[parent].append(child)
    return below
