"""Submissions that write data down compactly or clumsily: tables packed on many ranks, sums and samples of objects."""

# ruff: noqa: E501 - as they were handed in

from __future__ import annotations

from tests.support.submissions_scaling_bug import made

__all__ = ["PACKED", "TUPLES", "UNPACKED"]

TUPLES = """
import numpy as np
def parallel_sort(comm, keys):
    p, rank = comm.size, comm.rank
    mine = np.sort(keys)
    n = min(len(mine), 8 * p)
    at = np.linspace(0, len(mine) - 1, n).astype(int) if n else []
    samples = comm.gather([(mine[i], rank, i) for i in at])
    splitters = None
    if rank == 0:
        every = sorted(t for part in samples for t in part)
        splitters = [every[(k * len(every)) // p] for k in range(1, p)] if every else []
    splitters = comm.bcast(splitters)
    cuts = []
    for key, r, i in splitters:
        left, right = np.searchsorted(mine, key), np.searchsorted(mine, key, "right")
        cuts.append(int(right if rank < r else left if rank > r else min(max(i, left), right)))
    cuts = [0, *cuts, len(mine)] if splitters else [0] + [len(mine)] * p
    parts = [mine[a:b] for a, b in zip(cuts, cuts[1:])]
    return np.sort(np.concatenate(comm.alltoall(parts)))
"""


def _tables(body: str, found: str = "every.sum(0), every[:rank].sum(0)") -> str:
    """Return a submission that makes its tables so."""
    known = "import struct, zlib\n    p, rank, buckets = comm.size, comm.rank, len(counts)"
    return made(f"    {known}\n    {body}\n    return {found}\n")


#: gather every table, in few bytes on many ranks: the volume of scaling_bug is not theirs
PACKED = {
    "zlib on many": _tables(
        """packed = zlib.compress(counts.astype(np.uint16 if counts.max() < 65536 else np.int64).tobytes(), 9) if p > 16 else counts.astype(np.int64).tobytes()
    kinds = np.uint16 if counts.max() < 65536 else np.int64
    every = np.array([np.frombuffer(zlib.decompress(b) if p > 16 else b, kinds if p > 16 else np.int64) for b in comm.allgather(packed)]).astype(int)"""
    ),
    "zlib on all": _tables(
        """every = np.array([np.frombuffer(zlib.decompress(b), np.int64) for b in comm.allgather(zlib.compress(counts.astype(np.int64).tobytes(), 9))])"""
    ),
    "bytes and the rest": _tables(
        """if p > 16:
        big = [(int(b), int(counts[b]) >> 8) for b in np.nonzero(counts > 255)[0]]
        got = comm.allgather(((counts & 255).astype(np.uint8).tobytes(), big))
        every = np.array([np.frombuffer(a, np.uint8) for a, _ in got]).astype(int)
        for r, (_, more) in enumerate(got):
            for b, c in more: every[r, b] += c << 8
    else:
        every = np.empty((p, buckets), np.int64); comm.Allgather(counts.astype(np.int64), every)"""
    ),
    "short integers": _tables(
        """if p > 16:
        every = np.array([struct.unpack(f"{buckets}H", b) for b in comm.allgather(struct.pack(f"{buckets}H", *counts.tolist()))])
    else:
        every = np.empty((p, buckets), np.int64); comm.Allgather(counts.astype(np.int64), every)"""
    ),
    "gathered and sent on": _tables(
        """got = comm.gather(zlib.compress(counts.astype(np.uint16 if p > 16 else np.int64).tobytes(), 9 if p > 16 else 0))
    got = comm.bcast(got)
    every = np.array([np.frombuffer(zlib.decompress(b), np.uint16 if p > 16 else np.int64) for b in got]).astype(int)"""
    ),
    "sparse": _tables(
        """at = np.nonzero(counts)[0]
    if p > 16:
        got = comm.allgather((at.astype(np.uint16).tobytes(), counts[at].astype(np.uint16).tobytes()))
        every = np.zeros((p, buckets), int)
        for r, (a, c) in enumerate(got): every[r, np.frombuffer(a, np.uint16)] = np.frombuffer(c, np.uint16)
    else:
        every = np.empty((p, buckets), np.int64); comm.Allgather(counts.astype(np.int64), every)"""
    ),
    "padded": _tables(
        """kind = np.int64 if p <= 16 else np.uint16
    every = np.zeros((p, buckets), kind); every[rank] = counts
    comm.Allreduce(MPI.IN_PLACE, every); every = every.astype(int)"""
    ),
}

#: sum tables up as objects: slower, and as few tables
UNPACKED = {
    "counters": """
import numpy as np
from collections import Counter
from mpi4py import MPI
def places(comm, keys, buckets):
    mine = Counter(keys.tolist())
    total = comm.allreduce(mine, op=MPI.SUM)
    before = comm.exscan(mine, op=MPI.SUM) or Counter()
    start, at = 0, {}
    for b in range(buckets):
        at[b] = start + before[b]
        start += total[b]
    out = []
    for k in keys.tolist():
        out.append(at[k]); at[k] += 1
    return np.array(out, dtype=np.int64)
def explain(ranks, buckets):
    return "before", "p", (ranks - 1) * buckets * 8
""",
    "by hand": """
import numpy as np
def places(comm, keys, buckets):
    p, r = comm.size, comm.rank
    counts = [0] * buckets
    for k in keys: counts[k] += 1
    up, d = list(counts), 1
    while d < p:
        req = comm.isend(up, r + d, 1) if r + d < p else None
        if r >= d:
            up = [a + b for a, b in zip(comm.recv(source=r - d, tag=1), up)]
        if req: req.wait()
        d *= 2
    total, d = list(counts), 1
    # all-reduce by dissemination on powers, else fold
    q = 1
    while 2 * q <= p: q *= 2
    if r >= q: comm.send(total, r - q, 2)
    elif r + q < p: total = [a + b for a, b in zip(total, comm.recv(source=r + q, tag=2))]
    if r < q:
        while d < q:
            o = r ^ d
            got = comm.sendrecv(total, o, 3, source=o, recvtag=3)
            total = [a + b for a, b in zip(total, got)]
            d *= 2
        if r + q < p: comm.send(total, r + q, 4)
    else: total = comm.recv(source=r - q, tag=4)
    first = np.cumsum([0] + total[:-1]) + np.array(up) - np.array(counts)
    first = first.tolist()
    out = []
    for k in keys.tolist():
        out.append(first[k]); first[k] += 1
    return np.array(out)
def explain(ranks, buckets):
    return "before", "p", (ranks - 1) * buckets * 8
""",
    "arrays": _tables(
        """sums, ups = comm.allreduce(counts), comm.exscan(counts)
    ups = 0 * counts if ups is None else ups""",
        "sums, ups",
    ),
}
