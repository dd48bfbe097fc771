"""Submissions to the scaling bug: right ones, and wrong or cheating ones with what they miss."""

# ruff: noqa: E501 - a mistake is a line

from __future__ import annotations

__all__ = ["BY_LUCK", "HOSTILE", "RIGHT", "WRONG", "made"]

#: of the wrong ones those that only the sandbox may run
HOSTILE = (
    "sleeps_on_few",
    "charges_on_few",
    "reads_the_formula",
    "explains_an_object",
    "explains_for_ever",
    "patches_unique",
    "seeks_keys",
)
_EXPLAIN = "\ndef explain(ranks, buckets):\n    return 'before', 'p', (ranks - 1) * buckets * 8\n"
_MAIN = """
import numpy as np
import labkit as lk
from labkit import MPI

def places(comm, keys, buckets):
    counts = np.bincount(keys, minlength=buckets)
    totals, before = tables(comm, counts)
    first = np.cumsum(totals) - totals + before
    order = np.argsort(keys, kind="stable")
    within = np.arange(len(keys)) - (np.cumsum(counts) - counts)[keys[order]]
    found = np.empty(len(keys), np.int64)
    found[order] = first[keys[order]] + within
    return found

def tables(comm, counts):
"""


def made(tables: str, explain: str = _EXPLAIN) -> str:
    """Return a submission of what adds tables up: the body of ``tables(comm, counts)``, and its explanation."""
    return f"{_MAIN}{tables}{explain}"


_EXSCAN = """    totals, before = np.zeros_like(counts), np.zeros_like(counts)
    comm.Allreduce(counts, totals)
    comm.Exscan(counts, before)
    return totals, before
"""
_GIVEN = """    totals = np.zeros_like(counts)
    comm.Allreduce(counts, totals)
    every = np.empty((comm.size, len(counts)), counts.dtype)
    comm.Allgather(counts, every)
    return totals, every[: comm.rank].sum(axis=0)
"""
_NARROW = """    p = comm.size
    every = np.empty((p, len(counts)), np.int64 if p <= 8 else np.int32 if p <= 16 else np.{kind})
    comm.Allgather(counts.astype(every.dtype), every)
    every = every.astype(int)
    return every.sum(0), every[: comm.rank].sum(axis=0)
"""
_HILLIS = """    mine, d = counts.copy(), 1
    while d < comm.size:
        wait = comm.isend(mine, comm.rank + d) if comm.rank + d < comm.size else None
        if comm.rank >= d:
            mine = comm.recv(source=comm.rank - d) + mine
        if wait is not None:
            wait.wait()
        d *= 2
    totals = comm.bcast(mine if comm.rank == comm.size - 1 else None, root=comm.size - 1)
    return totals, mine - counts
"""
_BUTTERFLY = """    before, total, d = np.zeros_like(counts), counts.copy(), 1
    if comm.size & (comm.size - 1):
        comm.Exscan(counts, before)
        if comm.rank == 0:
            before[:] = 0
        return comm.allreduce(counts), before
    while d < comm.size:
        other = comm.rank ^ d
        theirs = np.empty_like(total)
        comm.Sendrecv(total, other, recvbuf=theirs, source=other)
        if other < comm.rank:
            before += theirs
        total = total + theirs
        d *= 2
    return total, before
"""
_LOOP = '''
import numpy as np
from labkit import MPI

def places(comm, keys, buckets):
    """Counted by hand, with a class that remembers where the next key of a bucket goes."""
    table = [0] * buckets
    for key in keys.tolist():
        table[key] += 1
    table = np.array(table, dtype="i8")
    total = comm.allreduce(table, op=MPI.SUM)
    next_place = (np.concatenate([[0], np.cumsum(total)[:-1]]) + comm.scan(table) - table).tolist()
    found = []
    for key in keys.tolist():
        found.append(next_place[key])
        next_place[key] += 1
    return np.array(found, dtype=int)

def explain(ranks: int, buckets: int) -> tuple:
    phase = "before"
    received = sum(buckets * np.dtype("int64").itemsize for other in range(ranks) if other)
    return [phase, "p", received]
'''
#: name -> (source, the checks that its algorithm misses)
RIGHT: dict[str, tuple[str, tuple[str, ...]]] = {
    "exscan": (made(_EXSCAN), ()),
    "scan_minus_own": (made("    return comm.allreduce(counts), comm.scan(counts) - counts\n"), ()),
    "lower_case_exscan": (
        made(
            "    before = comm.exscan(counts)\n    return comm.allreduce(counts), 0 * counts if before is None else before\n"
        ),
        (),
    ),
    "hillis": (made(_HILLIS), ()),
    "butterfly": (made(_BUTTERFLY), ()),
    "by_hand": (_LOOP, ()),
    "phases": (
        made(
            _EXSCAN.replace(
                "    comm.Allreduce", "    with lk.phase('totals'):\n        comm.Allreduce"
            ).replace("    comm.Exscan", "    with lk.phase('before'):\n        comm.Exscan")
        ),
        (),
    ),
    "last_rank_knows": (
        made(
            "    up = np.zeros_like(counts)\n    comm.Scan(counts, up)\n    totals = up.copy()\n    comm.Bcast(totals, root=comm.size - 1)\n    return totals, up - counts\n"
        ),
        (),
    ),
    "nonblocking": (
        made(
            "    totals, before = np.zeros_like(counts), np.zeros_like(counts)\n    waits = [comm.Iallreduce(counts, totals), comm.Iexscan(counts, before)]\n    MPI.Request.Waitall(waits)\n    return totals, before\n"
        ),
        (),
    ),
    "numpy_number": (
        made(
            _EXSCAN,
            "\nimport numpy\nITEM = numpy.int64(0).nbytes\ndef explain(ranks, buckets):\n    return ('before', 'O(p)', numpy.int64(ITEM * buckets * (ranks - 1)))\n",
        ),
        (),
    ),
    "three_collectives": (
        made(
            "    up = comm.scan(counts)\n    comm.Barrier()\n    totals = comm.allreduce(counts)\n    assert comm.allreduce(int(up.sum()), MPI.MAX) == totals.sum()\n    return totals, up - counts\n"
        ),
        (),
    ),
    "narrow": (
        made(
            "    small = counts.astype(np.int32)\n    totals, before = np.zeros_like(small), np.zeros_like(small)\n    comm.Allreduce(small, totals)\n    comm.Exscan(small, before)\n    return totals.astype(int), before.astype(int)\n"
        ),
        (),
    ),
}
_COSTS = ("volume", "scaling")
_WRONG = ("right", "any_number", *_COSTS)
_NOTHING = (*_WRONG, "explained")


def _explained(body: str) -> str:
    return made(_EXSCAN, f"\ndef explain(ranks, buckets):\n    {body}\n")


WRONG: dict[str, tuple[str, tuple[str, ...]]] = {
    "as_given": (made(_GIVEN), _COSTS),
    "only_repaired": (made(_EXSCAN, ""), ("explained",)),
    "wrong_phase": (_explained("return 'totals', 'p', (ranks - 1) * buckets * 8"), ("explained",)),
    "wrong_growth": (_explained("return 'before', 'log p', (ranks - 1) * buckets * 8"), ("explained",)),
    "quadratic": (_explained("return 'before', 'p^2', (ranks - 1) * buckets * 8"), ("explained",)),
    "own_table_too": (_explained("return 'before', 'p', ranks * buckets * 8"), ("explained",)),
    "in_numbers_not_bytes": (_explained("return 'before', 'p', (ranks - 1) * buckets"), ("explained",)),
    "of_all_ranks": (_explained("return 'before', 'p', ranks * (ranks - 1) * buckets * 8"), ("explained",)),
    "measured_once": (
        _explained("return 'before', 'p', {(8, 256): 14336}.get((ranks, buckets), 14336)"),
        ("explained",),
    ),
    "in_words": (
        _explained("return 'The phase \"before\" gathers all tables, so it grows with p.'"),
        ("explained",),
    ),
    "no_growth": (_explained("return 'before', None, (ranks - 1) * buckets * 8"), ("explained",)),
    "not_a_number": (_explained("return 'before', 'p', float('nan')"), ("explained",)),
    "gathered_at_rank_0": (
        made(
            "    every = comm.gather(counts)\n    if comm.rank == 0:\n        up = np.cumsum(every, axis=0)\n        parts = [(up[-1], up[r] - every[r]) for r in range(comm.size)]\n    return comm.scatter(parts if comm.rank == 0 else None)\n"
        ),
        _COSTS,
    ),
    "chain": (
        made(
            "    before = comm.recv(source=comm.rank - 1) if comm.rank else 0 * counts\n    if comm.rank + 1 < comm.size:\n        comm.send(before + counts, comm.rank + 1)\n    return comm.allreduce(counts), before\n"
        ),
        ("scaling",),
    ),
    "sends_to_all_after": (
        made(
            "    waits = [comm.isend(counts, r) for r in range(comm.rank + 1, comm.size)]\n    before = sum((comm.recv(source=r) for r in range(comm.rank)), 0 * counts)\n    MPI.Request.waitall(waits)\n    return comm.allreduce(counts), before\n"
        ),
        _COSTS,
    ),
    "inclusive": (made("    return comm.allreduce(counts), comm.scan(counts)\n"), _WRONG),
    "undefined_rank_0": (
        made(
            _EXSCAN.replace(
                "before = np.zeros_like(counts), np.zeros_like(counts)",
                "before = np.zeros_like(counts), np.full_like(counts, 7)",
            )
        ),
        _WRONG,
    ),
    "no_totals": (
        made(
            "    before = np.zeros_like(counts)\n    comm.Exscan(counts, before)\n    return counts, before\n"
        ),
        _WRONG,
    ),
    "unstable": (made(_EXSCAN).replace('np.argsort(keys, kind="stable")', "np.argsort(keys)[::-1]"), _WRONG),
    "sorted_keys": (made(_EXSCAN).replace("    return found\n", "    return np.sort(found)\n"), _WRONG),
    "one_rank_only": (made("    return counts, 0 * counts\n"), _WRONG),
    "needs_keys": (
        made(_EXSCAN).replace("    counts = np", "    assert len(keys) > 0 and buckets > 1\n    counts = np"),
        ("any_number",),
    ),
    "sleeps_on_few": (
        made(
            _GIVEN.replace("    totals =", "    import time\n    time.sleep(100.0 / comm.size)\n    totals =")
        ),
        _COSTS,
    ),
    "charges_on_few": (
        made(_GIVEN.replace("    totals =", "    lk.compute(seconds=100.0 / comm.size)\n    totals =")),
        _COSTS,
    ),
    "messages_on_few": (
        made(
            """    p = comm.size
    for _ in range({4: 6, 8: 3, 16: 1}.get(p, 0) if len(counts) == 1024 else 0):
        if comm.rank:
            comm.send(comm.recv(source=comm.rank - 1), (comm.rank + 1) % p)
        else:
            comm.send(counts, 1)
            comm.recv(source=p - 1)
    before = comm.recv(source=comm.rank - 1) if comm.rank else 0 * counts
    if comm.rank + 1 < p:
        comm.send(before + counts, comm.rank + 1)
    return comm.bcast(before + counts if comm.rank == p - 1 else None, root=p - 1), before
"""
        ),
        ("scaling",),
    ),
    "narrow_chain": (  # tables of fewer bytes on more ranks: in the range that is measured its time looks like log p
        made(
            """    p, r = comm.size, comm.rank
    kind = np.int64 if p <= 8 else np.int32 if p <= 16 or len(counts) < 1024 else np.uint16 if p <= 32 else np.uint8
    before, totals, d = np.zeros(len(counts), kind), None, 1
    if r:
        comm.Recv(before, r - 1)
    totals = (before + counts).astype(kind)
    if r + 1 < p:
        comm.Send(totals, r + 1)
    back = p - 1 - r
    while d < p:
        if back < d and back + d < p:
            comm.Send(totals, r - d)
        elif d <= back < 2 * d:
            comm.Recv(totals, r + d)
        d *= 2
    return totals.astype(int), before.astype(int)
"""
        ),
        ("scaling",),
    ),
    "narrow_on_many": (made(_NARROW.format(kind="uint8")), _COSTS),
    "half_narrow_on_many": (made(_NARROW.format(kind="uint16")), ("scaling",)),
    "reads_the_formula": (
        made(
            _EXSCAN,
            "\nfrom labkit.grading import find_assignment\nfind_assignment('scaling_bug')\n_own = __import__('sys').modules['labkit.course.assignments.scaling_bug']\ndef explain(ranks, buckets):\n    return 'before', 'p', _own._bytes_received(ranks, buckets)\n",
        ),
        _NOTHING,
    ),
    "explains_an_object": (
        made(
            _EXSCAN,
            "\nclass Anything(int):\n    def __eq__(self, other):\n        return True\n    def __ne__(self, other):\n        return False\n    __hash__ = int.__hash__\ndef explain(ranks, buckets):\n    return Anything(0), Anything(0), Anything(1)\n",
        ),
        ("explained",),
    ),
    "explains_for_ever": (
        made(_EXSCAN, "\ndef explain(ranks, buckets):\n    while True:\n        pass\n"),
        ("explained",),
    ),
    "patches_unique": (
        made(_GIVEN).replace(
            "import numpy as np",
            "import numpy as np\nnp.array_equal = lambda *a: True\nnp.argsort = lambda a, **k: np.arange(len(a))",
            1,
        ),
        _WRONG,
    ),
    "seeks_keys": (
        made(
            "    import gc, sys\n    every = [o for o in gc.get_objects() if isinstance(o, np.ndarray) and o.dtype == counts.dtype]\n    totals = sum((np.bincount(o, minlength=len(counts)) for o in every if o.ndim == 1 and len(o)), 0 * counts)\n    return totals, 0 * counts\n"
        ),
        _WRONG,
    ),
}

#: narrow counts keep the bound on volume in some draws
BY_LUCK = {"half_narrow_on_many": ("volume",)}
