"""Submissions that are right, in different styles."""

from __future__ import annotations

__all__ = ["GOOD"]

BINOMIAL = """
def broadcast(comm, data, root):
    p, me = comm.size, (comm.rank - root) % comm.size
    mask = 1
    while mask < p:
        if me & mask:
            data = comm.recv(source=(me - mask + root) % p)
            break
        mask <<= 1
    mask >>= 1
    while mask:
        if me + mask < p:
            comm.send(data, (me + mask + root) % p)
        mask >>= 1
    return data
"""

HALVES = '''
from mpi4py import MPI

class Tree:
    """Hand the upper half of the ranks to its first one, again and again."""

    def __init__(self, comm, root):
        self.comm, self.root, self.p = comm, root, comm.Get_size()
        self.me = (comm.Get_rank() - root) % self.p

    def real(self, number):
        return (number + self.root) % self.p

    def go(self, data):
        low, high = 0, self.p
        requests = []
        while high - low > 1:
            middle = (low + high + 1) // 2
            if self.me == low:
                requests.append(self.comm.isend(data, dest=self.real(middle), tag=7))
            if self.me == middle:
                request = self.comm.irecv(bytearray(1 << 17), source=self.real(low), tag=7)
                data = request.wait()
            low, high = (low, middle) if self.me < middle else (middle, high)
        MPI.Request.waitall(requests)
        return data

def broadcast(comm, data, root):
    return Tree(comm, root).go(data)
'''

BINARY = """
def broadcast(comm, data, root):
    number = (comm.rank - root) % comm.size
    if number:
        data = comm.recv(source=((number - 1) // 2 + root) % comm.size)
    for child in (2 * number + 1, 2 * number + 2):
        if child < comm.size:
            comm.send(data, (child + root) % comm.size)
    return data
"""

BUFFERS = """
import numpy as np
import labkit as lk

def broadcast(comm, data, root):
    p, me = comm.size, (comm.rank - root) % comm.size
    real = lambda number: (number + root) % p
    distance = 1
    while distance < p:
        distance *= 2
    with lk.phase("tree"):
        while distance > 1:
            distance //= 2
            if me % (2 * distance) == distance:
                shape, dtype = comm.recv(source=real(me - distance))
                data = np.empty(shape, dtype)
                comm.Recv(data, real(me - distance), tag=1)
            elif me % (2 * distance) == 0 and me + distance < p:
                comm.send((data.shape, data.dtype.str), real(me + distance))
                comm.Send(np.ascontiguousarray(data), real(me + distance), tag=1)
    return data
"""

SAMPLE = """
import numpy as np

def parallel_sort(comm, keys):
    p = comm.size
    keys = np.sort(keys)
    take = np.linspace(0, max(len(keys) - 1, 0), 64).astype(int) if len(keys) else np.zeros(0, int)
    samples = np.sort(np.concatenate(comm.allgather(keys[take])))
    if len(samples) == 0 or p == 1:
        return keys
    splitters = samples[np.arange(1, p) * len(samples) // p]
    ends = np.searchsorted(keys, splitters, side="right")
    counts = np.diff(np.concatenate([[0], ends, [len(keys)]]))
    received = np.empty(p, np.int64)
    comm.Alltoall(counts.astype(np.int64), received)
    out = np.empty(received.sum(), keys.dtype)
    comm.Alltoallv([keys, counts], [out, received])
    return np.sort(out)
"""

OBJECTS = """
import random
import numpy as np
from mpi4py import MPI

def splitters_of(comm, keys, per_rank=48):
    chosen = [keys[random.randrange(len(keys))] for _ in range(per_rank)] if len(keys) else []
    gathered = comm.gather(chosen, root=0)
    found = None
    if comm.rank == 0:
        every = np.sort(np.array([key for part in gathered for key in part], keys.dtype))
        found = [every[i * len(every) // comm.size] for i in range(1, comm.size)] if len(every) else []
    return comm.bcast(found, root=0)

def parallel_sort(comm, keys):
    splitters = np.array(splitters_of(comm, keys), keys.dtype)
    bucket = np.searchsorted(splitters, keys, side="right")
    parts = comm.alltoall([keys[bucket == i] for i in range(comm.size)])
    return np.sort(np.concatenate(parts), kind="stable")
"""

TIES = '''
import numpy as np
import labkit as lk

def parallel_sort(comm, keys):
    """Samples carry rank and position, so that equal keys can be told apart."""
    p, me = comm.size, comm.rank
    keys = np.sort(keys)
    n = len(keys)
    positions = np.unique(np.linspace(0, n - 1, 48).astype(np.int64)) if n else np.zeros(0, np.int64)
    everybody = comm.allgather((keys[positions], positions))
    sampled = np.concatenate([part for part, _ in everybody])
    ranks = np.concatenate([np.full(len(part), r) for r, (part, _) in enumerate(everybody)])
    places = np.concatenate([place for _, place in everybody])
    if len(sampled) == 0:
        return keys
    _, order_of = np.unique(sampled, return_inverse=True, equal_nan=True)
    order = np.lexsort((places, ranks, order_of))
    chosen = order[np.arange(1, p) * len(order) // p]
    ends = []
    with lk.phase("split"):
        for i in chosen:
            left = np.searchsorted(keys, sampled[i], side="left")
            right = np.searchsorted(keys, sampled[i], side="right")
            if ranks[i] < me:
                ends.append(left)
            elif ranks[i] > me:
                ends.append(right)
            else:
                ends.append(places[i])
    parts = np.split(keys, ends)
    requests = [comm.isend(parts[to], dest=to) for to in range(p) if to != me]
    mine = [parts[me]] + [comm.recv(source=(me - k) % p) for k in range(1, p)]
    for request in requests:
        request.wait()
    return np.sort(np.concatenate(mine))
'''

NOISY = SAMPLE.replace(
    "    p = comm.size\n",
    "    p = comm.size\n    for _ in range(200):\n        print('x' * 50000)\n",
    1,
)

GRID = """
from mpi4py import MPI

def broadcast(comm, data, root):
    \"\"\"Along a binomial tree whose ranks are places on a ring that begins at the root.\"\"\"
    ring = comm.Create_cart([comm.size], periods=[True])
    me = (ring.coords[0] - root) % ring.dims[0]
    distance = 1
    while distance < ring.size:
        distance *= 2
    while distance > 1:
        distance //= 2
        before, after = ring.Shift(0, distance)
        if me % (2 * distance) == distance:
            data = ring.recv(source=before, tag=3)
        elif me % (2 * distance) == 0 and me + distance < ring.size:
            ring.send(data, after, tag=3)
    return data
"""

NONBLOCKING = SAMPLE.replace(
    "    comm.Alltoall(counts.astype(np.int64), received)\n",
    "    request = comm.Ialltoall(counts.astype(np.int64), received)\n    request.Wait()\n",
).replace(
    "    comm.Alltoallv([keys, counts], [out, received])\n",
    "    comm.Ialltoallv([keys, counts], [out, received]).Wait()\n    comm.Ibarrier().wait()\n",
)

OWN_OPERATOR = SAMPLE.replace(
    "import numpy as np\n",
    """import numpy as np
from mpi4py import MPI


def longer(left, right, datatype):
    a, b = np.frombuffer(left, np.int64), np.frombuffer(right, np.int64)
    np.maximum(a, b, out=b)
""",
).replace(
    "    p = comm.size\n",
    "    p = comm.size\n    most = np.zeros(1, np.int64)\n"
    "    comm.Allreduce(np.array([len(keys)]), most, op=MPI.Op.Create(longer, commute=True))\n"
    "    assert most[0] >= len(keys)\n",
)

HILLIS = """
from labkit.schedule import whole

def rounds(group):
    me, p = group.ranks, group.size
    yield group.copy(whole("send"), whole("recv"))
    yield group.copy(whole("send"), whole("partial"))
    distance = 1
    while distance < p:
        to, source = me + distance < p, me >= distance
        yield group.isend(whole("partial"), me + distance, to) + group.irecv(
            whole("incoming"), me - distance, source
        ) + group.wait(to | source)
        yield group.combine(whole("incoming"), whole("recv"), True, source)
        yield group.combine(whole("incoming"), whole("partial"), True, source)
        distance *= 2
"""

DOUBLING = '''
import numpy as np
import labkit.schedule as ls

def rounds(group):
    """Recursive doubling: partners exchange what their halves hold; ranks without a partner stand aside."""
    me, p = group.ranks, group.size
    send, recv = ls.whole("send"), ls.whole("recv")
    partial, incoming = ls.whole("partial"), ls.whole("incoming")
    yield group.copy(send, recv) + group.copy(send, partial)
    mask = 1
    while mask < p:
        partner = me ^ mask
        active = partner < p
        lower = active & (partner < me)
        yield group.sendrecv(partial, partner, incoming, partner, active)
        yield group.combine(incoming, recv, True, lower)
        yield group.combine(incoming, partial, partner < me, active)
        mask *= 2
'''

#: name -> (assignment, source, checks it does not pass)
GOOD: dict[str, tuple[str, str, set[str]]] = {
    "binomial": ("broadcast", BINOMIAL, set()),
    "halves": ("broadcast", HALVES, set()),
    "binary_tree": ("broadcast", BINARY, {"optimal"}),
    "buffers": ("broadcast", BUFFERS, {"optimal"}),
    "sample": ("sort", SAMPLE, {"equal_keys"}),
    "objects": ("sort", OBJECTS, {"equal_keys"}),
    "ties": ("sort", TIES, set()),
    "grid": ("broadcast", GRID, {"messages", "optimal"}),  # a new communicator costs a barrier
    "nonblocking": ("sort", NONBLOCKING, {"equal_keys"}),
    "own_operator": ("sort", OWN_OPERATOR, {"equal_keys"}),
    "noisy": ("sort", NOISY, {"equal_keys"}),
    "hillis": ("prefix_sum", HILLIS, set()),
    "doubling": ("prefix_sum", DOUBLING, set()),
}
