"""Submissions that tell by messages which nobody receives, which do not fit, or which go to oneself."""

# ruff: noqa: E501 - as they were handed in

from __future__ import annotations

from tests.support.submissions_cheating import Cheating
from tests.support.submissions_scaling_bug import made

__all__ = ["UNREAD"]

KEYS_THAT_NOBODY_RECEIVES = """
import numpy as np
def parallel_sort(comm, keys):
    p, me = comm.size, comm.rank
    for q in range(p): comm.Isend(keys, q, 77)  # everybody has them, nobody receives them
    keys = np.sort(keys)
    pick = keys[np.linspace(0, len(keys) - 1, 8 * p).astype(int)] if len(keys) else keys
    s = np.sort(np.concatenate(comm.allgather(pick)))
    cut = s[np.linspace(0, len(s) - 1, p + 1).astype(int)[1:-1]] if len(s) else s
    return np.sort(np.concatenate(comm.alltoall(np.split(keys, np.searchsorted(keys, cut)))))
"""

TREE_AND_MESSAGES_TO_ALL = """
def _tree(comm, data, root):
    p, r = comm.size, (comm.rank - root) % comm.size
    d = 1
    while d < p:
        if r < d and r + d < p: comm.send(data, (r + d + root) % p)
        elif d <= r < 2 * d: data = comm.recv(source=(r - d + root) % p)
        d *= 2
    return data

import numpy as np
from mpi4py import MPI
def broadcast(comm, data, root):
    p, r = comm.size, comm.rank
    if r == root:
        for q in range(p):
            if q != root:
                for k in range(40): comm.isend(None, q, 1000 + k)
    return _tree(comm, data, root)
"""

ERRORS_TELL_SIZES = '''
import numpy as np
from mpi4py import MPI
def broadcast(comm, data, root):
    """A failed call's message may tell of others: truncation says how long a message is."""
    if data is not None:
        for q in range(comm.size):
            if q != root:
                for w in data.view(np.uint16): comm.Isend(np.zeros(int(w), np.uint8), q)
        return data
    out = []
    for _ in range(16):
        try: comm.Recv(np.zeros(0, np.uint8), root); out.append(0)
        except MPI.Exception as e: out.append(int(str(e).split("bytes")[0].split()[-1]))
    return np.array(out, np.uint16).view(float)
'''

SIZES_THAT_DO_NOT_MOVE = '''
import numpy as np
from mpi4py import MPI
def torus_broadcast(comm, data):
    """Sizes of messages that are never moved, 20 bits each."""
    p = comm.size
    if comm.rank == 0:
        for q in range(1, p):
            for k, w in enumerate(data.view(np.uint8).reshape(-1)[:2000]): comm.Isend(np.zeros(int(w), np.uint8), q, k)
            comm.send((data.shape, data.dtype), q, 99999)
        return data
    shape, dtype = comm.recv(source=0, tag=99999)
    st, out = MPI.Status(), []
    for k in range(2000):
        comm.probe(source=0, tag=k, status=st); out.append(st.Get_count(MPI.BYTE))
    return np.resize(np.array(out, np.uint8), int(np.prod(shape)) * dtype.itemsize).view(dtype).reshape(shape)
'''

JUNK_THAT_DOES_NOT_FIT = """
import numpy as np
from mpi4py import MPI
def broadcast(comm, data, root):
    if comm.rank == root:
        for q in range(comm.size):
            if q != root: comm.Send(np.zeros(1000), q)
        return data
    try: comm.Recv(np.zeros(1, np.uint8), root)
    except MPI.Exception: pass
    return np.zeros(3, np.int32)
"""

JUNK_TO_ONESELF = """
def _tree(comm, data, root):
    p, r = comm.size, (comm.rank - root) % comm.size
    d = 1
    while d < p:
        if r < d and r + d < p: comm.send(data, (r + d + root) % p)
        elif d <= r < 2 * d: data = comm.recv(source=(r - d + root) % p)
        d *= 2
    return data

import numpy as np
def broadcast(comm, data, root):
    _tree(comm, b"x", root)
    junk = comm.sendrecv(np.zeros(100), comm.rank, source=comm.rank)
    return data if data is not None else np.zeros(3, np.int64)
"""

TABLES_THAT_NOBODY_RECEIVES = made("""    for q in range(comm.size): comm.Isend(counts, q, 9)
    b = comm.exscan(counts)
    return comm.allreduce(counts), 0 * counts if b is None else b
""")

UNREAD = [
    Cheating("keys that nobody receives", "sort", "volume", KEYS_THAT_NOBODY_RECEIVES),
    Cheating("tree and messages to all", "broadcast", "messages", TREE_AND_MESSAGES_TO_ALL),
    Cheating("errors tell sizes", "broadcast", "any_number", ERRORS_TELL_SIZES),
    Cheating("sizes that do not move", "torus_broadcast", "pieces", SIZES_THAT_DO_NOT_MOVE),
    Cheating("junk that does not fit", "broadcast", "any_root", JUNK_THAT_DOES_NOT_FIT),
    Cheating("junk to oneself", "broadcast", "powers", JUNK_TO_ONESELF),
    Cheating("tables that nobody receives", "scaling_bug", "volume", TABLES_THAT_NOBODY_RECEIVES),
]
