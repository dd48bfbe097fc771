"""What mpi4py accepts and refuses in detail, of messages: list forms, odd arrays, addresses."""

from __future__ import annotations

import array
import functools

import numpy as np

from labkit import MPI
from tests.support.same import Table

CASES = Table(ranks=(1, 2, 4))
case = CASES.case


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
