"""What mpi4py accepts and refuses in detail, of statuses, requests and matched probes."""

from __future__ import annotations

import numpy as np

from labkit import MPI
from tests.support.same import Table

CASES = Table(ranks=(1, 2, 4))
case = CASES.case


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
