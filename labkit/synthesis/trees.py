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

#: how often all trees are put anew
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
    """Plan an allreduce of a message that is cut into chunks, each with a tree of its own.

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
    return _timed(
        fabric, _trees(fabric, parts, n_bytes / parts, random.Random(seed)), n_bytes / parts, window
    )


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


def _timed(fabric: Fabric, trees: list[Tree], chunk_bytes: float, window: int) -> Plan:  # noqa: C901
    """Return when each chunk goes up and down each edge of its tree."""
    waiting: dict[tuple[int, int], list[tuple[int, bool]]] = {}
    over: dict[int, set[tuple[int, int]]] = {}  #: by link, the edges that use it
    free_from = [0.0] * len(fabric.capacity)
    events: list[tuple[float, int, int, int, bool]] = []
    transfers: list[Transfer] = []
    fresh: set[tuple[int, int]] = set()
    children = [_children(tree) for tree in trees]
    missing = [[len(below) for below in one] for one in children]

    def put(u: int, v: int, chunk: int, is_up: bool) -> None:
        if (u, v) not in waiting:
            waiting[u, v] = []
            way = fabric.ways[u][v]
            assert way is not None
            for link in way.links:
                over.setdefault(link, set()).add((u, v))
        heappush(waiting[u, v], (chunk, is_up))
        fresh.add((u, v))

    def combined(chunk: int, rank: int) -> None:
        """Go on from a rank that has combined what is below it: up, or from the root down."""
        if trees[chunk][rank] >= 0:
            put(rank, trees[chunk][rank], chunk, True)
        else:
            for child in children[chunk][rank]:
                put(rank, child, chunk, False)

    for chunk in range(len(trees)):
        for rank in range(fabric.size):
            if not missing[chunk][rank]:
                combined(chunk, rank)
    now = 0.0
    wakes: list[tuple[float, tuple[int, ...]]] = []
    while fresh or wakes:
        for u, v in sorted(fresh, key=lambda edge: (waiting[edge][:1], edge)):
            way = fabric.ways[u][v]
            assert way is not None
            latency, transfer = fabric.travel_s(way, chunk_bytes)
            taken = max(transfer, (latency + transfer) / window, 1e-15)
            there = max(fabric.message_s(way, chunk_bytes), 1e-15)
            while waiting[u, v] and all(free_from[link] <= now * (1 + 1e-12) for link in way.links):
                chunk, is_up = heappop(waiting[u, v])
                for link in way.links:
                    free_from[link] = now + taken
                transfers.append(Transfer(now, now + there, u, v, (chunk,), way.links, is_up))
                heappush(events, (now + there, chunk, u, v, is_up))
                heappush(wakes, (now + taken, way.links))
                heappush(wakes, (now + there, ()))
        fresh.clear()
        if not wakes:
            break
        now = wakes[0][0]
        while wakes and wakes[0][0] <= now * (1 + 1e-12):
            for link in heappop(wakes)[1]:
                fresh |= {edge for edge in over[link] if waiting[edge]}
        while events and events[0][0] <= now * (1 + 1e-12):
            _, chunk, u, v, is_up = heappop(events)
            if is_up:
                missing[chunk][v] -= 1
                if not missing[chunk][v]:
                    combined(chunk, v)
            else:
                for child in children[chunk][v]:
                    put(v, child, chunk, False)
    return Plan.of(transfers)


def _children(tree: Tree) -> list[list[int]]:
    below: list[list[int]] = [[] for _ in tree]
    for child, parent in enumerate(tree):
        if parent >= 0:
            below[parent].append(child)
    return below
