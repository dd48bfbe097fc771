"""Right submissions in styles that the other corpora do not have: recursion, classes, buffers, packages, notebooks."""

# ruff: noqa: E501 - as they were handed in

from __future__ import annotations

import json

__all__ = ["STYLED"]


def _notebook(*cells: str) -> str:
    rows = [
        {
            "cell_type": "code",
            "metadata": {},
            "execution_count": 1,
            "outputs": [],
            "source": cell.splitlines(True),
        }
        for cell in cells
    ]
    return json.dumps({"cells": rows, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


B_RECURSIVE = '''
def broadcast(comm, data, root):
    """Recursion on an interval of ranks, counted from the root: its first one has the data."""
    def serve(low, high, data):
        if high - low == 1:
            return data
        middle = low + (high - low + 1) // 2
        me = (comm.rank - root) % comm.size
        name = lambda k: (k + root) % comm.size
        if me == low:
            comm.send(data, dest=name(middle), tag=high)
        elif me == middle:
            data = comm.recv(source=name(low), tag=high)
        return serve(low, middle, data) if me < middle else serve(middle, high, data)
    return serve(0, comm.Get_size(), data)
'''
B_BYTES = """
import pickle
import numpy
from mpi4py import MPI as mpi

def broadcast(comm, data, root):
    size, rank = comm.Get_size(), comm.Get_rank()
    virtual = (rank + size - root) % size
    packet = None if data is None else (data.dtype.char, data.shape, data.tobytes())
    bit = 1
    while bit < size:
        if virtual < bit:
            if virtual + bit < size:
                comm.ssend(packet, (rank + bit) % size)
        elif virtual < 2 * bit:
            packet = comm.recv(None, (rank + size - bit) % size, mpi.ANY_TAG)
        bit <<= 1
    if data is not None:
        return data
    kind, shape, raw = packet
    return numpy.frombuffer(raw, dtype=kind).reshape(shape).copy()
"""
B_DATACLASS = """
from __future__ import annotations
from dataclasses import dataclass, field
from typing import Iterator, Optional

@dataclass(frozen=True)
class Place:
    number: int
    size: int

    def parent(self) -> Optional["Place"]:
        return Place(self.number & (self.number - 1), self.size) if self.number else None

    def children(self) -> Iterator["Place"]:
        lowest = self.number & -self.number if self.number else 1 << self.size.bit_length()
        step = 1 << (lowest.bit_length() - 2) if lowest > 1 else 0
        while step:
            if self.number + step < self.size:
                yield Place(self.number + step, self.size)
            step >>= 1

def broadcast(comm, data, root):
    me = Place((comm.rank - root) % comm.size, comm.size)
    match me.parent():
        case None:
            pass
        case parent:
            data = comm.recv(source=(parent.number + root) % comm.size)
    for child in me.children():
        comm.send(data, dest=(child.number + root) % comm.size)
    return data
"""
B_PROBE = """
import numpy as np
from mpi4py import MPI

def broadcast(comm, data, root):
    p = comm.size
    me = (comm.rank - root) % p
    if me:
        status = MPI.Status()
        comm.probe(MPI.ANY_SOURCE, 1, status)
        data = comm.recv(source=status.Get_source(), tag=1)
    waits = []
    for k in reversed(range(p.bit_length())):
        if me % (2 << k) == 0 and me + (1 << k) < p:
            waits.append(comm.isend(data, (me + (1 << k) + root) % p, 1))
    MPI.Request.Waitall(waits)
    return data
"""
B_PYLAB = _notebook(
    "%matplotlib inline\nfrom pylab import *\nfrom mpi4py import MPI\nimport mpl_toolkits.mplot3d",
    "def relatives(me, p):\n    'parent, children'\n    k = 1\n    while k <= me: k *= 2\n    return me - k // 2 if me else None, [me + j for j in (1 << i for i in range(p.bit_length())) if j >= k and me + j < p]",
    "for p in (4, 8):\n    print([relatives(me, p) for me in range(p)])",
    "def broadcast(comm, data, root):\n    p = comm.size\n    parent, children = relatives((comm.rank - root) % p, p)\n    if parent is not None:\n        data = comm.recv(source=(parent + root) % p)\n    for child in children:\n        comm.send(data, dest=(child + root) % p)\n    return data",
    "figure(); plot(arange(5), arange(5)**2); title('rounds'); show()",
    "import labkit as lk\ntimes = [lk.run(broadcast, p, args=(zeros(3), 0)).makespan_s for p in (2, 4, 8)]\nplot([2, 4, 8], times)",
)
B_TWO_MESSAGES = """
import numpy as np

HEADER, BODY = 11, 12

def broadcast(comm, data, root):
    p, me = comm.size, (comm.rank - root) % comm.size
    mask, source = 1, None
    while mask < p and not me & mask:
        mask <<= 1
    if me:
        source = (me - mask + root) % p
        shape, kind = comm.recv(source=source, tag=HEADER)
        flat = np.empty(int(np.prod(shape)), dtype=kind)
        comm.Recv([flat.view(np.uint8), flat.nbytes, "B"] if False else flat, source=source, tag=BODY)
        data = flat.reshape(shape)
    flat = np.ascontiguousarray(data).reshape(-1)
    while mask > 1:
        mask >>= 1
        if me + mask < p:
            target = (me + mask + root) % p
            comm.send((data.shape, data.dtype.str), dest=target, tag=HEADER)
            comm.Send(flat, dest=target, tag=BODY)
    return data
"""
S_REGULAR = '''
import numpy as np

def parallel_sort(comm, keys):
    """Parallel sorting by regular sampling."""
    p, rank = comm.Get_size(), comm.Get_rank()
    block = np.sort(keys, kind="mergesort")
    if p == 1:
        return block
    step = max(1, len(block) // (2 * p))
    sample = comm.gather(block[::step], root=0)
    pivots = None
    if rank == 0:
        sample = np.sort(np.concatenate(sample))
        pivots = sample[[min(len(sample) - 1, (i + 1) * len(sample) // p) for i in range(p - 1)]] if len(sample) else sample
    pivots = comm.bcast(pivots, root=0)
    cuts = np.searchsorted(block, pivots, "left") if len(pivots) else [len(block)] * (p - 1)
    pieces = np.split(block, cuts)
    received = comm.alltoall(pieces)
    merged = np.concatenate(received)
    merged.sort()
    return merged
'''
S_PANDAS = """
import numpy as np
import pandas as pd
from scipy import stats

def parallel_sort(comm, keys):
    ordered = np.sort(keys)
    quantiles = ordered[(np.linspace(0, 1, 40) * (len(ordered) - 1)).astype(int)] if len(ordered) else ordered
    every = np.sort(np.concatenate(comm.allgather(quantiles)))
    if not len(every):
        return ordered
    edges = every[np.linspace(0, len(every) - 1, comm.size + 1).astype(int)[1:-1]]
    frame = pd.DataFrame({"bucket": np.searchsorted(edges, ordered, side="right")})
    sizes = frame.groupby("bucket").size().reindex(range(comm.size), fill_value=0).to_numpy()
    parts = np.split(ordered, np.cumsum(sizes)[:-1])
    return np.sort(np.concatenate(comm.alltoall(parts)))
"""
S_NONBLOCKING = """
import numpy as np
from mpi4py import MPI

TAG = 5

class SampleSort:
    oversampling = 50

    def __init__(self, comm):
        self.comm, self.p, self.me = comm, comm.size, comm.rank

    def splitters(self, keys):
        pick = keys[:: max(1, len(keys) // self.oversampling)]
        every = np.sort(np.concatenate(self.comm.allgather(pick)))
        return every[[k * len(every) // self.p for k in range(1, self.p)]] if len(every) else every

    def exchange(self, keys, ends):
        counts = np.diff([0, *ends, len(keys)]) if len(ends) == self.p - 1 else np.eye(self.p, dtype=int)[self.me] * len(keys)
        starts = np.cumsum(counts) - counts
        incoming = np.array(self.comm.alltoall(counts.tolist()))
        out = np.empty(incoming.sum(), keys.dtype)
        places = np.cumsum(incoming) - incoming
        receives = [self.comm.Irecv(out[a : a + n], q, TAG) for q, (a, n) in enumerate(zip(places, incoming)) if n]
        sends = [self.comm.Isend(keys[a : a + n], q, TAG) for q, (a, n) in enumerate(zip(starts, counts)) if n]
        MPI.Request.Waitall(receives + sends)
        return out

    def __call__(self, keys):
        keys = np.sort(keys)
        return np.sort(self.exchange(keys, np.searchsorted(keys, self.splitters(keys), "right")))

def parallel_sort(comm, keys):
    return SampleSort(comm)(keys)
"""
S_TYPED = """
import numpy as np
from mpi4py import MPI

def parallel_sort(comm, keys):
    p = comm.size
    keys = np.ascontiguousarray(np.sort(keys))
    n = np.array([len(keys)])
    sample = keys[np.arange(32) * len(keys) // 32] if len(keys) else keys
    lengths = np.empty(p, dtype="i8")
    comm.Allgather(np.array([len(sample)], dtype="i8"), lengths)
    pool = np.empty(lengths.sum(), dtype=keys.dtype)
    comm.Allgatherv(sample, [pool, lengths.tolist()])
    pool.sort()
    borders = [pool[k * len(pool) // p] for k in range(1, p)] if len(pool) else []
    ends = [int(np.searchsorted(keys, border, side="right")) for border in borders] or [len(keys)] * (p - 1)
    outgoing = np.diff([0] + ends + [len(keys)]).astype("i8")
    incoming = np.zeros_like(outgoing)
    comm.Alltoall(outgoing, incoming)
    result = np.empty(int(incoming.sum()), dtype=keys.dtype)
    comm.Alltoallv([keys, outgoing.tolist()], [result, incoming.tolist()])
    return np.sort(result)
"""
S_HEAP = """
import heapq
import itertools
import numpy as np

def parallel_sort(comm, keys):
    keys = np.sort(keys)
    p = comm.size
    grid = [keys[i * len(keys) // 64] for i in range(64)] if len(keys) else []
    pool = sorted(itertools.chain.from_iterable(comm.allgather(np.array(grid, keys.dtype).tolist())), key=lambda x: (x != x, x))
    if not pool:
        return keys
    cut = np.searchsorted(keys, np.array([pool[i * len(pool) // p] for i in range(1, p)], keys.dtype), side="right")
    runs = comm.alltoall([part for part in np.split(keys, cut)])
    merged = list(heapq.merge(*[run.tolist() for run in runs], key=lambda x: (x != x, x)))
    return np.array(merged, dtype=keys.dtype)
"""
S_NOTEBOOK = _notebook(
    "import numpy as np, labkit as lk\nimport matplotlib.pyplot as plt\nOVER = 64",
    "table = {}\nfor name, value in [('over', OVER), ('side', 'right')]:\n    table[name] = value",
    "%%time\ndef choose(comm, keys):\n    mine = keys[np.linspace(0, len(keys) - 1, table['over']).astype(int)] if len(keys) else keys\n    every = np.sort(np.concatenate(comm.allgather(mine)))\n    return every[np.arange(1, comm.size) * len(every) // comm.size] if len(every) else every",
    "def parallel_sort(comm, keys):\n    keys = np.sort(keys)\n    ends = np.searchsorted(keys, choose(comm, keys), side=table['side'])\n    parts = np.split(keys, ends) if len(ends) else [keys] + [keys[:0]] * (comm.size - 1)\n    return np.sort(np.concatenate(comm.alltoall(parts)))",
    "sizes = [100, 1000]\ntimes = []\nfor n in sizes:\n    times.append(lk.run(parallel_sort, 4, args=(np.random.rand(n),)).makespan_s)\nplt.loglog(sizes, times)",
    *(f"x{i} = {i}\nprint(x{i})" for i in range(300)),
)
P_MASKED = """
from labkit.schedule import whole

SEND, RECV, PARTIAL, INCOMING = map(whole, ("send", "recv", "partial", "incoming"))

def distances(p):
    d = 1
    while d < p:
        yield d
        d += d

def rounds(group):
    rank, p = group.ranks, group.size
    yield group.copy(SEND, RECV) + group.copy(SEND, PARTIAL)
    for d in distances(p):
        gives, takes = rank < p - d, rank >= d
        requests = group.irecv(INCOMING, rank - d, takes)
        requests = requests + group.isend(PARTIAL, rank + d, gives)
        yield requests + group.wait(gives | takes)
        yield group.combine(INCOMING, PARTIAL, True, takes)
        yield group.combine(INCOMING, RECV, True, takes)
"""
P_ONE_BUFFER = '''
import labkit.schedule as ls

def rounds(group):
    """The sum so far is what is sent: one work buffer is enough."""
    r, p = group.ranks, group.size
    total, given = ls.whole("recv"), ls.whole("incoming")
    yield group.copy(ls.whole("send"), total)
    k = 0
    while (hop := 2**k) < p:
        down, up = r >= hop, r + hop < p
        yield group.copy(total, ls.whole("partial"), up)
        yield group.isend(ls.whole("partial"), r + hop, up) + group.irecv(given, r - hop, down) + group.wait(up | down)
        yield group.combine(given, total, True, down)
        k += 1
'''
P_CLASS = """
from labkit.schedule import whole
import numpy as np

class Scan:
    def __init__(self, group):
        self.g, self.me = group, np.asarray(group.ranks)

    def start(self):
        return self.g.copy(whole("send"), whole("recv")) + self.g.copy(whole("send"), whole("partial"))

    def step(self, d):
        to, fro = self.me + d < self.g.size, self.me - d >= 0
        yield (self.g.isend(whole("partial"), self.me + d, to)
               + self.g.irecv(whole("incoming"), self.me - d, fro) + self.g.wait(to | fro))
        for target in ("partial", "recv"):
            yield self.g.combine(whole("incoming"), whole(target), True, fro)

def rounds(group):
    scan = Scan(group)
    yield scan.start()
    for k in range(int(np.ceil(np.log2(group.size))) if group.size > 1 else 0):
        yield from scan.step(1 << k)
"""
_D_LOOP = """
def smooth(comm, block, tolerance, most):
    block = np.array(block, dtype=float)
    steps = 0
    for _ in range(most):
        above, below = neighbors(comm, block)
        big = np.concatenate([above[None], block, below[None]])
        new = 0.25 * (big[:-2] + 2 * big[1:-1] + big[2:])
        delta = np.max(np.abs(new - block))
        block = new
        steps += 1
        if largest(comm, delta) < tolerance:
            break
    return block, steps
"""
D_REQUESTS = f"""
import numpy as np
from mpi4py import MPI

def neighbors(comm, block):
    p, me = comm.size, comm.rank
    above, below = np.empty(block.shape[1]), np.empty(block.shape[1])
    first, last = block[0].copy(), block[-1].copy()
    MPI.Request.Waitall([
        comm.Irecv(above, (me - 1) % p, 21), comm.Irecv(below, (me + 1) % p, 22),
        comm.Isend(last, (me + 1) % p, 21), comm.Isend(first, (me - 1) % p, 22),
    ])
    return above, below

def largest(comm, x):
    return comm.allreduce(float(x), op=MPI.MAX)
{_D_LOOP}"""
D_PERSISTENT = """
import numpy as np
from mpi4py import MPI

def smooth(comm, block, tolerance, most):
    p, me, width = comm.size, comm.rank, block.shape[1]
    rows = np.zeros((len(block) + 2, width))
    rows[1:-1] = block
    out = np.empty((2, width)); came = np.empty((2, width))
    requests = [comm.Recv_init(came[0], (me - 1) % p, 1), comm.Recv_init(came[1], (me + 1) % p, 2),
                comm.Send_init(out[0], (me - 1) % p, 2), comm.Send_init(out[1], (me + 1) % p, 1)]
    total, mine = np.zeros(1), np.zeros(1)
    for step in range(1, most + 1):
        out[0], out[1] = rows[1], rows[-2]
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
        rows[0], rows[-1] = came
        new = (rows[:-2] + 2 * rows[1:-1] + rows[2:]) / 4
        mine[0] = np.abs(new - rows[1:-1]).max()
        rows[1:-1] = new
        comm.Allreduce(mine, total, op=MPI.MAX)
        if total[0] < tolerance:
            return rows[1:-1].copy(), step
    return rows[1:-1].copy(), most
"""
D_OBJECTS = f"""
import numpy as np

def neighbors(comm, block):
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    below = comm.sendrecv(block[0], dest=left, sendtag=1, source=right, recvtag=1)
    above = comm.sendrecv(block[-1], dest=right, sendtag=2, source=left, recvtag=2)
    return above, below

def largest(comm, x):
    return max(comm.allgather(x))
{_D_LOOP}"""
D_RING = f"""
import numpy as np
from mpi4py import MPI

def neighbors(comm, block):
    ring = comm.Create_cart([comm.size], periods=[True])
    before, after = ring.Shift(0, 1)
    rows = np.empty((2, block.shape[1]))
    ring.Sendrecv(block[-1].copy(), after, 3, rows[0], before, 3)
    ring.Sendrecv(block[0].copy(), before, 4, rows[1], after, 4)
    return rows

def largest(comm, x):
    worst = comm.reduce(x, op=MPI.MAX, root=comm.size - 1)
    return comm.bcast(worst, root=comm.size - 1)
{_D_LOOP}"""
D_NOTEBOOK = _notebook(
    "from mpi4py import MPI\nimport numpy as np, labkit as lk",
    f"def neighbors(comm, block):\n    p = comm.size\n    up, down = (comm.rank - 1) % p, (comm.rank + 1) % p\n    a = comm.isend(block[0], dest=up, tag=1); b = comm.isend(block[-1], dest=down, tag=2)\n    above = comm.recv(source=up, tag=2); below = comm.recv(source=down, tag=1)\n    MPI.Request.waitall([a, b])\n    return above, below\n\nlargest = lambda comm, x: comm.allreduce(x, MPI.MAX)\n{_D_LOOP}",
    "smooth(MPI.COMM_WORLD, np.zeros((2, 3)), 0.1, 4)",
)
_J_HEAD = "import numpy as np\nfrom mpi4py import MPI\n"
J_FARM_OF_ARRAYS = f'''{_J_HEAD}
WANT, ROW, STOP = 1, 2, 3

def julia(comm, n, row):
    """Rank 0 hands out rows; who has none left is told to stop."""
    if comm.size == 1:
        return np.array([row(y) for y in range(n)])
    if comm.rank:
        status = MPI.Status()
        comm.send(None, 0, WANT)
        while True:
            y = comm.recv(source=0, status=status)
            if status.Get_tag() == STOP:
                return None
            comm.send((y, row(y)), 0, WANT)
    picture, following, busy = {{}}, iter(range(n)), comm.size - 1
    status = MPI.Status()
    while busy:
        answer = comm.recv(source=MPI.ANY_SOURCE, tag=WANT, status=status)
        if answer is not None:
            picture[answer[0]] = answer[1]
        y = next(following, None)
        if y is None:
            busy -= 1
        comm.send(y, status.Get_source(), STOP if y is None else ROW)
    return np.vstack([picture[y] for y in sorted(picture)])
'''
J_HELPING = f"""{_J_HEAD}
def julia(comm, n, row):
    p, me = comm.size, comm.rank
    if me == 0:
        done, next_row, left, status = {{}}, 0, p - 1, MPI.Status()
        while left or next_row < n:
            while left and (next_row >= n or comm.iprobe(source=MPI.ANY_SOURCE, status=status)):
                status = MPI.Status()
                done.update(comm.recv(source=MPI.ANY_SOURCE, status=status))
                comm.send(next_row if next_row < n else -1, status.source)
                left -= next_row >= n
                next_row += next_row < n
            if next_row < n and (left == 0 or not comm.iprobe(source=MPI.ANY_SOURCE)):
                y, next_row = next_row, next_row + 1
                done[y] = row(y)
        return np.array([done[y] for y in range(n)])
    found = {{}}
    while True:
        comm.send(found, 0)
        y = comm.recv(source=0)
        if y < 0:
            return None
        found = {{y: row(y)}}
"""
J_DEALT = f"""{_J_HEAD}
from functools import partial

def julia(comm, n, row):
    numbers = list(filter(lambda y: y % comm.size == comm.rank, range(n)))
    rows = comm.gather(dict(zip(numbers, map(row, numbers))), root=0)
    if comm.rank != 0:
        return
    together = {{}}
    for part in rows:
        together |= part
    return np.stack(list(map(together.__getitem__, range(n))))
"""
J_GATHERV = f"""{_J_HEAD}
def julia(comm, n, row):
    mine = range(n - 1 - comm.rank, -1, -comm.size)
    rows = [np.append(row(y), y) for y in mine]
    parts = comm.gather(np.array(rows, dtype=np.int32) if rows else None, root=0)
    if comm.rank == 0:
        every = np.concatenate([part for part in parts if part is not None])
        return every[np.argsort(every[:, -1]), :-1]
"""
J_SENT_BACK = f"""{_J_HEAD}
def julia(comm, n, row):
    if comm.rank == 0:
        picture = [None] * n
        for y in range(0, n, comm.size):
            picture[y] = row(y)
        for _ in range(n - len(range(0, n, comm.size))):
            y, values = comm.recv(source=MPI.ANY_SOURCE)
            picture[y] = values
        return np.asarray(picture)
    for y in range(comm.rank, n, comm.size):
        comm.isend((y, row(y)), 0).wait()
"""
_T_HEAD = "import numpy as np\nfrom mpi4py import MPI\n"
T_TREE = f"""{_T_HEAD}
def torus_broadcast(comm, data):
    p, me, k = comm.size, comm.rank, 1
    while k < p:
        k *= 2
    while k > 1:
        k //= 2
        if me % (2 * k) == k:
            data = comm.recv(source=me - k)
        elif me % (2 * k) == 0 and me + k < p:
            comm.send(data, dest=me + k)
    return data
"""
T_SNAKE = f'''{_T_HEAD}
def path(p):
    """Neighbors follow each other on the torus of 64."""
    if p != 64:
        return list(range(p))
    order = []
    for z in range(4):
        for y in range(4) if z % 2 == 0 else reversed(range(4)):
            for x in range(4) if (y + z) % 2 == 0 else reversed(range(4)):
                order.append(x + 4 * y + 16 * z)
    return order

def torus_broadcast(comm, data):
    order = path(comm.size)
    k = order.index(comm.rank)
    if k:
        shape, kind = comm.recv(source=order[k - 1], tag=1)
        data = np.empty(shape, kind)
    waits = []
    if k + 1 < comm.size:
        waits.append(comm.isend((data.shape, data.dtype), order[k + 1], tag=1))
    flat = np.ascontiguousarray(data).reshape(-1)
    for part in np.array_split(flat, 80 if flat.nbytes > 100_000 else 1):
        if k:
            comm.Recv(part, order[k - 1], tag=2)
        if k + 1 < comm.size:
            waits.append(comm.Isend(part, order[k + 1], tag=2))
    MPI.Request.Waitall(waits)
    return flat.reshape(data.shape)
'''
T_BINARY = f"""{_T_HEAD}
def torus_broadcast(comm, data):
    me, p = comm.rank, comm.size
    parent, children = (me - 1) // 2, [c for c in (2 * me + 1, 2 * me + 2) if c < p]
    pieces = np.array_split(data.ravel(), 32) if me == 0 else []
    head = (data.shape, data.dtype.str) if me == 0 else comm.recv(source=parent)
    pending = [comm.isend(head, c) for c in children]
    for k in range(32):
        if me:
            pieces.append(comm.recv(source=parent))
        pending += [comm.isend(pieces[k], c) for c in children]
    [request.wait() for request in pending]
    return data if me == 0 else np.concatenate(pieces).reshape(head[0])
"""
_E = "\ndef explain(ranks, buckets):\n    return 'before', 'p', (ranks - 1) * buckets * 8\n"
_X_REST = """
def places(comm, keys, buckets):
    table = np.bincount(keys, minlength=buckets)
    total, lower = sums(comm, table)
    start = np.concatenate([[0], np.cumsum(total)[:-1]]) + lower
    result = np.zeros(len(keys), dtype=int)
    for b in np.unique(keys):
        here = np.flatnonzero(keys == b)
        result[here] = start[b] + np.arange(len(here))
    return result
"""
X_TREE = f'''
import numpy as np

def sums(comm, table):
    """Up a binomial tree the sums of subtrees, down the sums of what is before them."""
    p, me, got, d = comm.size, comm.rank, [], 1
    own = table.copy()
    while d < p and me % (2 * d) == 0:
        if me + d < p:
            got.append((d, own.copy()))
            own = own + comm.recv(source=me + d, tag=d)
        d *= 2
    if me:
        d = me & -me
        comm.send(own, me - d, tag=d)
        total, before = comm.recv(source=me - d, tag=0)
    else:
        total, before = own, 0 * own
    for d, mine in reversed(got):
        comm.ssend((total, before + mine), me + d, tag=0)  # one after another, not all at once
    return total, before
{_X_REST}{_E}'''
X_SCAN = f"""
import numpy as np
from mpi4py import MPI

def sums(comm, table):
    upto = np.empty_like(table)
    comm.Scan(table, upto, op=MPI.SUM)
    total = np.array(upto)
    comm.Bcast(total, root=comm.size - 1)
    return total, upto - table
{_X_REST}
def explain(ranks, buckets):
    others = ranks - 1
    return ["before", "O(p)", float(others) * 8.0 * buckets]
"""
X_OBJECTS = f"""
import numpy as np
import operator

def sums(comm, table):
    total = comm.allreduce(table, op=operator.add) if False else comm.allreduce(table)
    return total, comm.exscan(table) if comm.rank else (comm.exscan(table), np.zeros_like(table))[1]
{_X_REST}{_E}"""
X_PAIR = f"""
import numpy as np
from mpi4py import MPI

def sums(comm, table):
    total, before = np.zeros_like(table), np.zeros_like(table)
    pending = comm.Iexscan(table, before), comm.Iallreduce(table, total)
    for request in pending:
        request.wait()
    if comm.rank == 0:
        before.fill(0)
    return total, before
{_X_REST}{_E}"""
X_NOTEBOOK = _notebook(
    "import numpy as np\nimport labkit as lk\nimport matplotlib.pyplot as plt\nfrom mpi4py import MPI",
    "def slow_places(comm, keys, buckets):\n    every = comm.allgather(np.bincount(keys, minlength=buckets))\n    return every",
    "sizes = [4, 8, 16]\nruns = [lk.run(slow_places, p, args=(np.arange(5) % 3, 3), trace=True) for p in sizes]\nplt.plot(sizes, [run.bytes for run in runs])",
    f"sums = lambda comm, table: (comm.allreduce(table), comm.scan(table) - table)\n{_X_REST}",
    "ITEM = np.dtype(np.int64).itemsize\ndef explain(ranks, buckets):\n    return ('before', 'p', ITEM * buckets * (ranks - 1))",
    "explain(8, 256)",
)
B_SHORT = """
def broadcast(comm, data, root):
    p, me = comm.size, (comm.rank - root) % comm.size
    for d in (1 << k for k in range((p - 1).bit_length())):
        if d <= me < 2 * d:
            data = comm.recv(source=(me - d + root) % p)
        elif me < d and me + d < p:
            comm.send(data, (me + d + root) % p)
    return data
"""
S_RING = """
import numpy as np

def parallel_sort(comm, keys):
    p, me = comm.size, comm.rank
    keys = np.sort(keys)
    own = keys[(np.arange(40) * len(keys)) // 40] if keys.size else keys
    sample = np.sort(np.concatenate(comm.allgather(own)))
    walls = sample[(np.arange(1, p) * sample.size) // p] if sample.size else sample
    bins = np.split(keys, np.searchsorted(keys, walls, side="right"))
    bins += [keys[:0]] * (p - len(bins))
    mine = [bins[me]]
    for hop in range(1, p):
        to, fro = (me + hop) % p, (me - hop) % p
        mine.append(comm.sendrecv(bins[to], dest=to, sendtag=hop, source=fro, recvtag=hop))
    return np.sort(np.concatenate(mine))
"""
P_STEPS = """
from labkit.schedule import whole

def rounds(group):
    me, p, d = group.ranks, group.size, 1
    send, recv, partial, incoming = (whole(name) for name in ["send", "recv", "partial", "incoming"])
    yield group.copy(send, recv)
    yield group.copy(send, partial)
    while True:
        if d >= p:
            return
        receives = me >= d
        sends = (me + d) < p
        both = receives | sends
        posted = group.isend(partial, me + d, sends) + group.irecv(incoming, me - d, receives)
        yield posted + group.wait(both)
        for buffer in (recv, partial):
            yield group.combine(incoming, buffer, True, receives)
        d <<= 1
"""
D_PADDED = """
import numpy as np
from mpi4py import MPI

def smooth(comm, block, tolerance, most):
    p, me = comm.size, comm.rank
    rows = np.pad(np.asarray(block, float), ((1, 1), (0, 0)))
    for step in range(1, most + 1):
        wait = [comm.Isend(rows[1].copy(), (me - 1) % p, 1), comm.Isend(rows[-2].copy(), (me + 1) % p, 2)]
        comm.Recv(rows[-1], (me + 1) % p, 1)
        comm.Recv(rows[0], (me - 1) % p, 2)
        MPI.Request.Waitall(wait)
        inner = (rows[:-2] + 2.0 * rows[1:-1] + rows[2:]) / 4.0
        change = comm.allreduce(abs(inner - rows[1:-1]).max(), MPI.MAX)
        rows[1:-1] = inner
        if change < tolerance:
            break
    return rows[1:-1], step
"""
J_SCATTERED = f"""{_J_HEAD}
def julia(comm, n, row):
    lists = [list(range(r, n, comm.size)) for r in range(comm.size)] if comm.rank == 0 else None
    mine = comm.scatter(lists, root=0)
    found = comm.gather([row(y) for y in mine], root=0)
    if comm.rank:
        return None
    picture = [None] * n
    for numbers, rows in zip(lists, found):
        for y, values in zip(numbers, rows):
            picture[y] = values
    return np.array(picture, dtype=int)
"""
T_LINE = f"""{_T_HEAD}
PIECES = 48

def torus_broadcast(comm, data):
    last = comm.rank + 1 == comm.size
    packet = (data.shape, data.dtype) if comm.rank == 0 else comm.recv(source=comm.rank - 1)
    sent = [] if last else [comm.isend(packet, comm.rank + 1)]
    shape, kind = packet
    whole = data.reshape(-1) if comm.rank == 0 else None
    parts = []
    for k in range(PIECES):
        if comm.rank == 0:
            part = whole[k * len(whole) // PIECES : (k + 1) * len(whole) // PIECES]
        else:
            part = comm.recv(source=comm.rank - 1)
        parts.append(part)
        if not last:
            sent.append(comm.isend(part, comm.rank + 1))
    MPI.Request.waitall(sent)
    return np.concatenate(parts).astype(kind).reshape(shape)
"""
X_PANDAS = f"""
import numpy as np
import pandas as pd
from mpi4py import MPI

def places(comm, keys, buckets):
    series = pd.Series(keys)
    table = series.value_counts().reindex(range(buckets), fill_value=0).to_numpy()
    table = np.ascontiguousarray(table, dtype=np.int64)
    total = comm.allreduce(table, op=MPI.SUM)
    lower = comm.scan(table, op=MPI.SUM) - table
    first = np.cumsum(total) - total + lower
    return first[keys] + series.groupby(series).cumcount().to_numpy()
{_E}"""
#: name -> (assignment, source, checks that its algorithm does not pass)
STYLED: dict[str, tuple[str, str, set[str]]] = {
    "recursive": ("broadcast", B_RECURSIVE, set()),
    "bytes": ("broadcast", B_BYTES, set()),
    "dataclass": ("broadcast", B_DATACLASS, set()),
    "probe": ("broadcast", B_PROBE, set()),
    "pylab": ("broadcast", B_PYLAB, set()),
    "two_messages": ("broadcast", B_TWO_MESSAGES, {"optimal"}),
    "regular": ("sort", S_REGULAR, {"equal_keys"}),
    "pandas": ("sort", S_PANDAS, {"equal_keys"}),
    "requests": ("sort", S_NONBLOCKING, {"equal_keys"}),
    "typed_buffers": ("sort", S_TYPED, {"equal_keys"}),
    "heap": ("sort", S_HEAP, {"equal_keys"}),
    "long_notebook": ("sort", S_NOTEBOOK, {"equal_keys"}),
    "masked": ("prefix_sum", P_MASKED, set()),
    "one_buffer": ("prefix_sum", P_ONE_BUFFER, set()),
    "scan_class": ("prefix_sum", P_CLASS, set()),
    "requests_of_rows": ("deadlock", D_REQUESTS, set()),
    "persistent_rows": ("deadlock", D_PERSISTENT, set()),
    "objects_of_rows": ("deadlock", D_OBJECTS, set()),
    "ring_of_rows": ("deadlock", D_RING, set()),
    "notebook_of_rows": ("deadlock", D_NOTEBOOK, set()),
    "farm_until_stop": ("julia", J_FARM_OF_ARRAYS, set()),
    "helping_farm": ("julia", J_HELPING, {"any_costs"}),
    "dealt": ("julia", J_DEALT, {"any_costs"}),
    "numbered_rows": ("julia", J_GATHERV, {"any_costs"}),
    "sent_back": ("julia", J_SENT_BACK, {"any_costs"}),
    "tree": ("torus_broadcast", T_TREE, {"pieces", "neighbors"}),
    "snake": ("torus_broadcast", T_SNAKE, {"neighbors"}),
    "binary": ("torus_broadcast", T_BINARY, {"neighbors"}),
    "sums_in_a_tree": ("scaling_bug", X_TREE, set()),
    "sums_by_scan": ("scaling_bug", X_SCAN, set()),
    "sums_of_objects": ("scaling_bug", X_OBJECTS, set()),
    "sums_side_by_side": ("scaling_bug", X_PAIR, set()),
    "sums_in_a_notebook": ("scaling_bug", X_NOTEBOOK, set()),
    "short": ("broadcast", B_SHORT, set()),
    "ring_of_buckets": ("sort", S_RING, {"equal_keys"}),
    "steps": ("prefix_sum", P_STEPS, set()),
    "padded_rows": ("deadlock", D_PADDED, set()),
    "scattered": ("julia", J_SCATTERED, {"any_costs"}),
    "line": ("torus_broadcast", T_LINE, {"neighbors"}),
    "sums_of_a_frame": ("scaling_bug", X_PANDAS, set()),
}  # fmt: skip
