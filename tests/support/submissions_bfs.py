"""Submissions to the breadth-first search: right ones, and wrong or cheating ones with what they miss."""

# ruff: noqa: E501 - a mistake is a line

from __future__ import annotations

__all__ = ["BY_LUCK", "HOSTILE", "RIGHT", "WRONG"]

#: of the wrong ones those that only the sandbox may run
HOSTILE = ("gathers_packed", "by_a_file", "seeks_the_case", "reads_the_oracle")

_HEAD = "import numpy as np\nimport labkit as lk\nfrom labkit import MPI\n"
_EXCHANGE = """
def exchange(comm, rows, owner):
    order = np.argsort(owner, kind="stable")
    going = np.bincount(owner, minlength=comm.size) * rows.shape[1]
    coming = np.empty_like(going)
    comm.Alltoall(going, coming)
    out = np.empty(coming.sum(), np.int64)
    comm.Alltoallv([np.ascontiguousarray(rows[order]).ravel(), going], [out, coming])
    return out.reshape(-1, rows.shape[1])
"""
_OBJECTS = """
def exchange(comm, rows, owner):
    return np.concatenate(comm.alltoall([rows[owner == r] for r in range(comm.size)]))
"""
_MESSAGES = """
def exchange(comm, rows, owner):
    waits = [comm.isend(rows[owner == r], r, 3) for r in range(comm.size)]
    parts = [comm.recv(source=r, tag=3) for r in range(comm.size)]
    MPI.Request.waitall(waits)
    return np.concatenate(parts)
"""
_SPARSE = """
def exchange(comm, rows, owner):
    talks = np.bincount(owner, minlength=comm.size) > 0
    counts = np.zeros(comm.size, int)
    comm.Allreduce(talks.astype(int), counts)
    waits = [comm.isend(rows[owner == r], int(r), 3) for r in np.flatnonzero(talks)]
    parts = [comm.recv(source=MPI.ANY_SOURCE, tag=3) for _ in range(counts[comm.rank])]
    MPI.Request.waitall(waits)
    comm.Barrier()
    return np.concatenate([rows[:0], *parts])
"""
_SEARCH = """
def distances(comm, n, edges, root):
    p = comm.size
    bounds = np.arange(p + 1) * n // p
    first, end = bounds[comm.rank], bounds[comm.rank + 1]

    def owner(v):
        return np.searchsorted(bounds, v, "right") - 1

    both = np.concatenate([edges, edges[:, ::-1]])
    mine = exchange(comm, both, owner(both[:, 0]))
    mine = mine[np.argsort(mine[:, 0], kind="stable")]
    begin = np.searchsorted(mine[:, 0], np.arange(first, end + 1))
    found = np.full(end - first, -1)
    frontier = np.array([root - first] if first <= root < end else [], int)
    found[frontier] = 0
    level = 0
    while comm.allreduce(len(frontier)):
        level += 1
        heads = np.concatenate([mine[:0, 1], *(mine[begin[v] : begin[v + 1], 1] for v in frontier)])
        heads = np.unique(heads)
        came = exchange(comm, heads[:, None], owner(heads))[:, 0] - first
        frontier = np.unique(came[found[came] < 0])
        found[frontier] = level
    return found
"""


def _made(exchange: str = _EXCHANGE, search: str = _SEARCH) -> str:
    return f"{_HEAD}{exchange}\n{search}"


_SETS = (
    _HEAD
    + '''
def distances(comm, n, edges, root):
    """Dictionaries and sets."""
    p, me = comm.Get_size(), comm.Get_rank()
    first, last = me * n // p, (me + 1) * n // p

    def owner_of(v):
        r = v * p // n
        while not r * n // p <= v < (r + 1) * n // p:
            r += 1 if v >= (r + 1) * n // p else -1
        return r

    owner = [owner_of(v) for v in range(n)]
    going = [[] for _ in range(p)]
    for u, v in edges.tolist():
        going[owner[u]].append((u, v))
        going[owner[v]].append((v, u))
    neighbors = {}
    for part in comm.alltoall(going):
        for u, v in part:
            neighbors.setdefault(u, set()).add(v)
    distance, new, level = {}, set(), 0
    if first <= root < last:
        distance[root] = 0
        new.add(root)
    while comm.allreduce(len(new), op=MPI.SUM) > 0:
        level += 1
        asked = [set() for _ in range(p)]
        for u in new:
            for v in neighbors.get(u, ()):
                asked[owner[v]].add(v)
        new = set()
        for part in comm.alltoall([sorted(one) for one in asked]):
            for v in part:
                if v not in distance:
                    distance[v] = level
                    new.add(v)
    return np.array([distance.get(v, -1) for v in range(first, last)], dtype=int)
'''
)
_CSR = (
    _HEAD
    + """
class Graph:
    def __init__(self, comm, n, edges):
        self.comm, self.n, self.p = comm, n, comm.size
        self.starts = np.array([r * n // self.p for r in range(self.p + 1)])
        self.low, self.high = self.starts[comm.rank], self.starts[comm.rank + 1]
        ends = np.vstack((edges, np.fliplr(edges)))
        ends = ends[ends[:, 0] != ends[:, 1]]
        ends = self.sent(ends)
        ends = np.unique(ends, axis=0)
        self.heads = ends[:, 1]
        self.first = np.searchsorted(ends[:, 0], range(self.low, self.high + 1))

    def sent(self, rows):
        at = np.searchsorted(self.starts, rows[:, 0], side="right") - 1
        order = at.argsort(kind="stable")
        parts = np.split(rows[order], np.searchsorted(at[order], range(1, self.p)))
        return np.vstack(self.comm.alltoall(parts))

    def neighbors(self, vertices):
        parts = [self.heads[self.first[v - self.low] : self.first[v - self.low + 1]] for v in vertices]
        return np.unique(np.concatenate(parts)) if parts else np.empty(0, int)


def distances(comm, n, edges, root):
    graph = Graph(comm, n, edges)
    result = -np.ones(graph.high - graph.low, dtype=np.int32)
    frontier = [root] if graph.low <= root < graph.high else []
    step = 0
    while True:
        for v in frontier:
            result[v - graph.low] = step
        any_left = comm.allreduce(bool(len(frontier)), op=MPI.LOR)
        if not any_left:
            return result
        step += 1
        found = np.unique(graph.sent(graph.neighbors(frontier).reshape(-1, 1)).ravel())
        frontier = found[result[found - graph.low] < 0]
"""
)
_FLAGS = _SEARCH.replace(
    "    while comm.allreduce(len(frontier)):\n",
    "    left = np.zeros(1, int)\n    while comm.Allreduce(np.array([len(frontier)]), left) or left[0]:\n",
)
#: name -> (source, the checks that its algorithm misses)
RIGHT: dict[str, tuple[str, tuple[str, ...]]] = {
    "alltoallv": (_made(), ()),
    "objects": (_made(_OBJECTS), ()),
    "messages": (_made(_MESSAGES), ()),
    "sparse": (_made(_SPARSE), ()),
    "sets": (_SETS, ()),
    "class": (_CSR, ()),
    "buffers": (_made(search=_FLAGS), ()),
    "with_repeated_heads": (_made(search=_SEARCH.replace("        heads = np.unique(heads)\n", "")), ()),
    "with_parents": (
        _made(
            search=_SEARCH.replace(
                "came = exchange(comm, heads[:, None]",
                "came = exchange(comm, np.column_stack([heads, 0 * heads + root])",
            )
        ),
        (),
    ),
    "remembers_what_was_sent": (
        _made(
            search=_SEARCH.replace("    level = 0\n", "    level, sent = 0, set()\n").replace(
                "        came =",
                "        heads = np.array([v for v in heads.tolist() if v not in sent], int)\n        sent.update(heads.tolist())\n        came =",
            )
        ),
        (),
    ),
    "small_numbers": (
        _made(search=_SEARCH.replace("np.full(end - first, -1)", "np.full(end - first, -1, np.int16)")),
        (),
    ),
    "phases": (
        _made(
            search=_SEARCH.replace(
                "        came = exchange(", "        with lk.phase('exchange'):\n            came = exchange("
            )
        ),
        (),
    ),
    "one_level_more": (
        _made(
            search=_SEARCH.replace(
                "    while comm.allreduce(len(frontier)):\n", "    go_on = True\n    while go_on:\n"
            ).replace(
                "        found[frontier] = level\n    return",
                "        found[frontier] = level\n        go_on = comm.allreduce(len(frontier), op=MPI.MAX) > 0\n    return",
            )
        ),
        (),
    ),
    "lonely_vertices": (
        _made(
            search=_SEARCH.replace(
                "    both = np",
                "    if n == 1:\n        return np.zeros(end - first, int)\n    edges = edges[edges[:, 0] != edges[:, 1]]\n    both = np",
            )
        ),
        (),
    ),
    "local_first": (
        _made(
            search=_SEARCH.replace(
                "        came = exchange(comm, heads[:, None], owner(heads))[:, 0] - first\n",
                "        at_home = (first <= heads) & (heads < end)\n        far = heads[~at_home]\n        came = np.concatenate([heads[at_home], exchange(comm, far[:, None], owner(far))[:, 0]]) - first\n",
            )
        ),
        (),
    ),
    "reduced_at_rank_0": (
        _made(
            _OBJECTS,
            _SEARCH.replace("comm.allreduce(len(frontier))", "comm.bcast(comm.reduce(len(frontier)))"),
        ),
        (),
    ),
}
_ALL = ("right", "any_number", "kinds", "dealt", "messages", "volume")
_COSTS = ("messages", "volume")
_SERIAL = """
def serial(n, edges, root):
    neighbors = [[] for _ in range(n)]
    for u, v in edges.tolist():
        neighbors[u].append(v)
        neighbors[v].append(u)
    found, queue = [-1] * n, [root]
    found[root] = 0
    for u in queue:
        for v in neighbors[u]:
            if found[v] < 0:
                found[v] = found[u] + 1
                queue.append(v)
    return np.array(found)


"""
_GATHER = """    every = np.concatenate(comm.allgather(edges))
    low, high = comm.rank * n // comm.size, (comm.rank + 1) * n // comm.size
    return serial(n, every, root)[low:high].copy()
"""


def _gathers_if(when: str) -> str:
    body = "".join(f"    {line}\n" for line in _GATHER.splitlines())
    return _made(
        search=_SERIAL
        + _SEARCH.replace("    p = comm.size\n", f"    p = comm.size\n    if {when}:\n{body}", 1)
    )


#: what the draw of graphs and ranks decides
BY_LUCK: dict[str, tuple[str, ...]] = {
    "one_way": ("right", "dealt"),
    "fixed_levels": ("any_number", "kinds", "dealt"),
    "small_distances": ("any_number", "kinds", "dealt"),
    "loops_count": ("any_number", "dealt"),
    "unreached_are_large": ("dealt",),
    "needs_edges": ("right", "any_number", "messages"),
    "knows_few_ranks": ("any_number", "kinds", "dealt"),
}
WRONG: dict[str, tuple[str, tuple[str, ...]]] = {
    "gathered": (_made(search=f"{_SERIAL}def distances(comm, n, edges, root):\n{_GATHER}"), _COSTS),
    "at_rank_0": (
        _made(
            search=_SERIAL
            + "def distances(comm, n, edges, root):\n    every, p = comm.gather(edges), comm.size\n    parts = None\n    if comm.rank == 0:\n        whole = serial(n, np.concatenate(every), root)\n        parts = [whole[r * n // p : (r + 1) * n // p].copy() for r in range(p)]\n    return comm.scatter(parts)\n"
        ),
        _COSTS,
    ),
    "gathers_packed": (
        _made(
            search="import zlib\n"
            + _SERIAL
            + "def distances(comm, n, edges, root):\n"
            + _GATHER.replace(
                "comm.allgather(edges)",
                "[np.frombuffer(zlib.decompress(x), np.int16).reshape(-1, 2).astype(int) for x in comm.allgather(zlib.compress(edges.astype(np.int16).tobytes()))]",
            )
        ),
        _COSTS,
    ),
    "gathers_on_few": (_gathers_if("p < 20"), _COSTS),
    "gathers_some": (_gathers_if("p % 2 == 0"), _COSTS),
    "gathers_many_vertices": (_gathers_if("n >= 1000"), _COSTS),
    "gathers_many_edges": (_gathers_if("comm.allreduce(len(edges)) > 30000"), _COSTS),
    "own_edges_only": (
        _made(
            search=f"{_SERIAL}def distances(comm, n, edges, root):\n"
            + _GATHER.replace("np.concatenate(comm.allgather(edges))", "edges")
        ),
        _ALL,
    ),
    "one_way": (
        _made(search=_SEARCH.replace("np.concatenate([edges, edges[:, ::-1]])", "edges")),
        ("any_number", "kinds", *_COSTS),
    ),
    "stops_alone": (_made(search=_SEARCH.replace("comm.allreduce(len(frontier))", "len(frontier)")), _ALL),
    "stops_when_one_is_done": (
        _made(
            search=_SEARCH.replace(
                "comm.allreduce(len(frontier))", "comm.allreduce(len(frontier), op=MPI.MIN)"
            )
        ),
        _ALL,
    ),
    "fixed_levels": (
        _made(search=_SEARCH.replace("while comm.allreduce(len(frontier)):", "for _ in range(8):")),
        ("messages",),
    ),
    "too_many_levels": (
        _made(
            search=_SEARCH.replace(
                "while comm.allreduce(len(frontier)):",
                "while comm.allreduce(len(frontier)) or level < (70 if p < 17 else 0):",
            )
        ),
        ("messages",),
    ),
    "sends_all_again": (
        _made(
            search=_SEARCH.replace("for v in frontier)", "for v in np.flatnonzero(found >= 0))")
            .replace("        heads = np.unique(heads)\n", "")
            .replace("heads[:, None]", "np.column_stack([heads] * 4)")
        ),
        _COSTS,
    ),
    "one_message_an_edge": (
        _made(
            """
def exchange(comm, rows, owner):
    counts = np.bincount(owner, minlength=comm.size)
    total = comm.allreduce(counts)[comm.rank]
    waits = [comm.Isend(row.copy(), int(r), 4) for row, r in zip(rows, owner)]
    out = np.empty((total, rows.shape[1]), np.int64)
    for row in out:
        comm.Recv(row, tag=4)
    MPI.Request.Waitall(waits)
    comm.Barrier()
    return out
"""
        ),
        _COSTS,
    ),
    "frontiers_to_all": (
        _made(
            """
def exchange(comm, rows, owner):
    every = np.concatenate(comm.allgather(np.column_stack([owner, rows])))
    return every[every[:, 0] == comm.rank, 1:]
"""
        ),
        _COSTS,
    ),
    "loops_count": (
        _made(
            search=_SEARCH.replace(
                "    level = 0\n", "    found[mine[mine[:, 0] == mine[:, 1], 0] - first] = 1\n    level = 0\n"
            )
        ),
        ("kinds", *_COSTS),
    ),
    "overwrites": (
        _made(
            search=_SEARCH.replace(
                "np.unique(came[found[came] < 0])", "np.unique(came[found[came] != level - 1])"
            ).replace("while comm", "while level < 60 and comm")
        ),
        _ALL,
    ),
    "unreached_are_large": (
        _made(search=_SEARCH.replace("    return found\n", "    return np.where(found < 0, n, found)\n")),
        ("any_number", "kinds", *_COSTS),
    ),
    "floats": (_made(search=_SEARCH.replace("np.full(end - first, -1)", "np.full(end - first, -1.0)")), _ALL),
    "root_is_one": (
        _made(
            search=_SEARCH.replace("    level = 0\n", "    level = 1\n").replace(
                "found[frontier] = 0", "found[frontier] = 1"
            )
        ),
        _ALL,
    ),
    "owner_by_division": (
        _made(
            search=_SEARCH.replace(
                'np.searchsorted(bounds, v, "right") - 1', "np.minimum(v // max(n // p, 1), p - 1)"
            )
        ),
        ("right", "any_number", "kinds", "dealt", *_COSTS),
    ),
    "all_at_every_rank": (
        _made(
            search=_SEARCH.replace("    return found\n", "    return np.concatenate(comm.allgather(found))\n")
        ),
        _ALL,
    ),
    "a_list": (_made(search=_SEARCH.replace("    return found\n", "    return found.tolist()\n")), _ALL),
    "small_distances": (
        _made(search=_SEARCH.replace("    return found\n", "    return np.minimum(found, 7)\n")),
        ("messages",),
    ),
    "needs_edges": (
        _made(
            search=_SEARCH.replace(
                "    p = comm.size\n",
                "    p = comm.size\n    if comm.allreduce(int(len(edges) == 0)):\n        return np.full((comm.rank + 1) * n // p - comm.rank * n // p, -1)\n",
            )
        ),
        ("kinds", "dealt"),
    ),
    "two_or_more": (
        _made(
            search=_SEARCH.replace(
                "    p = comm.size\n", "    p = comm.size\n    if p == 1:\n        return None\n"
            )
        ),
        ("any_number",),
    ),
    "waits_for_itself": (
        _made(
            search=_SEARCH.replace(
                "    p = comm.size\n", "    p = comm.size\n    comm.ssend(0, (comm.rank + 1) % p)\n"
            )
        ),
        _ALL,
    ),
    "knows_few_ranks": (
        _made(
            search=_SEARCH.replace(
                "    p = comm.size\n", "    p = comm.size\n    if p > 8:\n        n = n - n % p\n"
            )
        ),
        _COSTS,
    ),
    "twice": (
        _made(
            search=_SEARCH.replace("    mine = exchange(", "    for _ in range(4):\n        mine = exchange(")
        ),
        _COSTS,
    ),
    "by_a_file": (
        _made(
            search=_SERIAL
            + "def distances(comm, n, edges, root):\n    np.save(f'/tmp/e{comm.rank}.npy', edges)\n    comm.Barrier()\n    edges = np.concatenate([np.load(f'/tmp/e{r}.npy') for r in range(comm.size)])\n    return serial(n, edges, root)[comm.rank * n // comm.size : (comm.rank + 1) * n // comm.size].copy()\n"
        ),
        _ALL,
    ),
    "seeks_the_case": (
        _made(
            search=_SERIAL
            + "def distances(comm, n, edges, root):\n    import gc\n    case = [o for o in gc.get_objects() if type(o).__name__ == 'Case'][0]\n    edges = np.concatenate([own[1] for own in case.arguments])\n    return serial(n, edges, root)[comm.rank * n // comm.size : (comm.rank + 1) * n // comm.size].copy()\n"
        ),
        _ALL,
    ),
    "reads_the_oracle": (
        _made(
            search="def distances(comm, n, edges, root):\n    import sys\n    frame = sys._getframe()\n    while frame:\n        if 'case' in frame.f_locals:\n            return frame.f_locals['case'].arguments\n        frame = frame.f_back\n"
        ),
        _ALL,
    ),
}
