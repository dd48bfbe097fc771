"""What mpi4py accepts and refuses in detail: list forms, odd arrays, statuses, requests, constants, error classes.

Every case yields (what, call) attempts; what an attempt gives or raises must be the same on both machines:
the result itself, or the exception's class and, for MPI's own, its error class. All run in one launch.
"""

# ruff: noqa: E501 - a line is an attempt
from __future__ import annotations

import array
import functools

import numpy as np
import pytest

import labkit as lk
from labkit import MPI

pytestmark = pytest.mark.mpi

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def plain(value):
    """Return a value that both machines can give alike."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tolist()
    if isinstance(value, MPI.Status):
        return value.source, value.tag, value.Get_count(MPI.BYTE), value.Get_error(), value.Is_cancelled()
    if isinstance(value, tuple | list):
        return type(value)(plain(item) for item in value)
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | dict | set):
        return value
    return type(value).__name__


def attempt(call):
    try:
        return plain(call())
    except MPI.Exception as error:
        return "MPI.Exception", error.Get_error_class()
    except Exception as error:
        return (type(error).__name__,)


# -- buffers to oneself -----------------------------------------------------------------------------------


def to_oneself(comm, send, receive):
    """Send to oneself; what arrived, and its size."""
    status = MPI.Status()
    request = comm.Irecv(receive, comm.rank, 1)
    try:
        comm.Send(send, comm.rank, 1)
    except BaseException:
        request.Cancel()
        request.Wait()
        raise
    request.Wait(status)
    first = receive[0] if isinstance(receive, list | tuple) else receive
    return first if first is None or isinstance(first, np.ndarray) else bytes(first), status


def readonly(values):
    values.flags.writeable = False
    return values


@case
def buffers(comm):
    numbers = np.arange(12, dtype=np.int32)
    table = np.arange(12.0).reshape(3, 4)
    yield "0-d", lambda: to_oneself(comm, np.array(3.5), np.array(0.0))
    yield "0-d into 1-d", lambda: to_oneself(comm, np.array(3.5), np.zeros(2))
    yield "empty", lambda: to_oneself(comm, np.zeros(0), np.zeros(0))
    yield "empty into more", lambda: to_oneself(comm, np.zeros((0, 5)), np.ones(2))
    yield "numpy scalar", lambda: to_oneself(comm, np.float64(2.5), np.zeros(1))
    yield "strided source", lambda: to_oneself(comm, numbers[::2], np.zeros(6, np.int32))
    yield "strided target", lambda: to_oneself(comm, numbers, np.zeros(24, np.int32)[::2])
    yield "reversed", lambda: to_oneself(comm, numbers[::-1], np.zeros(12, np.int32))
    yield "fortran source", lambda: to_oneself(comm, np.asfortranarray(table), np.zeros(12))
    yield "fortran target", lambda: to_oneself(comm, table, np.zeros((3, 4), order="F"))
    yield "transposed", lambda: to_oneself(comm, table.T, np.zeros(12))
    yield "column", lambda: to_oneself(comm, table[:, 1], np.zeros(3))
    yield "row", lambda: to_oneself(comm, table[1], np.zeros(4))
    yield "read-only source", lambda: to_oneself(comm, readonly(np.arange(3.0)), np.zeros(3))
    yield "read-only target", lambda: to_oneself(comm, np.arange(3.0), readonly(np.zeros(3)))
    yield "bytes", lambda: to_oneself(comm, b"hello", bytearray(5))
    yield "bytes as target", lambda: to_oneself(comm, b"hello", b"world")
    yield "bytearray", lambda: to_oneself(comm, bytearray(b"hello"), bytearray(8))
    yield "memoryview", lambda: to_oneself(comm, memoryview(b"hello")[1:3], bytearray(2))
    yield "array.array", lambda: to_oneself(comm, array.array("d", [1, 2]), array.array("d", [0, 0]))
    yield "str", lambda: to_oneself(comm, "hello", bytearray(8))
    yield "int", lambda: to_oneself(comm, 5, bytearray(8))
    yield "list of numbers", lambda: to_oneself(comm, [1.0, 2.0], bytearray(16))
    yield "None", lambda: to_oneself(comm, None, bytearray(8))
    yield "objects", lambda: to_oneself(comm, np.array([1, "a"], dtype=object), bytearray(16))
    yield "text array", lambda: to_oneself(comm, np.array(["ab"]), bytearray(8))
    yield "byte strings", lambda: to_oneself(comm, np.array([b"ab", b"cd"]), bytearray(4))
    yield "dates", lambda: to_oneself(comm, np.array(["2013-01-01"], dtype="M8[D]"), np.zeros(1, "M8[D]"))
    yield "record", lambda: to_oneself(comm, np.zeros(2, dtype="i4,f8"), np.zeros(2, dtype="i4,f8"))
    yield "pair record", lambda: to_oneself(comm, np.ones(2, dtype="f8,i4"), np.zeros(2, dtype="f8,i4"))
    yield "swapped bytes", lambda: to_oneself(comm, numbers.astype(">i4"), np.zeros(12, ">i4"))
    yield "half", lambda: to_oneself(comm, np.ones(2, np.float16), np.zeros(2, np.float16))
    yield "long double", lambda: to_oneself(comm, np.ones(2, np.longdouble), np.zeros(2, np.longdouble))
    yield "bool", lambda: to_oneself(comm, np.array([True, False]), np.zeros(2, bool))
    yield "complex64", lambda: to_oneself(comm, np.ones(2, np.complex64) * 1j, np.zeros(2, np.complex64))
    yield "other type of target", lambda: to_oneself(comm, np.arange(2, dtype=np.int64), np.zeros(2))
    yield "shorter", lambda: to_oneself(comm, np.arange(2.0), np.full(4, 9.0))


@case
def list_forms(comm):
    data = np.arange(10, dtype=np.int32)
    room = functools.partial(np.full, 10, -1, np.int32)
    for name, send in {
        "buffer": data,
        "type": [data, MPI.INT],
        "text type": [data, "i"],
        "long text type": [data, "i4"],
        "unknown text type": [data, "no such type"],
        "count": [data, 3],
        "count and type": [data, 3, MPI.INT],
        "count None": [data, None],
        "count None and type": [data, None, MPI.INT],
        "type None": [data, 3, None],
        "tuple": (data, 3, MPI.INT),
        "count and displacement": [data, (3, 2), MPI.INT],
        "without type": [data, (3, 2)],
        "count None and displacement": [data, (None, 4), MPI.INT],
        "list count and displacement": [data, [3, 2], MPI.INT],
        "four": [data, 3, 2, MPI.INT],
        "four with None": [data, None, 2, MPI.INT],
        "numpy count": [data, np.int64(3), MPI.INT],
        "float count": [data, 3.0, MPI.INT],
        "count 0": [data, 0],
        "negative count": [data, -1],
        "displacement beyond": [data, (None, 11), MPI.INT],
        "negative displacement": [data, (2, -1), MPI.INT],
        "smaller type": [data, 6, MPI.SHORT],
        "bytes": [data, MPI.BYTE],
        "wider type": [data, MPI.DOUBLE],
        "type that does not fit": [data[:3], MPI.DOUBLE],
        "null type": [data, MPI.DATATYPE_NULL],
        "one item": [data],
        "no item": [],
        "five items": [data, 1, 2, MPI.INT, 5],
        "None": [None, 0, MPI.INT],
        "None with a count": [None, 2, MPI.INT],
        "None without count": [None, MPI.INT],
        "type first": [MPI.INT, data],
        "dtype": [data, np.dtype("i4")],
    }.items():
        yield f"send {name}", lambda send=send: to_oneself(comm, send, room())
        if not (isinstance(send, list | tuple) and len(send) and send[0] is data):
            continue
        receive = [room(), *send[1:]]
        yield f"receive {name}", lambda receive=receive: to_oneself(comm, data[:2], receive)


# -- ranks, tags, roots -----------------------------------------------------------------------------------


@case
def addresses(comm):
    p, me, x = comm.size, comm.rank, np.zeros(1)
    for name, peer in {"p": p, "-1": -1, "-3": -3, "-7": -7, "big": 10**6}.items():
        yield f"Send to {name}", lambda peer=peer: comm.Send(x, peer)
        yield f"Isend to {name}", lambda peer=peer: comm.Isend(x, peer)
    for name, peer in {"p": p, "-9": -9, "big": 10**6}.items():
        yield f"Recv from {name}", lambda peer=peer: comm.Recv(x, peer)
        yield f"recv from {name}", lambda peer=peer: comm.recv(source=peer)
        yield f"Irecv from {name}", lambda peer=peer: comm.Irecv(x, peer)
        yield f"irecv from {name}", lambda peer=peer: comm.irecv(source=peer)
        yield f"Probe from {name}", lambda peer=peer: comm.Probe(peer)
        yield f"Iprobe from {name}", lambda peer=peer: comm.Iprobe(peer)
    yield "huge rank", lambda: comm.Send(x, 2**40)
    yield "float rank", lambda: comm.Send(x, float(MPI.PROC_NULL))
    yield "text rank", lambda: comm.Send(x, "0")
    yield "None as rank", lambda: comm.Send(x, None)
    yield "None as source", lambda: comm.Recv(x, None)
    yield "numpy rank", lambda: comm.sendrecv(me, dest=np.int32(me), source=np.int64(me))
    yield "bool rank", lambda: comm.send(1, dest=MPI.PROC_NULL, tag=True)
    for tag in (-1, -2, -100):
        yield f"Send with tag {tag}", lambda tag=tag: comm.Send(x, me, tag)
        yield f"send with tag {tag}", lambda tag=tag: comm.send(1, me, tag)
    yield "Recv with tag -2", lambda: comm.Recv(x, me, -2)
    yield "tag beyond int", lambda: comm.Send(x, me, 2**31)
    yield "float tag", lambda: comm.sendrecv(5, me, 1.5, None, me, 1)
    yield "largest tag", lambda: comm.sendrecv(7, me, 2**31 - 1, None, me, 2**31 - 1)
    yield "missing arguments", lambda: comm.Send()
    yield "missing destination", lambda: comm.Send(x)
    yield "unknown keyword", lambda: comm.Send(x, dest=me, tags=1)
    yield "twice", lambda: comm.Send(x, me, dest=me)
    yield "too many", lambda: comm.Send(x, me, 1, 2, 3)
    yield "status of another kind", lambda: comm.Probe(me, 1, 5)
    for root in (p, -1, -2, 10**6):
        yield f"Bcast root {root}", lambda root=root: comm.Bcast(x, root)
        yield f"bcast root {root}", lambda root=root: comm.bcast(1, root)
        yield f"gather root {root}", lambda root=root: comm.gather(1, root)
        yield f"Reduce root {root}", lambda root=root: comm.Reduce(x, np.zeros(1), MPI.SUM, root)
        yield f"reduce root {root}", lambda root=root: comm.reduce(1, MPI.SUM, root)
        yield f"scatter root {root}", lambda root=root: comm.scatter([1] * p, root)
    yield "float root", lambda: comm.Bcast(x, 0.0)


@case
def nobody(comm):
    null, x, status = MPI.PROC_NULL, np.full(3, 5.0), MPI.Status()
    yield "Send", lambda: comm.Send(x, null)
    yield "Ssend", lambda: comm.Ssend(x, null)
    yield "Recv", lambda: (comm.Recv(x, null, 3, status), x, status)
    yield "recv", lambda: (comm.recv(None, null, 3, status), status)
    yield "Probe", lambda: (comm.Probe(null, 3, status), status)
    yield "Iprobe", lambda: (comm.Iprobe(null, 3, status), status)
    yield "Isend", lambda: comm.Isend(x, null).Wait(status)
    yield "Irecv", lambda: (comm.Irecv(x, null).Wait(status), status)
    yield "irecv", lambda: (comm.irecv(source=null).wait(status), status)
    yield "test", lambda: comm.irecv(source=null).test()
    yield "isend", lambda: comm.isend(1, null).wait()
    yield "Sendrecv", lambda: (comm.Sendrecv(x, null, 1, x, null, 2, status), x, status)
    yield "sendrecv", lambda: comm.sendrecv(5, null, source=null)
    yield (
        "half of a Sendrecv",
        lambda: (comm.Isend(x, comm.rank), comm.Sendrecv(x, null, 0, x, comm.rank, 0, status), status)[1:],
    )
    yield "bad buffer", lambda: comm.Send(object(), null)
    yield "bad tag", lambda: comm.Send(x, null, -5)


# -- statuses and requests --------------------------------------------------------------------------------


@case
def statuses(comm):
    me, status = comm.rank, MPI.Status()
    yield "new", lambda: status
    yield "count of", lambda: [status.Get_count(t) for t in (MPI.INT, MPI.DOUBLE)]
    yield "elements", lambda: status.Get_elements(MPI.INT)
    comm.Send(np.arange(7, dtype=np.int16), me, 4)
    yield "probed", lambda: (comm.Probe(MPI.ANY_SOURCE, MPI.ANY_TAG, status), status)
    yield "counts", lambda: [status.Get_count(t) for t in (MPI.BYTE, MPI.SHORT, MPI.CHAR)]
    yield "no whole count", lambda: status.Get_count(MPI.INT) == MPI.UNDEFINED
    yield "properties", lambda: (status.source, status.tag, status.count, status.error, status.cancelled)
    yield "setting", lambda: (status.Set_source(3), status.Set_tag(9), status.Set_error(0), status)
    yield "attributes", lambda: (setattr(status, "source", 1), setattr(status, "tag", 2), status)
    yield "copy", lambda: MPI.Status(status)
    yield "equal", lambda: MPI.Status(status) == status
    got = np.zeros(7, np.int16)
    yield "received", lambda: (comm.Recv(got, status=status), got, status)
    yield "test", lambda: comm.Isend(np.zeros(1), MPI.PROC_NULL).Test(status)


@case
def requests(comm):
    me = comm.rank
    null = MPI.REQUEST_NULL
    yield "null Wait", lambda: (null.Wait(), null.Test(), null.wait(), null.test())
    yield "null status", lambda: (status := MPI.Status(), null.Wait(status), status)[::2]
    yield "null Cancel", lambda: null.Cancel()
    yield "null Free", lambda: null.Free()
    yield "null is false", lambda: (bool(null), MPI.Request() == null, null != null)
    yield "no requests", lambda: MPI.Request.Waitall([])
    yield "none of any", lambda: MPI.Request.Waitany([]) == MPI.UNDEFINED
    yield "none of some", lambda: MPI.Request.Waitsome([])
    yield (
        "none tested",
        lambda: (MPI.Request.Testall([]), MPI.Request.Testany([])[1], MPI.Request.Testsome([])),
    )
    yield "objects none", lambda: (MPI.Request.waitall([]), MPI.Request.testall([]), MPI.Request.waitsome([]))
    yield "nulls", lambda: (MPI.Request.Waitall([null, null]), MPI.Request.Testsome([null, null]))
    yield "nulls objects", lambda: (MPI.Request.waitall([null, null]), MPI.Request.waitany([null])[1])
    yield "not requests", lambda: MPI.Request.Waitall([1, 2])
    yield "one request", lambda: MPI.Request.Waitall(null)

    def several(method, *arguments):
        data = [np.zeros(2) for _ in range(3)]
        receives = [comm.Irecv(data[k], me, k) for k in range(3)]
        for k in (2, 0, 1):
            comm.Send(np.full(1 + k % 2, float(k)), me, k)
        found = getattr(MPI.Request, method)(receives, *arguments)
        rest = MPI.Request.Waitall(receives)
        return found, rest, [bool(request) for request in receives], data

    yield "Waitall", lambda: several("Waitall")
    yield (
        "Waitall statuses",
        lambda: (statuses := [MPI.Status() for _ in range(3)], several("Waitall", statuses), statuses)[1:],
    )
    yield "statuses from none", lambda: (statuses := [], several("Waitall", statuses), statuses)[1:]
    yield "too few statuses", lambda: (statuses := [MPI.Status()], several("Waitall", statuses), statuses)[1:]
    yield "Waitany", lambda: several("Waitany")[1:]

    def objects(method):
        receives = [comm.irecv(source=me, tag=k) for k in range(3)]
        for k in (2, 0, 1):
            comm.send({"k": k}, me, k)
        found = getattr(MPI.Request, method)(receives)
        rest = MPI.Request.waitall(receives)
        return found, rest

    yield "waitall", lambda: objects("waitall")
    yield (
        "wait twice",
        lambda: (r := comm.irecv(source=me), comm.send(5, me), r.wait(), r.wait(), r.test())[2:],
    )
    yield "Wait on irecv", lambda: (r := comm.irecv(source=me), comm.send(5, me), r.Wait())[2:]
    yield (
        "wait on Irecv",
        lambda: (x := np.zeros(1), r := comm.Irecv(x, me), comm.Send(x + 1, me), r.wait(), x)[3:],
    )
    yield "wait on isend", lambda: (r := comm.isend(3, me), comm.recv(source=me), r.wait(), r.wait())[1:]
    yield (
        "cancelled",
        lambda: (
            s := MPI.Status(),
            r := comm.Irecv(np.zeros(1), me, 77),
            r.Cancel(),
            r.Wait(s),
            s.Is_cancelled(),
        )[2:],
    )
    yield (
        "get_status",
        lambda: (
            r := comm.Irecv(x := np.zeros(1), me, 7),
            r.Get_status(),
            comm.Send(x + 1, me, 7),
            r.Wait(),
            x,
        )[1:],
    )
    yield "freed", lambda: (r := comm.Isend(np.zeros(1), MPI.PROC_NULL), r.Free(), r == null)[1:]
    yield (
        "irecv into a buffer",
        lambda: (r := comm.irecv(bytearray(100), me), comm.send([1, 2], me), r.wait())[2],
    )
    yield "recv into a buffer", lambda: (comm.send([1, 2], me), comm.recv(bytearray(100), me))[1]


@case
def matched_probes(comm):
    me, status = comm.rank, MPI.Status()
    yield "none yet", lambda: (comm.Iprobe(me, 5), comm.iprobe(me, 5))
    comm.send("first", me, 5)
    comm.send("second", me, 6)
    yield "there", lambda: (comm.Iprobe(me, 6, status), status.source, status.tag)
    yield "in order", lambda: (comm.probe(MPI.ANY_SOURCE, MPI.ANY_TAG, status), status.tag)
    yield "message", lambda: comm.mprobe(me, 6, status).recv()
    yield "left", lambda: (comm.iprobe(me, 6), comm.recv(source=me))


# -- collectives ------------------------------------------------------------------------------------------


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


@case
def constants(comm):
    yield "signs", lambda: [getattr(MPI, n) < 0 for n in ("ANY_SOURCE", "ANY_TAG", "PROC_NULL", "UNDEFINED")]
    yield "differ", lambda: len({MPI.ANY_SOURCE, MPI.PROC_NULL, MPI.ROOT}) == 3
    yield (
        "sizes",
        lambda: [t.Get_size() for t in (MPI.INT, MPI.DOUBLE, MPI.BYTE, MPI.LONG, MPI.DOUBLE_INT, MPI.BOOL)],
    )
    yield "extents", lambda: [t.Get_extent() for t in (MPI.INT, MPI.DOUBLE_INT, MPI.INT_INT)]
    yield "names", lambda: [t.Get_name() for t in (MPI.INT, MPI.DOUBLE, MPI.BYTE)]
    yield (
        "operators",
        lambda: [op(3, 5) for op in (MPI.SUM, MPI.PROD, MPI.MAX, MPI.MIN, MPI.BAND, MPI.BOR, MPI.BXOR)],
    )
    yield "logical", lambda: [op(3, 0) for op in (MPI.LAND, MPI.LOR, MPI.LXOR)]
    yield "pairs", lambda: (MPI.MAXLOC((1, 4), (1, 2)), MPI.MINLOC((1, 4), (2, 0)))
    yield "commutative", lambda: (MPI.SUM.Is_commutative(), MPI.SUM.is_predefined)
    yield "operators on arrays", lambda: MPI.MAX(np.array([1, 5]), np.array([4, 2]))
    yield "compare", lambda: (comm == MPI.COMM_NULL, comm == comm, bool(MPI.COMM_NULL), bool(comm))
    yield "null communicator", lambda: MPI.COMM_NULL.Get_rank()
    yield "self", lambda: (MPI.COMM_SELF.rank, MPI.COMM_SELF.size, MPI.COMM_SELF.allreduce(3))
    yield "group", lambda: (comm.Get_rank(), comm.Get_size(), comm.rank, comm.size)
    yield "initialised", lambda: (MPI.Is_initialized(), MPI.Is_finalized())
    yield "dtypes", lambda: [MPI.Datatype.fromcode(c).Get_size() for c in ("i", "d", "l")]
    yield "class of errors", lambda: issubclass(MPI.Exception, RuntimeError)
    yield "tags", lambda: comm.Get_attr(MPI.TAG_UB) >= 32767
    yield "reduce local", lambda: (b := np.arange(3.0), MPI.SUM.Reduce_local(np.ones(3), b))[0]
    yield "error text", lambda: isinstance(MPI.Get_error_string(MPI.ERR_RANK), str)
    yield "null source", lambda: MPI.ERR_RANK != MPI.ERR_TAG


# -- the test ---------------------------------------------------------------------------------------------


def every_case(comm):
    found = {}
    for name, function in CASES.items():
        for what, call in function(comm):
            found[name, what] = attempt(call)
        comm.Barrier()
    return found


@functools.cache
def outcome(ranks, on):
    return lk.run(every_case, ranks, on, timeout_s=120).results


@pytest.mark.filterwarnings("ignore:the 'buf' argument is deprecated")
@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("name", CASES)
def test_details(name, ranks):
    real, simulated = (
        [
            {what: value for (case_, what), value in result.items() if case_ == name}
            for result in outcome(ranks, on)
        ]
        for on in ("mpi", "star")
    )
    assert simulated == real
