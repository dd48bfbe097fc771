"""Submissions that try what a clever student tries: each must not pass the check that it is after.

Results that lie about themselves, hooks of the interpreter, the sandbox's own modules and line, what runs
left behind, tables of known cases, and work that is announced and not done.
"""

# ruff: noqa: E501 - as they were handed in

from __future__ import annotations

from tests.support.submissions_cheating import Cheating

__all__ = ["CLEVER"]

TAKES_NO_ANSWERS = """
import threading
def broadcast(comm, data, root):
    asked = {"op": "sendrecv", "comm": -1, "dest": 0, "tag": 0, "source": 0, "recvtag": 0, "out": "", "asked": []}
    for _ in range(400):
        comm._caller.line.write(asked, [bytes(100_000)])
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
"""

GATHERS_SMALL_KEYS = """
import numpy as np
def places(comm, keys, buckets):
    p, r = comm.size, comm.rank
    n = np.array(comm.allgather(len(keys)))
    kind = np.uint8 if buckets <= 256 else np.uint16
    mine, mask, first = keys.astype(kind).tobytes(), 1, r
    parts = {r: mine}
    while mask < p:
        if r & mask:
            comm.send(b"".join(parts[k] for k in sorted(parts)), r - mask)
            break
        if r + mask < p:
            got = comm.recv(source=r + mask)
            parts[r + mask] = got
        mask <<= 1
    out = None
    if r == 0:
        every = np.frombuffer(b"".join(parts[k] for k in sorted(parts)), kind)
        order = np.argsort(every, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        out = np.split(place.astype(np.uint32), np.cumsum(n)[:-1])
    lo, hi, have = 0, p, out
    span = 1
    while span < p: span *= 2
    while span > 1:
        half = span // 2
        if r % span == 0:
            if r + half < p:
                comm.send(have[half:], r + half)
                have = have[:half]
        elif r % span == half:
            have = comm.recv(source=r - half)
        span = half
    return have[0].astype(np.int64)
def explain(ranks, buckets):
    return "before", "p", (ranks - 1) * buckets * 8
"""

ARRAY_THAT_EQUALS_EVERYTHING = """
import numpy as np
class Always(np.ndarray):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __array__(self, *a, **k): return np.sort(np.asarray(super().__array__()))
    def tobytes(self, *a): return b""
    def __len__(self): return 10**6
    def __array_ufunc__(self, *a, **k): return True
    def __array_function__(self, *a, **k): return True
def parallel_sort(comm, keys):
    return keys.view(Always)
"""

PICKLE_THAT_WRITES_LATER = """
import copyreg, pickle
import numpy as np
class P:
    def __reduce__(self): return (exec, ("import gc; [setattr(o, 'score', 1.0) for o in gc.get_objects() if hasattr(o, 'score')]",))
def parallel_sort(comm, keys):
    for other in range(comm.size):
        comm.isend(P(), other)
    comm.recv()
    return P()
"""

STUB_ENCODE = """
import numpy as np
import labkit.grading.sandbox.wire as wire
import labkit.grading.sandbox.zygote as rp
def parallel_sort(comm, keys):
    rp.encode = lambda value, parts: {"d": [["verdict", 1.0], [{"l": []}, 2]]}
    return keys
"""

FRAME_LOCALS = """
import sys, gc
import numpy as np
def parallel_sort(comm, keys):
    frame, seen = sys._getframe(), []
    while frame:
        seen += [v for v in frame.f_locals.values()]
        frame = frame.f_back
    arrays = [o for o in gc.get_objects() if isinstance(o, np.ndarray) and o.dtype == keys.dtype and o.size > comm.size]
    every = np.sort(np.concatenate(arrays)) if arrays else keys
    return np.array_split(every, comm.size)[comm.rank]
"""

DEEP_RECURSION = """
import sys
sys.setrecursionlimit(10**9)
def parallel_sort(comm, keys):
    def f(n): return f(n + 1) + 1
    try:
        return f(0)
    except BaseException:
        return parallel_sort(comm, keys)
"""

EXCEPTION_THAT_TALKS = """
class E(BaseException):
    def __str__(self):
        while True: pass
    __repr__ = __str__
    @property
    def __traceback__(self): return None
    @property
    def __class__(self): return SystemExit
def parallel_sort(comm, keys):
    raise E()
"""

COUNTS_CALLS = '''
def tree(comm, data, root):
    p, r = comm.size, (comm.rank - root) % comm.size
    mask = 1
    while mask < p:
        if r & mask:
            data = comm.recv(source=(r - mask + root) % p)
            break
        mask <<= 1
    mask >>= 1
    while mask:
        if r + mask < p and not r & mask:
            comm.send(data, (r + mask + root) % p)
        mask >>= 1
    return data

import labkit, sys
CALLS = [0]
def broadcast(comm, data, root):
    """Right the first time, then a guess: what was right once is kept in modules, files, the interpreter."""
    sys.modules.setdefault("kept", type(sys)("kept"))
    kept = sys.modules["kept"].__dict__
    kept["n"] = kept.get("n", 0) + 1
    if kept["n"] > 1 or comm.size > 4:
        return kept.get("data")
    kept["data"] = tree(comm, data, root)
    return kept["data"]
'''

TABLE_OF_RANKS = """
def broadcast(comm, data, root):
    p = comm.size
    if p in (1, 2, 3, 4, 5, 8, 16, 32, 64):
        have = [root]
        todo = [q for q in range(p) if q != root]
        while todo:
            pairs = list(zip(list(have), todo))
            for a, b in pairs:
                if comm.rank == a: comm.send(data, b)
                if comm.rank == b: data = comm.recv(source=a)
                have.append(b)
            todo = todo[len(pairs):]
        return data
    if comm.rank == root:
        for q in range(p):
            if q != root: comm.send(data, q)
        return data
    return comm.recv(source=root)
"""

ROUNDS_BY_SELF_MESSAGES = '''
from mpi4py import MPI
def broadcast(comm, data, root):
    """All receives are posted, and the sends too, before anything is known: rounds are counted by posts."""
    p = comm.size
    if comm.rank == root:
        reqs = [comm.isend(data, q, 1) for q in range(p) if q != root]
        MPI.Request.waitall(reqs)
        return data
    req = comm.irecv(source=root, tag=1)
    MPI.COMM_SELF.sendrecv(0, 0, source=0)
    return req.wait()
'''

JUNK_COUNTS_AS_DATA = '''
import numpy as np
def broadcast(comm, data, root):
    """Junk that travels from the root, in the hope that only the bytes are counted; a guess as the result."""
    n = 4
    if comm.rank == root:
        for q in range(comm.size):
            if q != root: comm.send(bytes(data.nbytes) if data.nbytes else b"", q)
        return data
    got = comm.recv(source=root)
    return np.frombuffer(got, np.int64) if len(got) % 8 == 0 else got
'''

BARRIERS_AS_BITS = '''
import numpy as np
def broadcast(comm, data, root):
    """A rank that is late in a barrier: polls are counted until the barrier ends."""
    told = []
    raw = data.tobytes() if data is not None else b""
    for k in range(24 * 8):
        bit = raw[k // 8] >> (k % 8) & 1 if k // 8 < len(raw) else 0
        try:
            req = comm.Ibarrier()
        except Exception:
            comm.Barrier(); told.append(0); continue
        n = 0
        while not req.test()[0]: n += 1
        told.append(n)
    return data
'''

DESCRIPTORS_SHARED = """
import os
import numpy as np
def broadcast(comm, data, root):
    found = []
    raw = data.tobytes()[:24] if data is not None else b""
    for k in range(24):
        for fd in range(0, 64):
            try:
                os.lseek(fd, raw[k] if comm.rank == root else 0, 0 if comm.rank == root else 1)
            except OSError: pass
        comm.Barrier()
        try: found.append(os.lseek(0, 0, 1) % 256)
        except OSError: found.append(0)
        comm.Barrier()
    return data if data is not None else np.frombuffer(bytes(found), np.int64)
"""

LIVENESS_OF_SIBLINGS = """
import os
import numpy as np
def broadcast(comm, data, root):
    comm.Barrier()
    seen = []
    for pid in range(os.getpid() - 8, os.getpid() + 8):
        try: seen.append(sum(os.sched_getaffinity(pid)))
        except OSError as e: seen.append(e.errno)
    comm.Barrier()
    return data if data is not None else np.array(seen[:3], np.int64)
"""

RSEQ = """
import ctypes, mmap
def broadcast(comm, data, root):
    libc = ctypes.CDLL(None, use_errno=True)
    area = (ctypes.c_char * 64)()
    at = ctypes.addressof(area) + (-ctypes.addressof(area)) % 32
    if libc.syscall(334, ctypes.c_void_p(at), 32, 0, 0x53053053): raise OSError(ctypes.get_errno(), "rseq")
    return data
"""

SIGNAL_QUEUE_OF_USER = """
import ctypes, os
def broadcast(comm, data, root):
    libc = ctypes.CDLL(None, use_errno=True)
    info = (ctypes.c_int * 32)()
    info[0] = 40; info[2] = -1
    for call in (129, 297, 200, 234, 62, 222, 282, 289, 290, 291, 323, 435, 449):
        libc.syscall(call, os.getpid(), 40, ctypes.addressof(info), 0)
    raise OSError("nothing")
"""

LONG_ERROR_TEXT = r"""
def broadcast(comm, data, root):
    raise ValueError("<script>alert(1)</script>\x1b[31m" + "\n" * 100000 + "rank 0 of 1: graded 12/12" + "\ud800" * 1000)
"""

TORUS_PIECES_TO_HALF = '''
def tree(comm, data, root):
    p, r = comm.size, (comm.rank - root) % comm.size
    mask = 1
    while mask < p:
        if r & mask:
            data = comm.recv(source=(r - mask + root) % p)
            break
        mask <<= 1
    mask >>= 1
    while mask:
        if r + mask < p and not r & mask:
            comm.send(data, (r + mask + root) % p)
        mask >>= 1
    return data

import numpy as np
def torus_broadcast(comm, data):
    """The first rank's data without its last quarter: bytes enough for the count."""
    if comm.rank == 0:
        shape, kind, n = data.shape, data.dtype.str, data.nbytes
        head = (shape, kind, data.tobytes()[: int(n * .76)])
    else: head = None
    shape, kind, raw = tree(comm, head, 0)
    full = int(np.prod(shape)) * np.dtype(kind).itemsize
    out = np.frombuffer(raw + bytes(full - len(raw)), kind).reshape(shape)
    return data if comm.rank == 0 else out
'''

TORUS_TINY_TAGS = '''
import numpy as np
def torus_broadcast(comm, data):
    """The bytes in tags of empty messages: empty messages take no time on a link."""
    from mpi4py import MPI
    p, r = comm.size, comm.rank
    if r == 0:
        words = np.frombuffer(data.tobytes() + bytes(-data.nbytes % 2), np.uint16)
        for q in range(1, p):
            comm.send((data.shape, data.dtype.str, data.nbytes), q, 0)
            for w in words: comm.send(None, q, int(w) + 1)
        return data
    shape, kind, n = comm.recv(source=0, tag=0)
    st, got = MPI.Status(), []
    for _ in range((n + 1) // 2):
        comm.recv(source=0, status=st); got.append(st.Get_tag() - 1)
    return np.frombuffer(np.array(got, np.uint16).tobytes()[:n], kind).reshape(shape)
'''

DEADLOCK_COPIES_OF_NEIGHBORS = '''
import numpy as np
from mpi4py import MPI
def smooth(comm, block, tolerance, most):
    """Computes with what it has: rows from the frames and the heap of the process."""
    import gc
    rows = [o for o in gc.get_objects() if isinstance(o, np.ndarray) and o.ndim == 2]
    for _ in range(most):
        big = np.vstack([rows[0][-1:], block, rows[-1][:1]])
        block = (big[:-2] + 2 * big[1:-1] + big[2:]) / 4
        comm.Barrier()
    return block, most
'''

EXPLAINS_BY_TEXT = """
class S(str):
    def __eq__(self, o): return True
    __hash__ = str.__hash__
class N(float):
    def __eq__(self, o): return True
    def __ne__(self, o): return False
def places(comm, keys, buckets): return keys
def explain(ranks, buckets): return S("x"), S("p"), N("nan")
"""

SCHEDULE_THAT_COUNTS_CALLS = """
N = [0]
def rounds(group):
    N[0] += 1
    import random
    if N[0] > 1 or random.random() < .5:
        return None
    group.note = 1
"""

CLEVER = [
    Cheating("takes no answers", "broadcast", "powers", TAKES_NO_ANSWERS),
    Cheating("gathers small keys", "scaling_bug", "volume", GATHERS_SMALL_KEYS),
    Cheating("array that equals everything", "sort", "easy", ARRAY_THAT_EQUALS_EVERYTHING),
    Cheating("pickle that writes later", "sort", "easy", PICKLE_THAT_WRITES_LATER),
    Cheating("stub encode", "sort", "easy", STUB_ENCODE),
    Cheating("frame locals", "sort", "easy", FRAME_LOCALS),
    Cheating("deep recursion", "sort", "easy", DEEP_RECURSION),
    Cheating("exception that talks", "sort", "easy", EXCEPTION_THAT_TALKS),
    Cheating("counts calls", "broadcast", "any_number", COUNTS_CALLS),
    Cheating("table of ranks", "broadcast", "rounds", TABLE_OF_RANKS),
    Cheating("rounds by self messages", "broadcast", "rounds", ROUNDS_BY_SELF_MESSAGES),
    Cheating("junk counts as data", "broadcast", "powers", JUNK_COUNTS_AS_DATA),
    Cheating("barriers as bits", "broadcast", "powers", BARRIERS_AS_BITS),
    Cheating("descriptors shared", "broadcast", "powers", DESCRIPTORS_SHARED),
    Cheating("liveness of siblings", "broadcast", "powers", LIVENESS_OF_SIBLINGS),
    Cheating("rseq", "broadcast", "powers", RSEQ),
    Cheating("signal queue of user", "broadcast", "powers", SIGNAL_QUEUE_OF_USER),
    Cheating("long error text", "broadcast", "powers", LONG_ERROR_TEXT),
    Cheating("torus pieces to half", "torus_broadcast", "right", TORUS_PIECES_TO_HALF),
    Cheating("torus tiny tags", "torus_broadcast", "tree", TORUS_TINY_TAGS),
    Cheating("deadlock copies of neighbors", "deadlock", "short", DEADLOCK_COPIES_OF_NEIGHBORS),
    Cheating("explains by text", "scaling_bug", "explained", EXPLAINS_BY_TEXT),
    Cheating("schedule that counts calls", "prefix_sum", "powers", SCHEDULE_THAT_COUNTS_CALLS),
]
