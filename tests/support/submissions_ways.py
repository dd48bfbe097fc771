"""Right submissions by other ways: other algorithms, other calls, and other habits of writing."""

# ruff: noqa: E501 - as they were handed in

from __future__ import annotations

from tests.support.submissions_scaling_bug import made

__all__ = ["WAYS"]

_IMPORTS = "import numpy as np\nfrom mpi4py import MPI\n"
_TREE = f"""{_IMPORTS}
def broadcast(comm, data, root):
    p, me = comm.Get_size(), (comm.Get_rank() - root) % comm.Get_size()
    at = lambda k: (k + root) % p
    parent = me & (me - 1)
    children, bit = [], 1
    while bit < p and (me == 0 or bit < (me & -me)):
        if me + bit < p:
            children.append(at(me + bit))
        bit <<= 1
    children.reverse()
{{body}}
"""
_BODIES = {
    "issends": """
    if me:
        data = comm.recv(source=at(parent))
    MPI.Request.waitall([comm.issend(data, child) for child in children])
    return data""",
    "promises": """
    if me:
        data = comm.irecv(1 << 20, source=at(parent), tag=3).wait()
    for request in [comm.isend(data, child, tag=3) for child in children]:
        request.wait()
    return data""",
    "probes": """
    if me:
        status = MPI.Status()
        comm.probe(source=MPI.ANY_SOURCE, status=status)
        data = comm.recv(source=status.Get_source(), tag=status.Get_tag())
    for child in children:
        comm.send(data, child)
    return data""",
    "counted buffers": """
    if me:
        shape, kind = comm.recv(source=at(parent), tag=1)
        data = np.empty(shape, kind)
        comm.Recv([data.view(np.uint8) if data.ndim and data.size else data.reshape(-1).view(np.uint8), MPI.BYTE], at(parent), 2)
    for child in children:
        comm.send((data.shape, data.dtype), child, 1)
        raw = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        comm.Send([raw, len(raw), MPI.BYTE], child, 2)
    return data""",
    "dictionaries": """
    box = {"payload": data} if me == 0 else comm.recv(source=at(parent))
    while children:
        comm.send(box, dest=children.pop(0))
    return box["payload"]""",
    "errors": """
    try:
        if me == 0 and data is None:
            raise ValueError("the root has nothing")
        if me != 0:
            data = comm.recv(source=at(parent), tag=MPI.ANY_TAG)
    finally:
        for child in children:
            comm.send(data, child, tag=child)
    return data""",
}
_SORT = f"""{_IMPORTS}
def parallel_sort(comm, keys):
    p, me = comm.size, comm.rank
    keys = np.sort(keys)
    chosen = keys[np.linspace(0, len(keys) - 1, 48).astype(int)] if len(keys) else keys
{{splitters}}
    edges = np.concatenate([[0], np.searchsorted(keys, walls, side="left"), [len(keys)]]).astype(int)
    edges = np.append(edges, [len(keys)] * (p + 1 - len(edges))).astype(int)
    parts = [keys[edges[k] : edges[k + 1]] for k in range(p)]
{{exchange}}
"""
_ALL = """
    pool = np.sort(np.concatenate(comm.allgather(chosen)))
    walls = pool[(np.arange(1, p) * len(pool)) // p] if len(pool) else pool"""
_ROOT = """
    pool = comm.gather(chosen, root=p - 1)
    walls = None
    if pool is not None:
        pool = np.sort(np.concatenate(pool))
        walls = pool[(np.arange(1, p) * len(pool)) // p] if len(pool) else pool
    walls = comm.bcast(walls, root=p - 1)"""
_TWO_LEVELS = """
    walls = chosen
    for _ in range(2):
        pool = np.sort(np.concatenate(comm.allgather(walls)))
        walls = pool[(np.arange(1, p) * len(pool)) // p] if len(pool) else pool
        if _ == 0:
            near = np.searchsorted(keys, walls)
            walls = np.append(chosen, keys[np.clip(near, 0, max(len(keys) - 1, 0))] if len(keys) else keys)"""
_TO_ALL = "    return np.sort(np.concatenate(comm.alltoall(parts)))"
_VECTORS = """
    out = np.array([len(part) for part in parts], "i")
    come = np.empty_like(out)
    comm.Alltoall(out, come)
    result = np.empty(come.sum(), keys.dtype)
    kind = MPI._typedict[keys.dtype.char]
    comm.Alltoallv([keys, out, np.cumsum(out) - out, kind], [result, come, np.cumsum(come) - come, kind])
    result.sort(kind="stable")
    return result"""
_POSTED = """
    waits = [comm.isend(parts[q], dest=q, tag=me) for q in range(p) if q != me]
    mine = [parts[me]]
    for _ in range(p - 1):
        mine.append(comm.recv(source=MPI.ANY_SOURCE))
    MPI.Request.waitall(waits)
    return np.sort(np.hstack(mine))"""
_MERGED = """
    runs = comm.alltoall(parts)
    while len(runs) > 1:
        pairs = [np.sort(np.concatenate(runs[k : k + 2]), kind="mergesort") for k in range(0, len(runs), 2)]
        runs = pairs
    return runs[0]"""
_LEFT_RIGHT = """
    mine = [parts[me]]
    for hop in range(1, p):
        right, left = (me + hop) % p, (me - hop) % p
        size = comm.sendrecv(len(parts[right]), right, source=left)
        room = np.empty(size, keys.dtype)
        wait = comm.Irecv(room.view(np.uint8), left, 7)
        comm.Send(np.ascontiguousarray(parts[right]).view(np.uint8), right, 7)
        wait.Wait()
        mine.append(room)
    return np.sort(np.concatenate(mine))"""
_SCATTERED = """
    mine = [None] * p
    for q in range(p):
        mine[q] = comm.scatter(parts if me == q else None, root=q)
    return np.sort(np.concatenate(mine))"""
_SCAN = """
from labkit.schedule import whole

def rounds(group):
    me, p = group.ranks, group.size
    send, total, gift, come = whole("send"), whole("recv"), whole("partial"), whole("incoming")
{body}
"""
_SCANS = {
    "sums in exchange": """
    yield group.copy(send, total)
    for k in range(p.bit_length()):
        d = 2**k
        if d >= p:
            break
        low, high = me >= d, me + d <= p - 1
        yield group.copy(total, gift)
        yield group.irecv(come, me - d, low) + group.isend(gift, me + d, high) + group.wait(low | high)
        yield group.combine(come, total, True, low)""",
    "sums by a list of steps": """
    steps = [1 << k for k in range((p - 1).bit_length())] if p > 1 else []
    yield group.copy(send, total) + group.copy(send, gift)
    for d in steps:
        yield group.isend(gift, me + d, me < p - d) + group.irecv(come, me - d, me >= d) + group.wait((me < p - d) | (me >= d))
        yield group.combine(come, gift, True, me >= d) + group.combine(come, total, True, me >= d)""",
    "sums by recursion": """
    def level(d):
        if d >= p:
            return
        takes, gives = me - d >= 0, me + d < p
        yield group.copy(total, gift, gives)
        yield group.isend(gift, me + d, gives) + group.irecv(come, me - d, takes) + group.wait(takes | gives)
        yield group.combine(come, total, True, takes)
        yield from level(d * 2)
    yield group.copy(send, total)
    yield from level(1)""",
}
_SMOOTH = f"""{_IMPORTS}
def smooth(comm, block, tolerance, most):
    p, me = comm.size, comm.rank
    up, down = (me - 1) % p, (me + 1) % p
    block = np.array(block, dtype=np.float64)
{{before}}
    for step in range(1, most + 1):
{{swap}}
        padded = np.vstack((above, block, below))
        fresh = padded[1:-1] / 2 + (padded[:-2] + padded[2:]) / 4
        change, block = np.abs(fresh - block).max(), fresh
{{agree}}
        if change < tolerance:
            break
    return block, step
"""
_MAX = "        change = comm.allreduce(change, op=MPI.MAX)"
_SWAPS: dict[str, tuple[str, str, str]] = {
    "rows by synchronous sends": ("", """
        above, below = np.empty_like(block[0]), np.empty_like(block[0])
        waits = [comm.Issend(block[0].copy(), up, 1), comm.Issend(block[-1].copy(), down, 2)]
        comm.Recv(below, down, 1)
        comm.Recv(above, up, 2)
        MPI.Request.Waitall(waits)""", _MAX),
    "rows as promises": ("", """
        waits = [comm.irecv(1 << 20, source=down, tag=1), comm.irecv(1 << 20, source=up, tag=2)]
        sent = [comm.isend(block[0], up, tag=1), comm.isend(block[-1], down, tag=2)]
        below, above = MPI.Request.waitall(waits)
        MPI.Request.waitall(sent)""", _MAX),
    "rows in one array": ("    ring = comm.Create_cart([p], periods=[True])\n    rooms = np.empty((2, block.shape[1]))", """
        left, right = ring.Shift(0, 1)
        waits = [ring.Irecv(rooms[0], left, 5), ring.Irecv(rooms[1], right, 6)]
        edges = np.stack([block[-1], block[0]])
        waits += [ring.Isend(edges[0], right, 5), ring.Isend(edges[1], left, 6)]
        MPI.Request.Waitall(waits)
        above, below = rooms.copy()""", "        box = np.array([change])\n        comm.Allreduce(MPI.IN_PLACE, box, MPI.MAX)\n        change = box[0]"),
    "rows that replace": ("", """
        above, below = block[-1].copy(), block[0].copy()
        comm.Sendrecv_replace(above, down, 8, up, 8)
        comm.Sendrecv_replace(below, up, 9, down, 9)""", _MAX),
    "rows with their names": ("", """
        waits = [comm.isend(("last", block[-1]), down, 4), comm.isend(("first", block[0]), up, 4)]
        for _ in range(2):
            name, row = comm.recv(source=MPI.ANY_SOURCE, tag=4)
            if name == "last":
                above = row
            else:
                below = row
        MPI.Request.waitall(waits)""", _MAX + "\n        comm.Barrier()"),
}  # fmt: skip
_FARM = f"""{_IMPORTS}
def julia(comm, n, row):
    p, me = comm.size, comm.rank
{{body}}
"""
_CYCLES = {
    "rows by a list": """
    mine = [(y, row(y)) for y in range(n) if (y + me) % p == 0]
    every = comm.gather(mine, root=0)
    if me == 0:
        return np.array([values for _, values in sorted(sum(every, []), key=lambda pair: pair[0])])""",
    "rows in a reduction": """
    first = row(me) if me < n else None
    width = comm.bcast(None if first is None else len(first), root=0)
    picture = np.zeros((n, width), np.int64)
    for y in range(me, n, p):
        picture[y] = first if y == me else row(y)
    whole = np.zeros_like(picture) if me == 0 else None
    comm.Reduce(picture, whole, op=MPI.SUM, root=0)
    return whole""",
    "rows by probes": """
    if me:
        for y in range(me, n, p):
            comm.send(row(y), dest=0, tag=y)
        return None
    picture = {y: row(y) for y in range(0, n, p)}
    status = MPI.Status()
    while len(picture) < n:
        comm.probe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        picture[status.Get_tag()] = comm.recv(source=status.Get_source(), tag=status.Get_tag())
    return np.stack([picture[y] for y in range(n)])""",
}
_FARMS = {
    "rows on demand": """
    if p == 1:
        return np.array([row(y) for y in range(n)])
    if me == 0:
        picture, handed, status = [None] * n, min(n, p - 1), MPI.Status()
        for k in range(1, p):
            comm.send(k - 1 if k - 1 < n else None, k)
        for _ in range(n):
            y, values = comm.recv(source=MPI.ANY_SOURCE, status=status)
            picture[y] = values
            comm.send(handed if handed < n else None, status.source)
            handed += 1
        return np.array(picture)
    while (y := comm.recv(source=0)) is not None:
        comm.send((y, row(y)), 0)""",
    "rows from a deque": """
    from collections import deque
    if p == 1:
        return np.array(list(map(row, range(n))))
    if me == 0:
        todo, idle, found = deque(range(n)), 0, {}
        status = MPI.Status()
        while idle < p - 1:
            found.update(comm.recv(source=MPI.ANY_SOURCE, tag=1, status=status))
            if todo:
                comm.send([todo.popleft()], status.Get_source(), tag=2)
            else:
                comm.send([], status.Get_source(), tag=2)
                idle += 1
        return np.array([found[y] for y in sorted(found)])
    done = {}
    while True:
        work = comm.sendrecv(done, 0, 1, None, 0, 2)
        if not work:
            return None
        done = {y: row(y) for y in work}""",
}
_LINE = f"""{_IMPORTS}
def torus_broadcast(comm, data):
    p, me = comm.size, comm.rank
{{body}}
"""
_LINES = {
    "generator of pieces": ("""
    def pieces():
        if me == 0:
            raw = np.frombuffer(data.tobytes(), np.uint8)
            yield (data.shape, data.dtype.str)
            yield from np.array_split(raw, 64)
        else:
            for _ in range(65):
                yield comm.recv(source=me - 1)
    waits, kept = [], []
    for piece in pieces():
        if me + 1 < p:
            waits.append(comm.isend(piece, me + 1))
        kept.append(piece)
    MPI.Request.waitall(waits)
    (shape, kind), *raw = kept
    return np.frombuffer(b"".join(part.tobytes() for part in raw), kind).reshape(shape)""", {"neighbors"}),
    "binomial on bytes": ("""
    box = None if me else (data.tobytes(), data.dtype.str, data.shape)
    mask = 1
    while mask < p:
        if me < mask and me + mask < p:
            comm.send(box, me + mask)
        elif mask <= me < 2 * mask:
            box = comm.recv(source=me - mask)
        mask *= 2
    raw, kind, shape = box
    return np.frombuffer(raw, kind).reshape(shape)""", {"pieces", "neighbors"}),
    "line of buffers": ("""
    head = (data.shape, data.dtype) if me == 0 else comm.recv(source=me - 1, tag=0)
    ahead = me + 1 < p
    if ahead:
        comm.send(head, me + 1, tag=0)
    shape, kind = head
    result = np.array(data).reshape(-1) if me == 0 else np.empty(int(np.prod(shape)), kind)
    step, waits = max(1, len(result) // 96), []
    for begin in range(0, len(result), step):
        part = result[begin : begin + step]
        if me:
            comm.Recv(part.view(np.uint8), me - 1, 1)
        if ahead:
            waits.append(comm.Isend(part.view(np.uint8), me + 1, 1))
    MPI.Request.Waitall(waits)
    return result.reshape(shape)""", {"neighbors"}),
}  # fmt: skip
_TABLES = {
    "in place": "    before, total = counts.copy(), counts.copy()\n    comm.Allreduce(MPI.IN_PLACE, total)\n    comm.Scan(MPI.IN_PLACE, before)\n    return total, before - counts\n",
    "to one and back": "    total = comm.reduce(counts, op=MPI.SUM, root=0)\n    total = comm.bcast(total, root=0)\n    before = comm.exscan(counts)\n    return total, np.zeros_like(counts) if comm.rank == 0 else before\n",
    "both in one": "    pair = np.concatenate([counts, counts])\n    up = np.empty_like(pair)\n    comm.Scan(pair, up)\n    total = up[: len(counts)].copy()\n    comm.Bcast(total, comm.size - 1)\n    return total, up[len(counts) :] - counts\n",
    "by distance": """    p, r, before, sums, d = comm.size, comm.rank, np.zeros_like(counts), counts.copy(), 1
    while d < p:
        waits = [comm.Isend(sums.copy(), r + d, d)] if r + d < p else []
        if r >= d:
            come = np.empty_like(sums)
            comm.Recv(come, r - d, d)
            before, sums = before + come, sums + come
        MPI.Request.Waitall(waits)
        d *= 2
    total = np.empty_like(counts)
    comm.Allreduce(counts, total)
    return total, before
""",
    "with an operator": "    add = MPI.Op.Create(lambda a, b, t: np.frombuffer(b, np.int64).__iadd__(np.frombuffer(a, np.int64)), commute=True)\n    total, up = np.zeros_like(counts), np.zeros_like(counts)\n    comm.Allreduce(counts, total, add)\n    comm.Scan(counts, up, add)\n    return total, up - counts\n",
    "on a copy of the communicator": "    other = comm.Dup()\n    total, before = other.allreduce(counts), other.scan(counts) - counts\n    other.Free()\n    return total, before\n",
}  # fmt: skip
_TIES = {"equal_keys"}
#: name -> (assignment, source, checks that its algorithm does not pass)
WAYS: dict[str, tuple[str, str, set[str]]] = {
    **{name: ("broadcast", _TREE.format(body=body), {"optimal"} if name == "counted buffers" else set()) for name, body in _BODIES.items()},
    "keys to all at last": ("sort", _SORT.format(splitters=_ROOT, exchange=_TO_ALL), _TIES),
    "keys in vectors": ("sort", _SORT.format(splitters=_ALL, exchange=_VECTORS), _TIES),
    "keys posted": ("sort", _SORT.format(splitters=_ALL, exchange=_POSTED), _TIES),
    "keys merged": ("sort", _SORT.format(splitters=_ROOT, exchange=_MERGED), _TIES),
    "keys hop by hop": ("sort", _SORT.format(splitters=_ALL, exchange=_LEFT_RIGHT), _TIES),
    "keys scattered": ("sort", _SORT.format(splitters=_ALL, exchange=_SCATTERED), _TIES),
    "keys of two levels": ("sort", _SORT.format(splitters=_TWO_LEVELS, exchange=_TO_ALL), _TIES),
    "keys of two levels in vectors": ("sort", _SORT.format(splitters=_TWO_LEVELS, exchange=_VECTORS), _TIES),
    **{name: ("prefix_sum", _SCAN.format(body=body), set()) for name, body in _SCANS.items()},
    **{name: ("deadlock", _SMOOTH.format(before=before, swap=swap, agree=agree), set()) for name, (before, swap, agree) in _SWAPS.items()},
    **{name: ("julia", _FARM.format(body=body), {"any_costs"}) for name, body in _CYCLES.items()},
    **{name: ("julia", _FARM.format(body=body), set()) for name, body in _FARMS.items()},
    **{name: ("torus_broadcast", _LINE.format(body=body), missed) for name, (body, missed) in _LINES.items()},
    **{f"tables {name}": ("scaling_bug", made(body), set()) for name, body in _TABLES.items()},
    "tables written twice": ("scaling_bug", made("    raise NotImplementedError\n") + made(_TABLES["in place"]), set()),
    "tables of a class": ("scaling_bug", "class Tables:\n    pass\n" + made(_TABLES["both in one"]), set()),
    "sums with a note": ("prefix_sum", '"""A scan."""\nDEBUG = False\n' + _SCAN.format(body=_SCANS["sums in exchange"]), set()),
    "rows by a list, timed": ("julia", "import time\nBEGAN = time.time()\n" + _FARM.format(body=_CYCLES["rows by a list"]), {"any_costs"}),
}  # fmt: skip
