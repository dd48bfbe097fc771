"""Attempts of a synthesis: ways to cut the data and to spread it; the simulator says which is the fastest."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import exp, inf
from typing import Any

from labkit.schedule import Schedule
from labkit.schedule.doubling import floor_power_of_two
from labkit.synthesis.fabric import Fabric
from labkit.synthesis.programs import Transfer, TransferPlan, schedule_of
from labkit.synthesis.spreading import Options, direct, exchange, has_relays, plan_spread, routed

__all__ = ["Attempt", "SynthesisTask", "search", "up_and_down"]


def dissemination(
    fabric: Fabric, chunk_bytes: float, order: Sequence[int], is_near_first: bool
) -> TransferPlan:
    """Plan how one chunk of each rank gets to all in the fewest rounds, in a custom order.

    In each round every rank sends to the rank a fixed number of places before it what that rank lacks:
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
    return TransferPlan(tuple(found))


def doubling(fabric: Fabric, n_bytes: float, order: Sequence[int]) -> TransferPlan:
    """Plan recursive doubling among ranks in an order; those beyond a power of two fold in and out."""
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
    return TransferPlan(tuple(found))


def _links(fabric: Fabric, u: int, v: int) -> tuple[int, ...]:
    way = fabric.ways[u][v]
    assert way is not None
    return way.links


#: messages that a search may plan in all, at least one attempt
_MOST_MESSAGES = 120_000

#: ranks that own a share of an allreduce's message at most, evenly spread
_MOST_OWNERS = 128

_PARTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)

_WHOLE = 1 << 30

_ROUTED = "from rank to near rank, matched greedily in time"

_TREES = "up and down many trees in parallel"

#: above this multiple of a good time trees are not tried: they are many messages
_NEAR = 1.05

#: edges that may be looked at for all trees of an allreduce
_MOST_EDGES = 500_000


@dataclass(frozen=True)
class SynthesisTask:
    """What is to be synthesized.

    `parts`: Into how many chunks a message or each block is cut; None: that is searched for.
    """

    problem: str
    fabric: Fabric
    n_bytes: int
    root: int
    parts: int | None
    seed: int


@dataclass(frozen=True)
class Attempt:
    """One plan that was tried.

    `text`: What it was.
    `time_s`: Simulated.
    """

    text: str
    time_s: float
    schedule: Schedule
    plan: TransferPlan


@dataclass(frozen=True)
class _Way:
    """A way to plan: the data's cut, and how it spreads."""

    parts: int
    options: Options
    kind: str = ""
    is_paced: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether the message of an allreduce is not shared out among the ranks."""
        return self.kind == _TREES or self.kind.startswith(("recursive", "to one"))

    def text(self) -> str:
        words = [f"{self.parts} chunk{'s' if self.parts > 1 else ''}"]
        if self.kind:
            two = f", {self.options.window} messages under way on a link" if self.options.window > 1 else ""
            return f"a special plan: {self.kind}, {words[0]}{two}"
        words[0] = f"greedy matching in time, {words[0]}"
        if self.options.batch > 1:
            words.append(
                "as many as available in a message"
                if self.options.batch == _WHOLE
                else f"up to {self.options.batch} in a message"
            )
        if self.options.reach:
            words.append("to far ranks too")
        if self.options.window > 1:
            words.append(f"{self.options.window} messages under way on a link")
        if not self.is_paced:
            words.append("sent as soon as available")
        if not self.options.is_rarest:
            words.append("any chunk first")
        return ", ".join(words)


def search(task: SynthesisTask, time: Callable[[Schedule], float], good_s: float) -> list[Attempt]:
    """Try plans until the allowance is used up, or one is hardly slower than the bound."""
    found: dict[_Way, Attempt] = {}
    spent = 0

    def attempt(way: _Way) -> float:
        nonlocal spent
        if way not in found:
            plan = _plan(task, way)
            schedule = schedule_of(
                task.problem, task.fabric.size, task.root, _cut(task, way), plan, way.is_paced
            )
            found[way] = Attempt(way.text(), time(schedule), schedule, plan)
            spent += len(plan.transfers)
        return found[way].time_s

    def is_enough(way: _Way) -> bool:
        if not found:
            return False
        best = min(one.time_s for one in found.values())
        return best <= good_s or spent + _messages(task, way) > _MOST_MESSAGES

    def take(ways: Iterable[_Way], best: _Way, patience: int = 1 << 30) -> _Way:
        worse = 0
        for way in ways:
            if worse >= patience or is_enough(way):
                break
            if way not in found and attempt(way) < attempt(best):
                best, worse = way, 0
            else:
                worse += way != best
        return best

    first, *others = _cuts(task)
    attempt(first)
    best = take(others, first, patience=2)
    take(_others(task, best), best)
    if min(one.time_s for one in found.values()) > _NEAR * good_s:
        best = take(_trees(task), best)
    for change in _CHANGES:
        best = take(_changed(task, best, change), best)
    seeds = range(task.seed + 1, task.seed + (1 if best.kind == _TREES else 7))  # trees average over draws
    take([replace(best, options=replace(best.options, seed=seed)) for seed in seeds], best)
    return list(found.values())


def _cut(task: SynthesisTask, way: _Way) -> int:
    """Return the number of parts of the schedule."""
    is_shared_out = task.problem == "allreduce" and not way.is_whole
    return len(_origins(task, way)) if is_shared_out else way.parts


def _origins(task: SynthesisTask, way: _Way) -> list[int]:
    """Return the rank that owns each chunk of an allgather, or of what is combined before it."""
    p = task.fabric.size
    step = -(-p // _MOST_OWNERS) if task.problem == "allreduce" else 1
    return [rank for rank in range(0, p, step) for _ in range(way.parts)]


def _messages(task: SynthesisTask, way: _Way) -> int:
    p = task.fabric.size
    blocks = {"bcast": 1, "reduce": 1, "allreduce": 2 * min(p, _MOST_OWNERS)}.get(task.problem, p)
    if way.is_whole:
        return 2 * p * way.parts * (1 if way.kind == _TREES else p.bit_length())
    return blocks * way.parts * p // (2 if way.options.batch > 1 else 1)


# -- stages ---------------------------------------------------------------------------------------------
def _cuts(task: SynthesisTask) -> list[_Way]:
    """Return ways that differ in the number of chunks only."""
    options = Options(seed=task.seed)
    if task.parts is not None or task.problem == "reduce_scatter":
        return [_Way(task.parts or 1, options)]
    p = task.fabric.size
    most = max(1, task.n_bytes // (p if task.problem == "allreduce" else 1))
    found = [parts for parts in _PARTS if parts == 1 or (parts <= most and parts * p <= 4096)]
    return [_Way(parts, options) for parts in found]


#: what is changed of the best way so far, one thing after the other
_CHANGES: tuple[dict[str, object], ...] = (
    {"is_paced": False},
    {"window": 2},
    {"batch": 4},
    {"batch": _WHOLE},
    {"reach": 8},
    {"parts": 1},
    {"parts": 3 / 2},
    {"parts": 3 / 4},
    {"is_rarest": False},
)


def _changed(task: SynthesisTask, best: _Way, change: dict[str, Any]) -> list[_Way]:
    (name, value), options = next(iter(change.items())), best.options
    if name == "is_paced":
        return [replace(best, is_paced=value)]
    if name == "parts":
        if task.parts is not None or task.problem == "reduce_scatter":
            return []
        changed = replace(best, parts=1 if value == 1 else max(1, round(best.parts * value)))
        if value != 1:
            return [changed]
        whole = replace(options, batch=_WHOLE, reach=8)
        if best.kind == _TREES:
            return []  # one tree is that to one rank and back
        return [changed, replace(changed, options=whole), replace(changed, options=whole, is_paced=False)]
    if (task.problem == "alltoall" or best.kind == _TREES) and name != "window":
        return []
    return [replace(best, options=replace(options, **{name: value}))]


def _others(task: SynthesisTask, best: _Way) -> list[_Way]:
    """Return special ways: around a ring, from everybody to all, an allreduce that stays whole."""
    found: list[_Way] = []
    if task.problem != "alltoall":
        order = tuple(_by_place(task.fabric))
        found += [
            _Way(parts, Options(seed=task.seed, window=window, order=order), "around a ring of near ranks")
            for parts in _along(task, best)
            for window in (1, 2)
        ]
    is_owned_by_all = task.problem != "allreduce" or task.fabric.size <= _MOST_OWNERS
    if task.problem not in ("bcast", "reduce", "alltoall") and task.parts in (None, 1) and is_owned_by_all:
        kinds = [f"in few rounds, {how} ranks first" for how in ("near", "far")] + [
            "in few rounds, ranks in their order"
        ]
        found += [_Way(1, Options(), kind) for kind in kinds]
    if task.problem == "alltoall" and has_relays(task.fabric):
        found += [
            _Way(task.parts or 1, Options(seed=task.seed, window=window), _ROUTED, is_paced)
            for window in (1, 2)
            for is_paced in (True, False)
        ]
    if task.problem not in ("bcast", "reduce"):
        found.append(_Way(task.parts or 1, Options(), "from every rank to all others in parallel", False))
    if task.problem == "allreduce" and task.parts in (None, 1):
        found += [_Way(1, Options(), f"recursive doubling, {which} ranks first") for which in ("near", "far")]
        options = Options(reach=8, seed=task.seed)
        found += [_Way(parts, options, "to one rank and back") for parts in (1, 16) if parts <= task.n_bytes]
    return found


def _along(task: SynthesisTask, best: _Way) -> list[int]:
    """Return into how many chunks to cut what goes from rank to rank, one after the other.

    A message of one rank keeps them all busy in many pieces only, and in the more, the more ranks it passes.
    """
    if task.parts is not None or task.problem not in ("bcast", "reduce"):
        return [task.parts or 1]
    most = max(best.parts, min(task.n_bytes, 4096 // task.fabric.size))
    return [parts for parts in (best.parts, 2 * best.parts, 4 * best.parts) if parts <= most]


# An allreduce along many trees at the same time: each chunk is combined up its tree and comes back down it.
#
# One chunk's way down overlaps another one's way up, so that a link carries both halves of the allreduce
# at the
# same time. That pays where some ranks' links are narrow: an allgather after a reduce-scatter uses such a
# link
# one way in the first half and the other way in the second.
#
# First the trees: chunk after chunk is taken off and put where a tree over the least loaded links leads,
# several times over (a packing of spanning trees by weights that grow with the load). Trees that are light
# only
# may be deep, so that a rank's distance from the root counts, too. Then the times: whenever the links to a
# neighbor are free, the lowest chunk goes that is ready.
#
# References
# ----------
# .. [1] S. A. Plotkin, D. B. Shmoys, É. Tardos: Fast approximation algorithms for fractional packing and
#    covering problems. Mathematics of Operations Research 20(2), 1995. doi:10.1287/moor.20.2.257
# .. [2] C. J. Alpert, T. C. Hu, J. H. Huang, A. B. Kahng, D. Karger: Prim-Dijkstra tradeoffs for improved
#    performance-driven routing tree design. IEEE TCAD 14(7), 1995. doi:10.1109/43.391737

#: number of times all trees are built again
_ROUNDS = 3

#: how much longer an edge over the fullest link counts, as a power of e
_AVOIDED = 7.0

#: weight of the distance of a rank from the root, compared with the edge to the next one
_DISTANCE = 0.5

#: each rank's parent, -1 for the root
Tree = list[int]


def edges_of(fabric: Fabric) -> int:
    """Return the number of pairs that a tree may join."""
    return sum(len(near) for near in fabric.beside)


def up_and_down(fabric: Fabric, parts: int, n_bytes: float, seed: int = 0, window: int = 1) -> TransferPlan:
    """Plan an allreduce of a message that is cut into chunks, each with its own tree."""
    trees = _trees_trees(fabric, parts, n_bytes / parts, random.Random(seed))
    return _Schedule(fabric, trees, n_bytes / parts, window).plan()


def _trees_trees(fabric: Fabric, parts: int, chunk_bytes: float, draw: random.Random) -> list[Tree]:
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

    def plan(self) -> TransferPlan:
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
        return TransferPlan.of(self.transfers)

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


def _trees(task: SynthesisTask) -> list[_Way]:
    """Return ways of an allreduce whose two halves overlap."""
    if task.problem != "allreduce" or task.parts is not None:
        return []
    edges = edges_of(task.fabric)
    many = (parts for parts in (64, 256) if parts <= task.n_bytes and parts * edges <= _MOST_EDGES)
    return [_Way(parts, Options(seed=task.seed), _TREES) for parts in many]


# -- plans ----------------------------------------------------------------------------------------------
def _plan(task: SynthesisTask, way: _Way) -> TransferPlan:
    fabric, p, parts, options = task.fabric, task.fabric.size, way.parts, way.options
    problem, n = task.problem, float(task.n_bytes)
    if problem == "alltoall":
        if way.kind == _ROUTED:
            return routed(fabric, parts, n / parts, options.seed, options.window)
        if way.kind:
            at_once = direct(fabric, [u for u in range(p) for _ in range(parts)], n / parts)
            return TransferPlan(tuple(_to_its_own(one, p, parts) for one in at_once.transfers))
        return exchange(fabric, parts, n / parts, options.seed, options.window)
    if way.kind.startswith("recursive"):
        order = _by_place(fabric)
        if way.kind.endswith("far ranks first"):
            order = _turned(order)
        return doubling(fabric, n, order)
    if way.kind == _TREES:
        return up_and_down(fabric, parts, n, options.seed, options.window)
    if problem in ("bcast", "reduce") or way.is_whole:
        root = task.root if not way.is_whole else _middle(fabric)
        origins = [root] * parts
        down = None if problem == "reduce" else plan_spread(fabric, origins, n / parts, options)
        if problem == "bcast":
            assert down is not None
            return down
        up = plan_spread(fabric.reversed(), origins, n / parts, options).reversed()
        return up if down is None else up.then(down)
    origins = _origins(task, way)
    size = n / len(origins) if problem == "allreduce" else n / parts
    if way.kind.startswith("from everybody"):
        down, back = direct(fabric, origins, size), direct(fabric.reversed(), origins, size)
    elif way.kind.startswith("in few"):
        order = list(range(p)) if way.kind.endswith("their order") else _by_place(fabric)
        is_near = not way.kind.endswith("far ranks first")
        down = dissemination(fabric, size, order, is_near)
        back = dissemination(fabric.reversed(), size, order, is_near)
    else:
        down = (
            plan_spread(fabric, origins, size, options)
            if problem in ("allgather", "allreduce")
            else TransferPlan(())
        )
        back = down
        if problem == "allreduce" and fabric.is_even and not options.order:
            back = down.mirrored(fabric.ways)
        elif problem != "allgather":
            turned = replace(options, order=options.order[::-1])
            back = plan_spread(fabric.reversed(), origins, size, turned)
    if problem == "allgather":
        return down
    return back.reversed().then(down) if problem == "allreduce" else back.reversed()


def _to_its_own(one: Transfer, ranks: int, parts: int) -> Transfer:
    """Return the message of an all-to-all where an allgather has this one."""
    (chunk,) = one.chunks
    return replace(one, chunks=((one.source * ranks + one.destination) * parts + chunk % parts,))


def _by_place(fabric: Fabric) -> list[int]:
    """Return the ranks in an order in which near ones follow each other: a nearest-neighbor walk."""
    order, left = [0], set(range(1, fabric.size))
    while left:
        here = order[-1]
        nearest = next(v for v in fabric.sorted_by_way(here, left))
        order.append(nearest)
        left.remove(nearest)
    return order


def _turned(order: list[int]) -> list[int]:
    """Return an order whose power of two is numbered with its bits backwards: far ones exchange first."""
    core = 1 << (len(order).bit_length() - 1)
    bits = core.bit_length() - 1
    turned = [int(f"{i:0{bits}b}"[::-1], 2) if bits else 0 for i in range(core)]
    return [order[i] for i in turned] + order[core:]


def _middle(fabric: Fabric) -> int:
    """Return the rank from which the farthest one is nearest."""
    p = fabric.size

    def far(u: int) -> float:
        ways = (fabric.ways[u][v] for v in range(p) if v != u)
        return max((fabric.message_s(way, 1) for way in ways if way is not None), default=0.0)

    return min(range(p), key=far)
