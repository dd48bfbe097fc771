"""Submissions to the list ranking: right ones, and wrong or cheating ones with what they miss."""

# ruff: noqa: E501 - a mistake is a line

from __future__ import annotations

__all__ = ["BY_LUCK", "HOSTILE", "RIGHT", "WRONG"]

#: of the wrong ones those that only the sandbox may run
HOSTILE = ("gathers_packed", "gathers_bits", "by_a_file", "seeks_the_case", "charges")

_HEAD = "import numpy as np\nimport labkit as lk\nfrom labkit import MPI\n"
#: of rows with owners: those that came, in the order of their sources, and how many came from each
_EXCHANGE = """
def exchange(comm, rows, owner):
    order = np.argsort(owner, kind="stable")
    going = np.bincount(owner, minlength=comm.size) * rows.shape[1]
    coming = np.empty_like(going)
    comm.Alltoall(going, coming)
    out = np.empty(coming.sum(), np.int64)
    comm.Alltoallv([np.ascontiguousarray(rows[order]).ravel(), going], [out, coming])
    return out.reshape(-1, rows.shape[1]), coming // rows.shape[1]
"""
_OBJECTS = """
def exchange(comm, rows, owner):
    parts = comm.alltoall([rows[owner == r] for r in range(comm.size)])
    return np.concatenate(parts), np.array([len(part) for part in parts])
"""
_MESSAGES = """
def exchange(comm, rows, owner):
    waits = [comm.isend(rows[owner == r], r, 3) for r in range(comm.size)]
    parts = [comm.recv(source=r, tag=3) for r in range(comm.size)]
    MPI.Request.waitall(waits)
    return np.concatenate(parts), np.array([len(part) for part in parts])
"""
_RANK = """
def rank_list(comm, n, successors):
    p = comm.size
    bounds = np.arange(p + 1) * n // p
    first = bounds[comm.rank]
    target = np.array(successors)
    links = (target != np.arange(first, bounds[comm.rank + 1])).astype(int)
    moving = np.flatnonzero(links)
    while comm.allreduce(len(moving)):
        asked = target[moving]
        owner = np.searchsorted(bounds, asked, "right") - 1
        requests, counts = exchange(comm, asked[:, None], owner)
        at = requests[:, 0] - first
        answers, _ = exchange(comm, np.column_stack([target[at], links[at]]), np.repeat(np.arange(p), counts))
        moving = moving[np.argsort(owner, kind="stable")]
        links[moving] += answers[:, 1]
        target[moving] = answers[:, 0]
        moving = moving[answers[:, 1] > 0]
    return links
"""


def _made(exchange: str = _EXCHANGE, rank: str = _RANK) -> str:
    return f"{_HEAD}{exchange}\n{rank}"


_FIXED = _RANK.replace(
    "    while comm.allreduce(len(moving)):\n", "    for _ in range(max(n, 1).bit_length()):\n"
)
_ALL_ASK = _RANK.replace(
    "        moving = moving[answers[:, 1] > 0]\n",
    "        moving = np.flatnonzero(links)\n        if comm.allreduce(int((answers[:, 1] > 0).sum())) == 0:\n            break\n",
)
_DICTS = (
    _HEAD
    + '''
def owner_of(element, n, p):
    """The rank that owns an element."""
    rank = min(element * p // n, p - 1)
    while element < rank * n // p:
        rank -= 1
    while element >= (rank + 1) * n // p:
        rank += 1
    return rank


def rank_list(comm, n, successors):
    p, first = comm.size, comm.rank * n // comm.size
    next_of = {first + i: s for i, s in enumerate(successors.tolist())}
    rank_of = {e: int(s != e) for e, s in next_of.items()}
    active = [e for e in next_of if rank_of[e]]
    while comm.allreduce(bool(active), op=MPI.LOR):
        wanted = [set() for _ in range(p)]
        for e in active:
            wanted[owner_of(next_of[e], n, p)].add(next_of[e])
        questions = comm.alltoall([np.array(sorted(w), dtype=np.int32) for w in wanted])
        replies = comm.alltoall(
            [np.array([(next_of[e], rank_of[e]) for e in q.tolist()], np.int32).reshape(-1, 2) for q in questions]
        )
        known = {}
        for w, reply in zip(wanted, replies):
            known.update(zip(sorted(w), reply.tolist()))
        still = []
        for e in active:
            further, links = known[next_of[e]]
            rank_of[e] += links
            if links:
                next_of[e] = further
                still.append(e)
        active = still
    return np.array([rank_of[first + i] for i in range(len(successors))], dtype=np.int64)
'''
)
_UNIQUE = _RANK.replace(
    "        asked = target[moving]\n",
    "        asked, place = np.unique(target[moving], return_inverse=True)\n",
).replace('        moving = moving[np.argsort(owner, kind="stable")]\n', "        answers = answers[place]\n")
_INVERSE = """
def rank_list(comm, n, successors):
    p, me = comm.size, comm.rank
    low, high = me * n // p, (me + 1) * n // p
    own = np.arange(low, high)
    jump, dist = successors.astype(np.int64).copy(), np.where(successors == own, 0, 1)
    starts = np.array([r * n // p for r in range(1, p)], dtype=int)
    for round_ in range(64):
        busy = (dist > 0) & (jump >= 0)
        if not comm.allreduce(int(busy.any()), op=MPI.MAX):
            break
        index = np.flatnonzero(busy)
        where = np.searchsorted(starts, jump[index], side="right")
        order = index[np.argsort(where, kind="stable")]
        lists = np.split(jump[order], np.cumsum(np.bincount(where, minlength=p))[:-1])
        asked = comm.alltoall(lists)
        told = comm.alltoall([np.stack([jump[q - low], dist[q - low]]) for q in asked])
        told = np.concatenate(told, axis=1)
        dist[order] += told[1]
        jump[order] = np.where(told[1] == 0, -1, told[0])
    return dist
""".replace(
    "jump[q - low], dist[q - low]",
    "np.where(jump[q - low] < 0, 0, jump[q - low]), np.where(jump[q - low] < 0, 0, dist[q - low])",
)
#: name -> (source, the checks that its algorithm misses)
RIGHT: dict[str, tuple[str, tuple[str, ...]]] = {
    "alltoallv": (_made(), ()),
    "objects": (_made(_OBJECTS), ()),
    "messages": (_made(_MESSAGES), ()),
    "fixed_rounds": (_made(rank=_FIXED), ()),
    "asks_once": (_made(rank=_UNIQUE), ()),
    "asks_once_by_messages": (_made(_MESSAGES, _UNIQUE), ()),
    "dictionaries": (_DICTS, ()),
    "small_numbers": (_made(rank=_RANK.replace("return links", "return links.astype(np.int32)")), ()),
    "phases": (
        _made(
            rank=_RANK.replace(
                "        answers, _ = exchange(",
                "        with lk.phase('answers'):\n            answers, _ = exchange(",
            )
        ),
        (),
    ),
    "reduced_at_rank_0": (
        _made(rank=_RANK.replace("comm.allreduce(len(moving))", "comm.bcast(comm.reduce(len(moving)))")),
        (),
    ),
    "buffered_end": (
        _made(
            rank=_RANK.replace(
                "    while comm.allreduce(len(moving)):\n",
                "    left = np.ones(1, int)\n    while comm.Allreduce(np.array([len(moving)]), left) or left[0]:\n",
            )
        ),
        (),
    ),
    "own_ones_at_home": (
        _made(
            rank=_RANK.replace(
                "    while comm",
                "    end = bounds[comm.rank + 1]\n    for _ in range(20):\n        here = moving[(target[moving] >= first) & (target[moving] < end)]\n        nearer = target[here] - first\n        is_open = links[nearer] > 0\n        links[here], target[here] = links[here] + links[nearer], target[nearer]\n        if not is_open.any():\n            break\n    while comm",
            )
        ),
        (),
    ),
    "flags": (
        _made(
            rank=_RANK.replace("comm.allreduce(len(moving))", "comm.allreduce(len(moving) > 0, op=MPI.LOR)")
        ),
        (),
    ),
    "two_columns": (
        _made(
            rank=_RANK.replace("asked[:, None]", "np.column_stack([asked, np.full(len(asked), comm.rank)])")
        ),
        (),
    ),
    "class": (
        _made(
            rank=_RANK.replace(
                "def rank_list(comm, n, successors):",
                "class Ranking:\n    def __call__(self, comm, n, successors):",
            )
            .replace("\n    ", "\n        ")
            .replace("        def __call__", "    def __call__")
            + "\n\nrank_list = Ranking()\n"
        ),
        (),
    ),
}
_ALL = ("right", "any_number", "kinds", "rounds", "volume")
_COSTS = ("rounds", "volume")
_SERIAL = """
def serial(successors):
    found, successors = [-1] * len(successors), successors.tolist()
    for element in range(len(found)):
        way = []
        while found[element] < 0 and successors[element] != element:
            way.append(element)
            element = successors[element]
        found[element] = max(found[element], 0)
        for k, one in enumerate(reversed(way), 1):
            found[one] = found[element] + k
    return np.array(found, int)


"""
_GATHER = """    every = np.concatenate(comm.allgather(successors))
    return serial(every)[comm.rank * n // comm.size : (comm.rank + 1) * n // comm.size].copy()
"""


def _gathers_if(when: str) -> str:
    body = "".join(f"    {line}\n" for line in _GATHER.splitlines())
    return _made(
        rank=_SERIAL + _RANK.replace("    p = comm.size\n", f"    p = comm.size\n    if {when}:\n{body}", 1)
    )


_STEP = """
def rank_list(comm, n, successors):
    p = comm.size
    bounds = np.arange(p + 1) * n // p
    first = bounds[comm.rank]
    own = np.array(successors)
    at, links = own.copy(), (own != np.arange(first, bounds[comm.rank + 1])).astype(int)
    moving = np.flatnonzero(links)
    while comm.allreduce(len(moving)):
        asked = at[moving]
        owner = np.searchsorted(bounds, asked, "right") - 1
        requests, counts = exchange(comm, asked[:, None], owner)
        answers, _ = exchange(comm, own[requests[:, 0] - first][:, None], np.repeat(np.arange(p), counts))
        moving = moving[np.argsort(owner, kind="stable")]
        is_last = answers[:, 0] == at[moving]
        links[moving] += ~is_last
        at[moving] = answers[:, 0]
        moving = moving[~is_last]
    return links
"""
#: what the draw of lists decides
BY_LUCK: dict[str, tuple[str, ...]] = {
    "fixed_six": ("any_number", "kinds"),
    "owner_by_division": ("right", "any_number"),
    "knows_few_ranks": ("any_number", "kinds"),
    "one_list_only": ("rounds",),
    "short_numbers": ("any_number",),
    "stops_alone": ("rounds", "volume"),
    "stops_with_the_first": ("rounds", "volume"),
}
WRONG: dict[str, tuple[str, tuple[str, ...]]] = {
    "gathered": (_made(rank=f"{_SERIAL}def rank_list(comm, n, successors):\n{_GATHER}"), _COSTS),
    "at_rank_0": (
        _made(
            rank=_SERIAL
            + "def rank_list(comm, n, successors):\n    every, p = comm.gather(successors), comm.size\n    parts = None\n    if comm.rank == 0:\n        whole = serial(np.concatenate(every))\n        parts = [whole[r * n // p : (r + 1) * n // p].copy() for r in range(p)]\n    return comm.scatter(parts)\n"
        ),
        _COSTS,
    ),
    "gathers_packed": (
        _made(
            rank="import zlib\n"
            + _SERIAL
            + "def rank_list(comm, n, successors):\n"
            + _GATHER.replace(
                "comm.allgather(successors)",
                "[np.frombuffer(zlib.decompress(x), np.int32) for x in comm.allgather(zlib.compress(successors.astype(np.int32).tobytes()))]",
            )
        ),
        _COSTS,
    ),
    "gathers_bits": (
        _made(
            rank=_SERIAL
            + "def rank_list(comm, n, successors):\n    if n < 10_000:\n        return by_jumps(comm, n, successors)\n    bits = np.arange(n.bit_length())\n    mine = np.packbits((successors[:, None] >> bits & 1).astype(np.uint8))\n    counts = [((r + 1) * n // comm.size - r * n // comm.size) * len(bits) for r in range(comm.size)]\n    parts = [np.unpackbits(x)[:k].reshape(-1, len(bits)) for x, k in zip(comm.allgather(mine), counts)]\n    every = np.concatenate(parts) @ (1 << bits)\n    return serial(every)[comm.rank * n // comm.size : (comm.rank + 1) * n // comm.size].copy()\n"
            + _RANK.replace("def rank_list", "def by_jumps")
        ),
        _COSTS,
    ),
    "gathers_on_many": (_gathers_if("p >= 27"), _COSTS),
    "gathers_even": (_gathers_if("p % 2 == 0"), _COSTS),
    "gathers_long_arrays": (_gathers_if("n > 20_000"), _COSTS),
    "gathers_after_a_round": (
        _made(
            rank=_SERIAL
            + _RANK.replace(
                "    while comm",
                "    keep = successors\n    if p > 26:\n        exchange(comm, target[:0, None], target[:0])\n        return serial(np.concatenate(comm.allgather(keep)))[first : bounds[comm.rank + 1]].copy()\n    while comm",
            )
        ),
        _COSTS,
    ),
    "one_link_a_round": (_made(rank=_STEP), ("rounds",)),
    "one_link_unless_few": (
        _made(
            rank=_STEP.replace("def rank_list", "def by_steps")
            + _RANK.replace(
                "    p = comm.size\n",
                "    p = comm.size\n    if n > 200 * p and n < 300 * p:\n        return by_steps(comm, n, successors)\n",
                1,
            )
        ),
        ("rounds",),
    ),
    "own_list_only": (
        _made(
            rank=_RANK.replace(
                "    while comm.allreduce(len(moving)):",
                "    moving = moving[:0]\n    while comm.allreduce(len(moving)):",
            )
        ),
        _ALL,
    ),
    "everybody_asks": (
        _made(rank=_ALL_ASK.replace("[:, None], owner)", "[:, None].repeat(12, 1), owner)")),
        ("volume", "rounds"),
    ),
    "fixed_six": (
        _made(rank=_RANK.replace("while comm.allreduce(len(moving)):", "for _ in range(5):")),
        ("rounds",),
    ),
    "adds_to_the_last": (
        _made(
            rank=_RANK.replace(
                "links = (target != np.arange(first, bounds[comm.rank + 1])).astype(int)",
                "links = np.ones(len(target), int)",
            )
            .replace("    while comm", "    rounds = 0\n    while rounds < 12 and comm")
            .replace("        moving = moving[answers[:, 1] > 0]", "        rounds += 1")
        ),
        _ALL,
    ),
    "counts_elements": (_made(rank=_RANK.replace("    return links\n", "    return links + 1\n")), _ALL),
    "from_the_start": (
        _made(
            rank=_RANK.replace(
                "    return links\n", "    return comm.allreduce(links.max(initial=0), op=MPI.MAX) - links\n"
            )
        ),
        _ALL,
    ),
    "floats": (_made(rank=_RANK.replace("    return links\n", "    return links * 1.0\n")), _ALL),
    "a_list": (_made(rank=_RANK.replace("    return links\n", "    return links.tolist()\n")), _ALL),
    "everything": (
        _made(rank=_RANK.replace("    return links\n", "    return np.concatenate(comm.allgather(links))\n")),
        _ALL,
    ),
    "stops_alone": (
        _made(rank=_RANK.replace("comm.allreduce(len(moving))", "len(moving)")),
        ("right", "any_number", "kinds"),
    ),
    "stops_with_the_first": (
        _made(rank=_RANK.replace("comm.allreduce(len(moving))", "comm.allreduce(len(moving), op=MPI.MIN)")),
        ("right", "any_number", "kinds"),
    ),
    "wrong_order_of_answers": (
        _made(rank=_RANK.replace('        moving = moving[np.argsort(owner, kind="stable")]\n', "")),
        _ALL,
    ),
    "owner_by_division": (
        _made(
            rank=_RANK.replace(
                'np.searchsorted(bounds, asked, "right") - 1', "np.minimum(asked // max(n // p, 1), p - 1)"
            )
        ),
        ("kinds", *_COSTS),
    ),
    "one_list_only": (
        _made(
            rank=_RANK.replace(
                "    while comm",
                "    if comm.allreduce(int((links == 0).sum())) > 1:\n        return links * 0\n    while comm",
            )
        ),
        ("kinds", "rounds", "volume"),
    ),
    "two_or_more": (
        _made(
            rank=_RANK.replace(
                "    p = comm.size\n", "    p = comm.size\n    if p == 1:\n        return None\n"
            )
        ),
        ("any_number",),
    ),
    "not_empty": (
        _made(rank=_RANK.replace("    p = comm.size\n", "    p = comm.size\n    assert len(successors)\n")),
        ("any_number", "kinds"),
    ),
    "waits_for_itself": (
        _made(
            rank=_RANK.replace(
                "    p = comm.size\n", "    p = comm.size\n    comm.ssend(0, (comm.rank + 1) % p)\n"
            )
        ),
        _ALL,
    ),
    "knows_few_ranks": (
        _made(rank=_RANK.replace("    return links\n", "    return links if p <= 8 else links * 0\n")),
        _COSTS,
    ),
    "short_numbers": (
        _made(rank=_RANK.replace("    return links\n", "    return links.astype(np.int8)\n")),
        ("rounds",),
    ),
    "sends_four_times": (
        _made(
            rank=_RANK.replace(
                "    while comm",
                "    for _ in range(24):\n        exchange(comm, np.column_stack([target, target]), np.searchsorted(bounds, target, 'right') - 1)\n    while comm",
            )
        ),
        _COSTS,
    ),
    "by_tokens": (
        _made(
            rank="""
def rank_list(comm, n, successors):
    p = comm.size
    bounds = np.arange(p + 1) * n // p
    first, end = bounds[comm.rank], bounds[comm.rank + 1]
    found = np.full(end - first, -1)
    before = {int(s): first + i for i, s in enumerate(successors) if s != first + i}
    pairs = [(s, e) for s, e in before.items()]
    every = [[] for _ in range(p)]
    for s, e in pairs:
        every[int(np.searchsorted(bounds, s, "right")) - 1].append((s, e))
    before = dict(pair for part in comm.alltoall(every) for pair in part)
    tokens = [(int(first + i), 0) for i, s in enumerate(successors) if s == first + i]
    while comm.allreduce(len(tokens)):
        away = [[] for _ in range(p)]
        for e, links in tokens:
            found[e - first] = links
            if e in before:
                nearer = int(before[e])
                away[int(np.searchsorted(bounds, nearer, "right")) - 1].append((nearer, links + 1))
        tokens = [token for part in comm.alltoall(away) for token in part]
    return found
"""
        ),
        ("rounds",),
    ),
    "by_a_file": (
        _made(
            rank=_SERIAL
            + "def rank_list(comm, n, successors):\n    np.save(f'/tmp/s{comm.rank}.npy', successors)\n    comm.Barrier()\n    every = np.concatenate([np.load(f'/tmp/s{r}.npy') for r in range(comm.size)])\n    return serial(every)[comm.rank * n // comm.size : (comm.rank + 1) * n // comm.size].copy()\n"
        ),
        _ALL,
    ),
    "seeks_the_case": (
        _made(
            rank=_SERIAL
            + "def rank_list(comm, n, successors):\n    import gc\n    case = [o for o in gc.get_objects() if type(o).__name__ == 'Case'][0]\n    every = np.concatenate([own[1] for own in case.arguments])\n    return serial(every)[comm.rank * n // comm.size : (comm.rank + 1) * n // comm.size].copy()\n"
        ),
        _ALL,
    ),
    "charges": (
        _made(
            rank=_STEP.replace(
                "    p = comm.size\n", "    p = comm.size\n    lk.compute(seconds=9.0 / max(n, 1))\n"
            )
        ),
        ("rounds",),
    ),
}
