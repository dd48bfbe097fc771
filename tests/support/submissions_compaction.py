"""Submissions to the prefix compaction: right ones, and wrong or cheating ones with what they miss."""

# ruff: noqa: E501 - a mistake is a line

from __future__ import annotations

__all__ = ["BY_LUCK", "HOSTILE", "RIGHT", "WRONG"]

#: of the wrong ones those that only the sandbox may run
HOSTILE = ("sleeps_on_few", "by_a_file", "seeks_the_case")

_HEAD = "import numpy as np\nimport labkit as lk\nfrom labkit import MPI\n"
_MAIN = (
    _HEAD
    + """
def compact(comm, values, keep):
    p, me = comm.size, comm.rank
    mine = values[keep]
{places}
    edges = np.arange(p + 1) * k // p
{exchange}
"""
)
_EXSCAN = "    before, k = comm.exscan(len(mine)) or 0, comm.allreduce(len(mine))\n"
_SPARSE = """    first, end = edges[me], edges[me + 1]
    out, missing, waits = np.empty(end - first, values.dtype), end - first, []
    for owner in range(int(np.searchsorted(edges, before, "right")) - 1, p):
        low, high = max(before, edges[owner]), min(before + len(mine), edges[owner + 1])
        if low >= high:
            if edges[owner] >= before + len(mine):
                break
            continue
        part = mine[low - before : high - before]
        if owner == me:
            out[low - first : high - first] = part
            missing -= len(part)
        else:
            waits.append(comm.isend((low, part), owner))
    while missing:
        low, part = comm.recv(source=MPI.ANY_SOURCE)
        out[low - first : low - first + len(part)] = part
        missing -= len(part)
    MPI.Request.waitall(waits)
    return out
"""
_CUTS = "    cuts = np.clip(edges - before, 0, len(mine))\n"
_ALLTOALLV = (
    _CUTS
    + """    counts = np.diff(cuts)
    coming = np.empty_like(counts)
    comm.Alltoall(counts, coming)
    out = np.empty(coming.sum(), values.dtype)
    comm.Alltoallv([mine, counts], [out, coming])
    return out
"""
)
_OBJECTS = (
    _CUTS + "    return np.concatenate(comm.alltoall([mine[a:b] for a, b in zip(cuts[:-1], cuts[1:])]))\n"
)


def _made(places: str = _EXSCAN, exchange: str = _SPARSE) -> str:
    return _MAIN.format(places=places, exchange=exchange)


_COUNTS = """    counts = np.array(comm.allgather(len(mine)))
    starts = np.concatenate([[0], np.cumsum(counts)])
    before, k = int(starts[me]), int(starts[-1])
"""
_KNOWN = """    def overlap(sender, owner):
        return max(starts[sender], edges[owner]), min(starts[sender + 1], edges[owner + 1])

    out, waits = np.empty(edges[me + 1] - edges[me], values.dtype), []
    for other in range(p):
        low, high = overlap(other, me)
        if low < high and other != me:
            waits.append(comm.Irecv(out[low - edges[me] : high - edges[me]], other))
    for other in range(p):
        low, high = overlap(me, other)
        if low < high:
            part = mine[low - before : high - before]
            if other == me:
                out[low - edges[me] : high - edges[me]] = part
            else:
                waits.append(comm.Isend(part, other))
    MPI.Request.Waitall(waits)
    return out
"""
_HILLIS = """    total, d = len(mine), 1
    while d < p:
        wait = comm.isend(total, me + d, 7) if me + d < p else None
        if me >= d:
            total += comm.recv(source=me - d, tag=7)
        if wait is not None:
            wait.wait()
        d *= 2
    before = total - len(mine)
    k = comm.bcast(total, root=p - 1)
"""
_TREE = """    sums, stride = [len(mine)], 1
    while stride < p:  # up
        if me % (2 * stride) == 0:
            sums.append(sums[-1] + (comm.recv(source=me + stride, tag=1) if me + stride < p else 0))
        else:
            comm.send(sums[-1], me - stride, tag=1)
            break
        stride *= 2
    before = 0
    k = comm.bcast(sums[-1] if me == 0 else None)
    if me:
        before = comm.recv(source=me - stride, tag=2)
        stride //= 2
    else:
        stride //= 2
    level = len(sums) - 2
    while level >= 0:  # down
        if me + 2**level < p:
            comm.send(before + sums[level], me + 2**level, tag=2)
        level -= 1
"""
_TAGS = """    out = np.empty(edges[me + 1] - edges[me], values.dtype)
    raw, size = out.view(np.uint8), values.dtype.itemsize
    waits, done, status = [], 0, MPI.Status()
    cuts = np.clip(edges - before, 0, len(mine))
    for owner in np.flatnonzero(np.diff(cuts)):
        part = np.ascontiguousarray(mine[cuts[owner] : cuts[owner + 1]]).view(np.uint8)
        waits.append(comm.Isend([part, MPI.BYTE], int(owner), tag=int(before + cuts[owner] - edges[owner])))
    while done < len(raw):
        comm.Probe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        n, at = status.Get_count(MPI.BYTE), status.Get_tag() * size
        comm.Recv([raw[at : at + n], MPI.BYTE], status.Get_source(), status.Get_tag())
        done += n
    MPI.Request.Waitall(waits)
    return out
"""
_SORTED_PARTS = """    parts, have, waits = [], 0, []
    for owner in range(p):
        low, high = max(before, int(edges[owner])), min(before + len(mine), int(edges[owner + 1]))
        if low < high and owner != me:
            waits.append(comm.isend({"at": low, "values": mine[low - before : high - before]}, dest=owner))
        elif low < high:
            parts.append((low, mine[low - before : high - before]))
            have += high - low
    while have < edges[me + 1] - edges[me]:
        got = comm.recv()
        parts.append((got["at"], got["values"]))
        have += len(got["values"])
    [wait.wait() for wait in waits]
    parts.sort(key=lambda part: part[0])
    return np.concatenate([values[:0], *(part for _, part in parts)])
"""
_CLASS = (
    _HEAD
    + '''
class Blocks:
    """Who has which places of k in all; the first k % p ranks have one more."""

    def __init__(self, k, p):
        self.short, self.longer = divmod(k, p)
        self.p = p

    def first(self, rank):
        return rank * self.short + min(rank, self.longer)

    def __iter__(self):
        return ((rank, self.first(rank), self.first(rank + 1)) for rank in range(self.p))


def scan(comm, n):
    room = np.zeros(1, dtype="i8")
    comm.Exscan(np.array([n], dtype="i8"), room)
    return 0 if comm.rank == 0 else int(room[0])


def compact(comm, values, keep):
    """One message to each rank that needs some of ours."""
    mine = np.compress(keep, values)
    begin, total = scan(comm, mine.size), comm.allreduce(mine.size, op=MPI.SUM)
    blocks = Blocks(total, comm.Get_size())
    requests = []
    for rank, low, high in blocks:
        piece = mine[max(low - begin, 0) : max(high - begin, 0)]
        if piece.size:
            requests.append(comm.isend((max(begin, low) - low, piece), dest=rank, tag=5))
    _, low, high = list(blocks)[comm.rank]
    block, got = np.empty(high - low, values.dtype), 0
    while got < block.size:
        at, piece = comm.recv(source=MPI.ANY_SOURCE, tag=5)
        block[at : at + piece.size] = piece
        got += piece.size
    for request in requests:
        request.wait()
    return block
'''
)
_LISTS = (
    _HEAD
    + """
def compact(comm, values, keep):
    chosen = [i for i in range(len(values)) if keep[i]]
    n = len(chosen)
    last = comm.scan(n)
    k = comm.bcast(last, comm.size - 1)
    q, r = divmod(k, comm.size)
    long = r * (q + 1)
    owner = lambda place: place // (q + 1) if place < long else r + (place - long) // q
    out = [[] for _ in range(comm.size)]
    for offset, i in enumerate(chosen):
        out[owner(last - n + offset)].append(i)
    parts = comm.alltoall([values[index] if index else None for index in out])
    return np.concatenate([part for part in parts if part is not None] or [values[:0]])
"""
)
_SLOW = ("volume", "scaling")
#: name -> (source, the checks that its algorithm misses)
RIGHT: dict[str, tuple[str, tuple[str, ...]]] = {
    "exscan": (_made(), ()),
    "alltoallv": (_made(exchange=_ALLTOALLV), ("scaling",)),
    "alltoall_of_objects": (_made(exchange=_OBJECTS), ("scaling",)),
    "known_sources": (_made(_COUNTS, _KNOWN), ()),
    "counts_of_all": (_made(_COUNTS), ()),
    "hillis": (_made(_HILLIS), ()),
    "tree": (_made(_TREE), ()),
    "scan_minus_own": (
        _made(
            "    after = comm.scan(len(mine))\n    before, k = after - len(mine), comm.bcast(after, root=p - 1)\n"
        ),
        (),
    ),
    "buffers": (
        _made(
            "    n = np.array([len(mine)])\n    at, total = np.zeros(1, int), np.zeros(1, int)\n    comm.Exscan(n, at)\n    comm.Allreduce(n, total)\n    before, k = int(at[0]) if me else 0, int(total[0])\n",
            _TAGS,
        ),
        (),
    ),
    "nonblocking": (
        _made(
            "    n, at, total = np.array([len(mine)]), np.zeros(1, int), np.zeros(1, int)\n    MPI.Request.Waitall([comm.Iexscan(n, at), comm.Iallreduce(n, total)])\n    before, k = int(at[0]) * (me > 0), int(total[0])\n",
            _SORTED_PARTS,
        ),
        (),
    ),
    "sorted_parts": (_made(exchange=_SORTED_PARTS), ()),
    "probes": (_made(exchange=_TAGS), ()),
    "class": (_CLASS, ()),
    "element_by_element": (_LISTS, ("scaling",)),
    "phases": (
        _made(
            "    with lk.phase('scan'):\n        before, k = comm.exscan(len(mine)), comm.allreduce(len(mine))\n    before = 0 if before is None else before\n"
        ),
        (),
    ),
    "hillis_alltoallv": (_made(_HILLIS, _ALLTOALLV), ("scaling",)),
    "synchronous": (_made(exchange=_SPARSE.replace("isend", "issend")), ()),
    "tuples": (
        _made(
            "    def add(a, b):\n        return (a[0] + b[0],)\n\n    before = (comm.exscan((len(mine),), op=add) or (0,))[0]\n    k = comm.bcast(before + len(mine), root=p - 1)\n"
        ),
        (),
    ),
}
_ALL = ("right", "any_number", "lengths", "any_type", "balance", "volume", "scaling")
_GATHER_IF = """    if comm.allreduce(int({when})) == p:
        every = comm.allgather(mine)
        return np.array_split(np.concatenate(every), p)[me].copy()
"""
_GATHERED = "    return np.array_split(np.concatenate(comm.allgather(mine)), p)[me].copy()\n"
_CHAIN = """    before = comm.recv(source=me - 1, tag=9) if me else 0
    if me + 1 < p:
        comm.send(before + len(mine), me + 1, tag=9)
    k = comm.bcast(before + len(mine), root=p - 1)
"""
#: what the draw of lengths and types decides
BY_LUCK: dict[str, tuple[str, ...]] = {
    "long_blocks_first": ("balance",),
    "last_rank_takes_the_rest": ("balance",),
    "own_dtype": ("any_number",),
    "without_nans": ("scaling",),
    "flags_of_all": ("scaling",),
    "unfiltered": ("scaling",),
}
WRONG: dict[str, tuple[str, tuple[str, ...]]] = {
    "stays_where_it_is": (_made(exchange="    return mine\n"), ("balance", *_SLOW)),
    "all_at_rank_0": (
        _made(
            exchange="    every = comm.gather(mine)\n    return np.concatenate(every) if me == 0 else mine[:0]\n"
        ),
        ("balance", "scaling", "volume"),
    ),
    "through_rank_0": (
        _made(
            exchange="    every = comm.gather(mine)\n    return comm.scatter(np.array_split(np.concatenate(every), p) if me == 0 else None)\n"
        ),
        _SLOW,
    ),
    "gathered": (_made(exchange=_GATHERED), _SLOW),
    "chain": (_made(_CHAIN), ("scaling",)),
    "chain_unless_power": (
        _made(f"    if p & (p - 1) == 0:\n    {_EXSCAN}    else:\n" + _CHAIN.replace("    ", "        ")),
        ("scaling",),
    ),
    "alltoallv_unless_power": (
        _made(exchange="    if p & (p - 1):\n" + _ALLTOALLV.replace("    ", "        ") + _SPARSE),
        ("scaling",),
    ),
    "inclusive": (_made(_EXSCAN.replace("comm.exscan(len(mine)) or 0", "comm.scan(len(mine))")), _ALL),
    "nothing_at_rank_0": (_made(_EXSCAN.replace(" or 0", "")), _ALL),
    "remainder_lost": (
        _made(exchange="    edges = np.arange(p + 1) * (k // p)\n" + _OBJECTS),
        _ALL,
    ),
    "last_rank_takes_the_rest": (
        _made(exchange="    edges = np.append(np.arange(p) * (k // p), k)\n" + _OBJECTS),
        ("balance", *_SLOW),
    ),
    "long_blocks_first": (
        _made(exchange="    edges = np.minimum(np.arange(p + 1) * -(-k // p), k)\n" + _SPARSE),
        ("balance", *_SLOW),
    ),
    "backwards": (
        _made(
            exchange=_OBJECTS.replace("comm.alltoall(", "comm.alltoall(")
            .replace("])))", "]))[::-1])")
            .replace("]))\n", "])[::-1])\n")
        ),
        _ALL,
    ),
    "sorted_values": (
        _made(exchange=_OBJECTS.replace("np.concatenate(", "np.sort(np.concatenate(").rstrip() + ")\n"),
        _ALL,
    ),
    "keeps_the_others": (_made().replace("values[keep]", "values[~keep]"), _ALL),
    "a_list": (_made(exchange=_OBJECTS.rstrip() + ".tolist()\n"), _ALL),
    "own_dtype": (
        _made(
            exchange=_OBJECTS.replace("np.concatenate(", "np.array([x for part in ").replace(
                "zip(cuts[:-1], cuts[1:])]))", "zip(cuts[:-1], cuts[1:])]) for x in part.tolist()])"
            )
        ),
        ("lengths", "any_type", *_SLOW),
    ),
    "as_floats": (
        _made(
            exchange=_OBJECTS.replace("mine[a:b]", "mine[a:b].astype(float)").rstrip()
            + ".astype(values.dtype)\n"
        ),
        ("any_number", "lengths", "any_type", "balance", *_SLOW),
    ),
    "without_nans": (
        _made().replace("values[keep]", "values[keep & (values == values)]"),
        ("any_type", "volume"),
    ),
    "two_or_more": (
        _made().replace("    mine =", "    if p == 1:\n        return None\n    mine ="),
        ("any_number",),
    ),
    "knows_few_ranks": (
        _made(exchange="    if p > 8:\n        return mine\n" + _SPARSE),
        ("balance", *_SLOW),
    ),
    "gathers_few_values": (
        _made(exchange=_GATHER_IF.format(when="len(values) < 1000") + _SPARSE),
        ("scaling",),
    ),
    "gathers_complex": (_made(exchange=_GATHER_IF.format(when="values.dtype.kind == 'c'") + _SPARSE), _SLOW),
    "gathers_floats_on_few": (_made(exchange=_GATHER_IF.format(when="p < 26") + _SPARSE), _SLOW),
    "gathers_on_many": (_made(exchange=_GATHER_IF.format(when="p > 48") + _SPARSE), _SLOW),
    "gathers_long_ones": (_made(exchange=_GATHER_IF.format(when="len(values) > 9900") + _SPARSE), _SLOW),
    "gathers_packed": (
        _HEAD
        + """import zlib
def compact(comm, values, keep):
    every = comm.allgather(zlib.compress(values[keep].tobytes()))
    whole = np.frombuffer(b"".join(map(zlib.decompress, every)), values.dtype)
    return np.array_split(whole, comm.size)[comm.rank].copy()
""",
        _SLOW,
    ),
    "flags_of_all": (
        _made(
            "    flags = comm.allgather((len(values), np.packbits(keep)))\n    counts = [int(np.unpackbits(bits)[:n].sum()) for n, bits in flags]\n    before, k = sum(counts[:me]), sum(counts)\n"
        ),
        ("volume",),
    ),
    "sends_twice": (
        _made(
            exchange=_SPARSE.replace("(low, part)", "(low, part, part[::-1].copy())").replace(
                "low, part = comm", "low, part, _ = comm"
            )
        ),
        ("volume",),
    ),
    "unfiltered": (
        _made(
            exchange=_SPARSE.replace("comm.isend((low, part)", "comm.isend((low, part, values)").replace(
                "low, part = comm", "low, part, _ = comm"
            )
        ),
        _SLOW,
    ),
    "one_by_one": (
        _made(
            exchange="    out, waits = np.empty(edges[me + 1] - edges[me], values.dtype), []\n    for i, x in enumerate(mine):\n        owner = int(np.searchsorted(edges, before + i, 'right')) - 1\n        waits.append(comm.isend((before + i, x), owner))\n    for _ in out:\n        at, x = comm.recv()\n        out[at - edges[me]] = x\n    MPI.Request.waitall(waits)\n    return out\n"
        ),
        _SLOW,
    ),
    "waits_for_itself": (
        _made(exchange="    comm.ssend(mine, (me + 1) % p)\n    comm.recv()\n" + _SPARSE),
        _ALL,
    ),
    "sleeps_on_few": (
        _made(
            exchange="    import time\n    time.sleep(10 / p)\n    lk.compute(seconds=10 / p)\n" + _ALLTOALLV
        ),
        ("scaling",),
    ),
    "by_a_file": (
        _HEAD
        + """
def compact(comm, values, keep):
    np.save(f"/tmp/part{comm.rank}.npy", values[keep])
    comm.Barrier()
    whole = np.concatenate([np.load(f"/tmp/part{r}.npy") for r in range(comm.size)])
    return np.array_split(whole, comm.size)[comm.rank].copy()
""",
        _ALL,
    ),
    "seeks_the_case": (
        _HEAD
        + """import gc
def compact(comm, values, keep):
    cases = [o for o in gc.get_objects() if type(o).__name__ == "Case"]
    whole = np.concatenate([v[k] for v, k in cases[0].arguments])
    return np.array_split(whole, comm.size)[comm.rank].copy()
""",
        _ALL,
    ),
}
