"""Reductions in detail, operators that do not commute among them: the same on real MPI and simulated."""

from __future__ import annotations

import functools

import numpy as np

from labkit import MPI
from tests.support.same import Table

CASES = Table(ranks=(1, 2, 3, 4))
case = CASES.case


def product(left, right, datatype):
    """Multiply 2x2 matrices of integers modulo a prime: left times right."""
    a, b = (np.frombuffer(data, np.int64).reshape(-1, 2, 2) for data in (left, right))
    b[:] = a @ b % 10007


def matrices(comm, n):
    """Return n matrices of this rank."""
    return np.random.default_rng(comm.rank).integers(0, 100, (n, 2, 2))


@case
def matrix_products(comm):
    p, me = comm.size, comm.rank
    times = MPI.Op.Create(product, commute=False)
    both = {n: matrices(comm, n) for n in (0, 1, 5, 700)}
    for n, mine in both.items():
        got = np.zeros_like(mine)
        for root in range(p):
            yield (
                f"Reduce {n} at {root}",
                lambda mine=mine, got=got, root=root: (comm.Reduce(mine, got, times, root), got.copy()),
            )
        yield f"Allreduce {n}", lambda mine=mine, got=got: (comm.Allreduce(mine, got, times), got.copy())
        yield f"Scan {n}", lambda mine=mine, got=got: (comm.Scan(mine, got, times), got.copy())
        got[:] = 0
        yield f"Exscan {n}", lambda mine=mine, got=got: (comm.Exscan(mine, got, times), got.copy())
    for n in (0, 1, 5, 300):
        mine, got = matrices(comm, n * p), np.zeros((n, 2, 2), np.int64)
        yield (
            f"Reduce_scatter_block {n}",
            lambda mine=mine, got=got: (comm.Reduce_scatter_block(mine, got, times), got),
        )
    for counts in ([4 * (k % 3) for k in range(p)], [0] * p, [400 if k == p - 1 else 0 for k in range(p)]):
        mine = matrices(comm, sum(counts) // 4)
        got = np.zeros(counts[me], np.int64)
        yield (
            f"Reduce_scatter {counts}",
            lambda mine=mine, got=got, counts=counts: (
                comm.Reduce_scatter(mine, got, counts, times),
                got,
            ),
        )
    yield "commutes", lambda: (times.Is_commutative(), times.is_commutative, times.is_predefined)
    yield "freed", lambda: (times.Free(), times == MPI.OP_NULL)


@case
def text_is_joined_in_order(comm):
    text = "abcdefghij"[comm.rank % 10] * (comm.rank + 1)
    join = MPI.Op.Create(lambda a, b, datatype=None: a + b, commute=False)
    for name, op in (("function", lambda a, b: a + b), ("SUM", MPI.SUM), ("Op", join)):
        yield f"reduce {name}", lambda op=op: [comm.reduce(text, op, root) for root in range(comm.size)]
        yield f"allreduce {name}", lambda op=op: comm.allreduce(text, op)
        yield f"scan {name}", lambda op=op: comm.scan(text, op)
        yield f"exscan {name}", lambda op=op: comm.exscan(text, op)


@case
def reduce_scatter_forms(comm):
    p, me = comm.size, comm.rank
    x = np.arange(3 * p, dtype=np.int32) + me
    out = functools.partial(np.full, 3, -1, np.int32)
    yield "block", lambda: (b := out(), comm.Reduce_scatter_block(x, b))
    yield "block keywords", lambda: (b := out(), comm.Reduce_scatter_block(sendbuf=x, recvbuf=b, op=MPI.MAX))
    yield "block in place", lambda: (b := x.copy(), comm.Reduce_scatter_block(MPI.IN_PLACE, b))[0][:3]
    yield "block lists", lambda: (b := out(), comm.Reduce_scatter_block([x, MPI.INT], [b, MPI.INT]))
    yield (
        "block counts",
        lambda: (b := out(), comm.Reduce_scatter_block([x, 2, MPI.INT], [b, 2, MPI.INT])),
    )
    yield "block of nothing", lambda: comm.Reduce_scatter_block(x[:0], out()[:0])
    yield "equal counts", lambda: (b := out(), comm.Reduce_scatter(x, b, [3] * p))
    yield "counts asked", lambda: (b := out(), comm.Reduce_scatter(x, b))
    yield "tuple", lambda: (b := out(), comm.Reduce_scatter(x, b, (3,) * p, MPI.PROD))
    yield "array of counts", lambda: (b := out(), comm.Reduce_scatter(x, b, np.full(p, 3)))
    ragged = list(range(p))
    y = np.arange(sum(ragged), dtype=float) * (me + 1)
    yield "ragged", lambda: (b := np.zeros(me), comm.Reduce_scatter(y, b, ragged))
    yield "ragged asked", lambda: (b := np.zeros(me), comm.Reduce_scatter(y, b))
    yield (
        "in place",
        lambda: (b := y.copy(), comm.Reduce_scatter(MPI.IN_PLACE, b, ragged))[0][:me],
    )
    yield "in place without counts", lambda: comm.Reduce_scatter(MPI.IN_PLACE, y.copy())
    yield "wrong sum", lambda: comm.Reduce_scatter(x, out(), [4] * p)
    yield "wrong own count", lambda: comm.Reduce_scatter(x, out()[:2], [3] * p)
    yield "too few counts", lambda: comm.Reduce_scatter(x, out(), [3] * (p - 1))
    yield "other types", lambda: comm.Reduce_scatter_block(x, np.zeros(3))
    yield "other counts", lambda: comm.Reduce_scatter_block(x, np.zeros(4, np.int32))
    yield "no block", lambda: comm.Reduce_scatter_block(np.zeros(p + 1), np.zeros(1)) if p > 1 else None
    yield "not an operator", lambda: comm.Reduce_scatter_block(x, out(), op=5)
    yield "no lower case", lambda: comm.reduce_scatter


PREDEFINED = ["MAX", "MIN", "SUM", "PROD", "LAND", "BAND", "LOR", "BOR", "LXOR", "BXOR"]


@case
def every_predefined_operator(comm):
    p, me = comm.size, comm.rank
    for dtype in ("i4", "u1", "i8", "f8", "?", "c16"):
        x = (np.arange(2 * p) + 3 * me + 1).astype(dtype)
        for name in PREDEFINED:
            is_logical = name[0] == "L"
            if (dtype in ("f8", "c16") and (name[0] in "LB")) or (dtype == "c16" and name[0] == "M"):
                continue  # MPI does not define these; its implementations differ in what they do
            if dtype == "?" and not is_logical:
                continue
            op = getattr(MPI, name)
            got = np.zeros(2, dtype)
            yield f"{name} {dtype}", lambda x=x, got=got, op=op: (comm.Reduce_scatter_block(x, got, op), got)
    pairs = np.zeros(p, "f8,i4")
    pairs["f0"], pairs["f1"] = np.arange(p) % 2, me
    for op in (MPI.MAXLOC, MPI.MINLOC):
        got = np.zeros(1, "f8,i4")
        yield (
            f"pairs {op == MPI.MAXLOC}",
            lambda op=op, got=got: (
                comm.Reduce_scatter_block([pairs, MPI.DOUBLE_INT], [got, MPI.DOUBLE_INT], op),
                got["f0"],
                got["f1"],
            ),
        )


#: two elements of every predefined type, of true and false values
TWO = np.tile(np.array([1, 0, 0, 0, 0, 0, 0, 0], np.uint8), 8), np.tile(np.array([0, 0, 1, 0], np.uint8), 16)


@case
def operators_that_types_have(comm):
    """By Reduce_local and, for those of which a window changes the target, by Accumulate."""
    window = MPI.Win.Allocate(64, comm=MPI.COMM_SELF)
    for name in [name for name in dir(MPI) if isinstance(getattr(MPI, name), MPI.Datatype)]:
        kind = getattr(MPI, name)
        if kind == MPI.DATATYPE_NULL or name == "COMPLEX32":  # Open MPI has no accumulates of it
            continue
        for operator in (*PREDEFINED, "MAXLOC", "MINLOC", "REPLACE", "NO_OP"):
            op, left, right = getattr(MPI, operator), TWO[0].copy(), TWO[1].copy()
            yield (
                f"{operator} {name}",
                lambda op=op, kind=kind, left=left, right=right: op.Reduce_local(
                    [left, 2, kind], [right, 2, kind]
                ),
            )
            is_long = "LONG_DOUBLE" in name or name == "REAL16"
            if not is_long and kind.Get_size() == kind.extent:  # all of its bytes have a meaning
                yield f"result of {operator} {name}", lambda right=right: right
            window.Fence()
            yield (
                f"{operator} {name} at a target",
                lambda op=op, kind=kind, left=left: window.Accumulate([left, 1, kind], 0, op=op),
            )
            window.Fence()
    window.Free()
