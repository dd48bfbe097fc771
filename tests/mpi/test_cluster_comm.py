"""Interruptible communicators give what mpi4py's own give, call by call, on real MPI."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("nothing_left")]


def _both(calls, ranks):
    """Run the calls on mpi4py's communicator and on an interruptible one, and return both answers."""

    def program(comm):
        from labkit.real.engines.engine import interruptible

        wrapped = interruptible(comm.Dup())
        answers = [], []
        for answer, one in zip(answers, (comm, wrapped), strict=True):
            for call in calls:
                answer.append((call.__name__, call(one)))
        return answers, isinstance(wrapped, type(comm)), type(wrapped) is type(comm)

    for (native, ours), is_kind, is_same in lk.run(program, ranks, "mpi").results:
        assert (is_kind, is_same) == (True, False)
        for one, other in zip(native, ours, strict=True):
            assert one == other


def _blocking_buffers(comm):
    from mpi4py import MPI

    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    out, into, status = np.full(5, float(comm.rank)), np.zeros(5), MPI.Status()
    comm.Sendrecv(out, right, 3, into, left, 3, status)
    found = [into.tolist(), status.Get_source(), status.Get_tag(), status.Get_count(MPI.DOUBLE)]
    comm.Sendrecv_replace(out, right, 4, left, 4)
    found.append(out.tolist())
    if comm.rank == 0:
        comm.Send([out, 2, MPI.DOUBLE], right, 1)
        comm.Ssend(out, right, 2)
    if comm.rank == 1 % comm.size and comm.size > 1:
        comm.Probe(0, 1, status)
        found.append(status.Get_count(MPI.DOUBLE))
        comm.Recv(into, MPI.ANY_SOURCE, 1, status)
        message = comm.Mprobe(0, 2, status)
        message.Recv(into)
        found += [into.tolist(), status.Get_tag()]
    return found


_blocking_buffers.minimum = 2


def _requests(comm):
    from mpi4py import MPI

    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    into = [np.zeros(2) for _ in range(4)]
    wanted = [comm.Irecv(one, left, tag) for tag, one in enumerate(into)]
    sent = [comm.Isend(np.full(2, float(tag)), right, tag) for tag in range(4)]
    indices = wanted[0].Wait() and [MPI.Request.Waitany(wanted[:2])]
    indices += sorted(MPI.Request.Waitsome([wanted[2]]))
    kind = type(wanted[0])
    kind.Waitall([*wanted, *sent])
    found = [one.tolist() for one in into]
    requests = [comm.isend({"tag": tag}, right, tag) for tag in range(3)]
    things = [comm.irecv(source=left, tag=tag) for tag in range(3)]
    found.append([things[0].wait(), *kind.waitall(things[1:]), kind.waitall(requests)])
    found.append(kind.waitany([comm.isend(1, right, 9)]))
    found.append(comm.recv(source=left, tag=9))
    ring = comm.Send_init(into[0], right, 5), comm.Recv_init(into[3], left, 5)
    for _ in range(2):
        for one in ring:
            one.Start()
        for one in ring:
            one.Wait()
    for one in ring:
        one.Free()
    return [*found, into[3].tolist(), indices, isinstance(ring[0], MPI.Prequest)]


def _objects(comm):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    size = comm.size
    found = [comm.sendrecv({"from": comm.rank}, right, 2, None, left, 2)]
    sent = [comm.isend([1, "x"], right, 7), comm.isend(b"large" * 50_000, right, 8)]
    found.append(comm.mprobe(left, 7).recv())
    comm.probe(left, 8)
    found.append(len(comm.recv(source=left, tag=8)))
    type(sent[0]).waitall(sent)
    found += [comm.bcast(("root", comm.rank), size - 1), comm.gather(comm.rank * "x", size - 1)]
    found += [comm.scatter([[k] for k in range(size)] if comm.rank == 0 else None)]
    found += [comm.allgather({comm.rank}), comm.alltoall([(comm.rank, k) for k in range(size)])]
    return found


def _object_reductions(comm):
    from mpi4py import MPI

    mine = [comm.rank]
    found = [comm.reduce(mine, root=comm.size - 1), comm.allreduce(mine), comm.scan(mine), comm.exscan(mine)]
    found.append(comm.allreduce((comm.rank % 2, comm.rank), MPI.MAXLOC))
    return [*found, comm.allreduce(comm.rank + 1, lambda a, b: a * b)]


def _collectives(comm):
    from mpi4py import MPI

    p, r = comm.size, comm.rank
    one, many, back = np.full(2, r + 1.0), np.arange(2.0 * p) + r, np.zeros(2 * p)
    found = []

    def keep(array):
        found.append(array.tolist())

    comm.Barrier()
    copy = one.copy()
    comm.Bcast(copy, p - 1)
    keep(copy)
    comm.Allgather(one, back)
    keep(back)
    comm.Gather(one, back if r == 0 else None)
    comm.Scatter(many if r == 0 else None, copy)
    keep(copy)
    comm.Alltoall(many, back)
    keep(back)
    counts = [2] * p
    comm.Allgatherv(one, (back, counts))
    comm.Alltoallv((many, counts), (back, counts))
    keep(back)
    comm.Gatherv(one, (back, counts) if r == 0 else None)
    comm.Scatterv((many, counts) if r == 0 else None, copy)
    for call in (comm.Allreduce, comm.Scan):
        call(one, copy)
        keep(copy)
    comm.Exscan(MPI.IN_PLACE, one)
    comm.Allreduce(MPI.IN_PLACE, copy, op=MPI.MAX)
    keep(copy)
    comm.Reduce(copy, back[:2] if r == 0 else None, op=MPI.PROD)
    comm.Reduce_scatter_block(many, copy)
    comm.Reduce_scatter(many, copy, counts)
    keep(copy)
    swap = MPI.Op.Create(lambda a, b, kind: None, commute=False)
    comm.Allreduce(one, copy, op=swap)
    swap.Free()
    comm.Ibcast(copy, 0).Wait()
    comm.Iallreduce(one, copy).Wait()
    keep(copy)
    return found


def _communicators(comm):
    from mpi4py import MPI

    half = comm.Split(comm.rank % 2, -comm.rank)
    found = [half.size, half.rank, half.allgather(comm.rank)]
    nothing = comm.Split(MPI.UNDEFINED if comm.rank else 0)
    found += [nothing == MPI.COMM_NULL, comm.Dup().allreduce(1), comm.Clone().size]
    first = comm.Create(comm.Get_group().Incl([0]))
    found.append(first == MPI.COMM_NULL)
    grid = comm.Create_cart([comm.size], [True])
    found += [grid.Shift(0, 1), grid.coords, grid.neighbor_allgather(comm.rank)]
    found += [grid.neighbor_alltoall(["left", "right"]), grid.Sub([False]).size]
    line, around = comm.Create_cart([comm.size]), np.full(2, -1)
    line.Neighbor_allgather(np.array([comm.rank]), around)
    found += [around.tolist(), line.neighbor_allgather(comm.rank)]
    made, request = comm.Idup()
    request.Wait()
    found.append(made.allreduce(1))
    found.append(all(isinstance(one, MPI.Intracomm) for one in (half, grid, made)))
    half.Free()
    found.append(half == MPI.COMM_NULL)
    return found


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_same_answers_as_mpi4py(ranks):
    calls = [_blocking_buffers, _requests, _objects, _object_reductions, _collectives, _communicators]
    _both([call for call in calls if ranks >= getattr(call, "minimum", 1)], ranks)


def test_dropped_requests_keep_their_buffers():
    def program(comm):
        from labkit.real.engines.engine import interruptible
        from labkit.real.engines.waits import WAITING

        own = interruptible(comm.Dup())
        if own.rank == 0:
            own.Irecv(np.zeros(1000), 1)  # dropped while it is pending: MPI will write into its buffer
            kept = len(WAITING.pending)
            own.barrier()
            own.barrier()
            WAITING.tidy()
            return kept, len(WAITING.pending)
        own.barrier()
        own.Send(np.ones(1000), 0)
        own.barrier()
        return None

    assert lk.run(program, 2, "mpi").results[0] == (1, 0)
