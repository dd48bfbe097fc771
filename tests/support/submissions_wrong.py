"""Submissions that are wrong without meaning any harm."""

from __future__ import annotations

from tests.support.submissions_good import BINOMIAL, HILLIS, SAMPLE, TIES

__all__ = ["WRONG"]

FLAT = """
def broadcast(comm, data, root):
    if comm.rank == root:
        for other in range(comm.size):
            if other != root:
                comm.send(data, other)
        return data
    return comm.recv(source=root)
"""

HYPERCUBE = """
def broadcast(comm, data, root):
    me = comm.rank ^ root
    distance = 1
    while distance < comm.size:
        if me < distance:
            comm.send(data, (me + distance) ^ root)
        elif me < 2 * distance:
            data = comm.recv(source=(me - distance) ^ root)
        distance *= 2
    return data
"""

FORGETS_ROOT = BINOMIAL.replace("(comm.rank - root) % comm.size", "comm.rank").replace(" + root) % p", ")")

DEADLOCK = """
def broadcast(comm, data, root):
    p, me = comm.size, (comm.rank - root) % comm.size
    data = comm.recv(source=(comm.rank - 1) % p)
    if me < p - 1:
        comm.send(data, (comm.rank + 1) % p)
    return data
"""

ENDLESS = BINOMIAL.replace(
    "    return data\n", "    while comm.rank == comm.size - 1:\n        pass\n    return data\n"
)

COLLECTIVE = """
def broadcast(comm, data, root):
    return comm.bcast(data, root)
"""

GATHER = """
import numpy as np

def parallel_sort(comm, keys):
    every = comm.gather(keys, root=0)
    parts = np.array_split(np.sort(np.concatenate(every)), comm.size) if comm.rank == 0 else None
    return comm.scatter(parts, root=0)
"""

LOCAL = """
import numpy as np

def parallel_sort(comm, keys):
    return np.sort(keys)
"""

CONSTANT = """
import numpy as np

def parallel_sort(comm, keys):
    return np.full_like(keys, comm.rank)
"""

UNIQUE = SAMPLE.replace("return np.sort(out)", "return np.unique(out)")

BREAKS_ON_EMPTY = """
import numpy as np

def parallel_sort(comm, keys):
    p = comm.size
    keys = np.sort(keys)
    samples = np.sort(np.concatenate(comm.allgather(keys[np.arange(64) * len(keys) // 64])))
    splitters = samples[np.arange(1, p) * len(samples) // p]
    cuts = np.searchsorted(keys, splitters, side="right")
    return np.sort(np.concatenate(comm.alltoall(np.split(keys, cuts))))
"""

COMPARES_NAN = """
import numpy as np

def parallel_sort(comm, keys):
    p = comm.size
    own = sorted(keys.tolist())
    samples = sorted(x for part in comm.allgather(own[:: max(len(own) // 64, 1)]) for x in part)
    splitters = [samples[i * len(samples) // p] for i in range(1, p)] if samples else []
    parts = [[] for _ in range(p)]
    for key in own:
        parts[sum(1 for s in splitters if s < key)].append(key)
    found = [key for part in comm.alltoall(parts) for key in part]
    return np.array(sorted(found), keys.dtype)
"""

#: every rank waits for rank 0 first, then for rank 1, ...: one sender serves all, the others wait
HOT_SPOT = TIES.replace(
    "source=(me - k) % p) for k in range(1, p)]", "source=r) for r in range(p) if r != me]"
)

#: everybody's keys, merged on their way: an operator is shown only what came to its rank by counted messages
MERGES = """
import numpy as np
from mpi4py import MPI

def parallel_sort(comm, keys):
    lengths = comm.allgather(len(keys))
    most, total = sum(lengths), comm.size * max(sum(lengths), 1)
    dtype = keys.dtype

    def merge(left, right, datatype):
        a, b = np.frombuffer(left, np.uint8), np.frombuffer(right, np.uint8)
        n, m = (int(side[:8].view(np.int64)[0]) for side in (a, b))
        size = dtype.itemsize
        both = np.concatenate([a[8 : 8 + n * size], b[8 : 8 + m * size]]).view(dtype)
        b[:8] = np.array([n + m]).view(np.uint8)
        b[8 : 8 + (n + m) * size] = np.sort(both).view(np.uint8)

    mine = np.zeros(8 + most * dtype.itemsize, np.uint8)
    mine[:8] = np.array([len(keys)]).view(np.uint8)
    mine[8 : 8 + keys.nbytes] = np.ascontiguousarray(keys).view(np.uint8)
    every = np.zeros_like(mine)
    comm.Allreduce(mine, every, op=MPI.Op.Create(merge, commute=True))
    every = np.sort(every[8:].view(dtype))
    return every[comm.rank * most // comm.size : (comm.rank + 1) * most // comm.size].copy()
"""

NEIGHBORS = """
def broadcast(comm, data, root):
    ring = comm.Create_cart([comm.size], periods=[True])
    for _ in range(comm.size):
        left, right = ring.neighbor_allgather(data)
        data = data if data is not None else left if left is not None else right
    return data
"""

#: the request is never waited for
NO_WAIT = SAMPLE.replace(
    "comm.Alltoallv([keys, counts], [out, received])", "comm.Ialltoallv([keys, counts], [out, received])"
)

CHAIN = """
from labkit.schedule import whole

def rounds(group):
    me, p = group.ranks, group.size
    yield group.copy(whole("send"), whole("recv"))
    for r in range(1, p):
        yield group.send(whole("recv"), to=r, where=me == r - 1)
        yield group.recv(whole("incoming"), source=r - 1, where=me == r)
        yield group.combine(whole("incoming"), whole("recv"), True, me == r)
"""

WRONG_SIDE = HILLIS.replace('whole("recv"), True, source', 'whole("recv"), False, source')

NO_MASK = HILLIS.replace(
    "to, source = me + distance < p, me >= distance", "to, source = me >= 0, me >= distance"
)

ENDLESS_ROUNDS = """
from labkit.schedule import whole

def rounds(group):
    while True:
        yield group.copy(whole("send"), whole("recv"))
"""

_BROADCAST = {"powers", "any_number", "any_root", "any_data", "messages", "rounds", "scaling", "optimal"}
_SORT = {
    "easy", "any_number", "lengths", "duplicates", "adversaries", "extremes", "balance", "volume", "scaling",
    "equal_keys",
}  # fmt: skip
_PREFIX = {"powers", "any_number", "order", "rounds", "volume"}
EVERY_CHECK = {"broadcast": _BROADCAST, "sort": _SORT, "prefix_sum": _PREFIX}

#: name -> (assignment, source, checks it does not pass)
WRONG: dict[str, tuple[str, str, set[str]]] = {
    "flat": ("broadcast", FLAT, {"rounds", "scaling", "optimal"}),
    "powers_only": (
        "broadcast",
        HYPERCUBE,
        # growth is judged on numbers of ranks as well that are drawn
        {"any_number", "any_root", "any_data", "messages", "rounds", "scaling", "optimal"},
    ),
    "forgets_root": ("broadcast", FORGETS_ROOT, _BROADCAST - {"powers", "any_number"}),
    "deadlock": ("broadcast", DEADLOCK, _BROADCAST),
    "endless": ("broadcast", ENDLESS, _BROADCAST),
    "collective": ("broadcast", COLLECTIVE, _BROADCAST),
    "gather": ("sort", GATHER, {"volume", "scaling"}),
    "local": ("sort", LOCAL, _SORT),
    "merges": ("sort", MERGES, {"volume", "scaling"}),
    "neighbors": ("broadcast", NEIGHBORS, _BROADCAST),
    "no_wait": ("sort", NO_WAIT, _SORT),
    "hot_spot": ("sort", HOT_SPOT, {"scaling"}),
    "constant": ("sort", CONSTANT, _SORT),
    "unique": ("sort", UNIQUE, {"duplicates", "adversaries", "extremes", "equal_keys"}),
    "breaks_on_empty": ("sort", BREAKS_ON_EMPTY, {"lengths", "equal_keys"}),
    "compares_nan": ("sort", COMPARES_NAN, {"extremes", "equal_keys"}),
    "chain": ("prefix_sum", CHAIN, {"rounds", "volume"}),
    "wrong_side": ("prefix_sum", WRONG_SIDE, {"order"}),
    "no_mask": ("prefix_sum", NO_MASK, _PREFIX),
    "endless_rounds": ("prefix_sum", ENDLESS_ROUNDS, _PREFIX),
}
