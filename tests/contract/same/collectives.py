"""What mpi4py accepts and refuses in detail, of collectives on buffers and on objects."""

from __future__ import annotations

import functools

import numpy as np

from labkit import MPI
from tests.support.same import Table

CASES = Table(ranks=(1, 2, 4))
case = CASES.case


@case
def collective_forms(comm):
    p, me = comm.size, comm.rank
    x = np.arange(4, dtype=np.int32) + me
    out = functools.partial(np.full, 4 * p, -1, np.int32)
    last = p - 1
    yield "Bcast of a strided array", lambda: comm.Bcast(np.zeros(8)[::2])
    yield "Bcast with a count", lambda: (b := x.copy(), comm.Bcast([b, 2, MPI.INT], last))[0]
    yield "Bcast of 0-d", lambda: (b := np.array(float(me)), comm.Bcast(b, last))[0]
    yield "Bcast of nothing", lambda: comm.Bcast(np.zeros(0))
    yield "Allgather forms", lambda: (b := out(), comm.Allgather([x, MPI.INT], [b, MPI.INT]))[0]
    yield "Allgather count", lambda: (b := out(), comm.Allgather([x, 2, MPI.INT], [b, 2, MPI.INT]))[0]
    yield (
        "Allgather in place",
        lambda: (b := out(), b.__setitem__(slice(4 * me, 4 * me + 4), x), comm.Allgather(MPI.IN_PLACE, b))[0],
    )
    yield (
        "Allgather None in place",
        lambda: (b := out(), b.__setitem__(slice(4 * me, 4 * me + 4), x), comm.Allgather(None, b))[0],
    )
    yield "Gather at the last", lambda: (b := out(), comm.Gather(x, b if me == last else None, last))[0]
    yield "Gather in place", lambda: (b := out(), comm.Gather(MPI.IN_PLACE if me == 0 else x, b, 0))[0]
    yield (
        "Scatter in place",
        lambda: (
            b := out(),
            b.__setitem__(slice(None), range(4 * p)),
            comm.Scatter(b if me == 0 else None, MPI.IN_PLACE if me == 0 else b[:4], 0),
        )[0][:4],
    )
    yield "Alltoall in place", lambda: (b := np.arange(4 * p) + 100 * me, comm.Alltoall(MPI.IN_PLACE, b))[0]
    yield "Alltoall count", lambda: (b := out(), comm.Alltoall([out() + me, 2, MPI.INT], [b, 2, MPI.INT]))[0]
    yield (
        "Reduce in place",
        lambda: (
            (b := x.copy(), comm.Reduce(MPI.IN_PLACE if me == 0 else b, b, MPI.SUM, 0))[0]
            if me == 0
            else comm.Reduce(x, None, MPI.SUM, 0)
        ),
    )
    yield "Scan in place", lambda: (b := x.copy(), comm.Scan(MPI.IN_PLACE, b))[0]
    yield (
        "Exscan in place",
        lambda: (
            (b := x.copy(), comm.Exscan(MPI.IN_PLACE, b))[0]
            if me
            else comm.Exscan(x.copy(), np.zeros(4, np.int32))
        ),
    )
    yield "Allreduce of 0-d", lambda: (b := np.array(0), comm.Allreduce(np.array(me), b))[0]
    yield "Allreduce empty", lambda: comm.Allreduce(np.zeros(0), np.zeros(0))
    yield "Allreduce with lengths that differ", lambda: comm.Allreduce(x, np.zeros(3, np.int32))
    yield "Allreduce with types that differ", lambda: comm.Allreduce(x, np.zeros(4))
    yield "Allreduce of a strided array", lambda: comm.Allreduce(np.zeros(8)[::2], np.zeros(4))
    yield (
        "Allreduce of bools",
        lambda: [
            (b := np.zeros(2, bool), comm.Allreduce(np.array([me == 0, True]), b, op))[0]
            for op in (MPI.LAND, MPI.LOR, MPI.LXOR)
        ],
    )
    yield (
        "Allreduce of bits",
        lambda: [
            (b := np.zeros(1, np.uint8), comm.Allreduce(np.array([me + 1], np.uint8), b, op))[0]
            for op in (MPI.BAND, MPI.BOR, MPI.BXOR)
        ],
    )
    yield (
        "Allreduce of byte sums",
        lambda: (b := np.zeros(1, np.int8), comm.Allreduce(np.array([100], np.int8), b))[0],
    )
    yield "bits of floats", lambda: comm.Allreduce(np.zeros(1), np.zeros(1), MPI.BAND)
    yield "largest complex", lambda: comm.Allreduce(np.zeros(1, complex), np.zeros(1, complex), MPI.MAX)
    yield "null operator", lambda: comm.Allreduce(x, x.copy(), MPI.OP_NULL)
    yield "not an operator", lambda: comm.Allreduce(x, x.copy(), max)
    yield "Allreduce in place None", lambda: (b := x.copy(), comm.Allreduce(None, b))[0]
    yield (
        "MAXLOC pairs",
        lambda: (
            b := np.zeros(1, "f8,i4"),
            comm.Allreduce(
                [np.array([(me % 2, me)], "f8,i4"), MPI.DOUBLE_INT], [b, MPI.DOUBLE_INT], MPI.MAXLOC
            ),
            b.tolist(),
        )[2],
    )
    yield (
        "MINLOC of two ints",
        lambda: (
            b := np.zeros(2, "i4"),
            comm.Allreduce([np.array([me % 2, me], "i4"), 1, MPI.INT_INT], [b, 1, MPI.INT_INT], MPI.MINLOC),
        )[0],
    )
    yield (
        "float sums are ordered alike",
        lambda: round((b := np.zeros(1), comm.Allreduce(np.array([0.1 * me]), b))[0][0], 12),
    )


@case
def where_the_data_lie(comm):
    p, me = comm.size, comm.rank
    x, all_ = np.arange(6.0) + me, functools.partial(np.full, 8 * p, -1.0)
    yield "behind others", lambda: (b := x.copy(), comm.Bcast([b, (2, 3), MPI.DOUBLE]))[0]
    yield (
        "blocks behind others",
        lambda: (
            b := all_(),
            comm.Gather([x, 2, 1, MPI.DOUBLE], [b, (2, 3), MPI.DOUBLE] if me == 0 else None),
        )[0],
    )
    yield (
        "by columns",
        lambda: (b := np.full((2, 3 * p), -1.0).T, comm.Allgather(np.asfortranarray(x.reshape(2, 3)), b))[0],
    )
    yield "unchangeable", lambda: (b := b"abcdefg" if me == 0 else bytearray(7), comm.Bcast(b))[0]
    yield (
        "taken for others at the root",
        lambda: (b := np.zeros((p, 6), np.int64 if me == 0 else float), comm.Gather(x, b))[0].view(float),
    )


@case
def vector_forms(comm):
    p, me = comm.size, comm.rank
    counts = [k + 1 for k in range(p)]
    offsets = [sum(counts[:k]) for k in range(p)]
    total = sum(counts)
    mine = np.full(me + 1, me, np.int32)
    out = functools.partial(np.full, total + 3, -1, np.int32)
    for name, form in {
        "counts": lambda b: [b, counts],
        "counts and type": lambda b: [b, counts, MPI.INT],
        "pair": lambda b: [b, (counts, offsets)],
        "pair and type": lambda b: [b, (counts, offsets), MPI.INT],
        "four": lambda b: [b, counts, offsets, MPI.INT],
        "arrays": lambda b: [b, np.array(counts), np.array(offsets, np.int32), "i"],
        "counts, None": lambda b: [b, (counts, None), MPI.INT],
        "turned round": lambda b: [
            b,
            (counts, [total - o - c for o, c in zip(offsets, counts, strict=True)]),
            MPI.INT,
        ],
    }.items():
        yield f"Allgatherv {name}", lambda form=form: (b := out(), comm.Allgatherv(mine, form(b)))[0]
        yield (
            f"Gatherv {name}",
            lambda form=form: (b := out(), comm.Gatherv(mine, form(b) if me == 0 else None, 0))[0],
        )
        yield (
            f"Scatterv {name}",
            lambda form=form: (
                b := mine - 1,
                comm.Scatterv(form(np.arange(total, dtype="i4")) if me == 0 else None, b, 0),
            )[0],
        )
    yield (
        "even",
        lambda: (b := np.full(2 * p + 1, -1), comm.Allgatherv(np.full(3 if me == 0 else 2, me), b))[0],
    )
    yield "too few counts", lambda: comm.Allgatherv(mine, [out(), counts[:-1], MPI.INT]) if p > 1 else None
    yield (
        "Alltoallv",
        lambda: (
            b := np.full(p * (me + 1), -1, np.int32),
            comm.Alltoallv([np.arange(total, dtype=np.int32) + 100 * me, counts], [b, [me + 1] * p]),
        )[0],
    )
    yield "Alltoallv zero", lambda: (b := np.zeros(0), comm.Alltoallv([b, [0] * p], [b.copy(), [0] * p]))[0]
    yield (
        "Gatherv in place",
        lambda: (
            b := out(),
            b.__setitem__(0, 42),
            comm.Gatherv(MPI.IN_PLACE if me == 0 else mine, [b, counts] if me == 0 else None, 0),
        )[0],
    )
    yield (
        "Allgatherv in place",
        lambda: (
            b := out(),
            b.__setitem__(slice(offsets[me], offsets[me] + me + 1), me),
            comm.Allgatherv(MPI.IN_PLACE, [b, counts]),
        )[0],
    )


@case
def more_room_than_needed(comm):
    p, me = comm.size, comm.rank
    mine, everything = np.arange(2.0) + 10 * me, np.arange(2.0 * p)
    for root in range(p):
        send = [everything, [2] * p] if me == root else None
        yield (
            f"Scatterv {root}",
            lambda send=send, root=root: (b := np.full(3, -1.0), comm.Scatterv(send, b, root))[0],
        )
        out = np.full(3 * p, -1.0)
        receive = [out, [3] * p] if me == root else None
        yield (
            f"Gatherv {root}",
            lambda receive=receive, root=root, out=out: (comm.Gatherv(mine, receive, root), out),
        )


@case
def object_collectives(comm):
    p, me = comm.size, comm.rank
    yield (
        "None",
        lambda: (comm.bcast(None), comm.gather(None), comm.allgather(None), comm.alltoall([None] * p)),
    )
    yield "too few to scatter", lambda: comm.scatter([1] * (p + 1)) if me == 0 and p == 1 else None
    yield "too few for all", lambda: comm.alltoall([1] * (p + 1))
    yield "arrays", lambda: comm.allgather(np.arange(me))
    yield "sum of lists", lambda: comm.allreduce([me])
    yield "sum of arrays", lambda: comm.allreduce(np.full(2, me))
    yield "largest text", lambda: comm.allreduce(str(me), MPI.MAX)
    yield "logical", lambda: [comm.allreduce(me, op) for op in (MPI.LAND, MPI.LOR, MPI.LXOR)]
    yield "sets", lambda: comm.allreduce({me}, MPI.BOR)
    yield "scan of text", lambda: (comm.scan(str(me)), comm.exscan(str(me)))
    yield "function", lambda: comm.allreduce(me, lambda a, b: max(a, b) + 1)
    yield "generator", lambda: comm.scatter(range(p) if me == 0 else None)
    yield "big", lambda: len(comm.bcast("x" * 300_000 if me == 0 else None))
    yield "not an operator", lambda: comm.allreduce(me, 5) if p == 1 else None
