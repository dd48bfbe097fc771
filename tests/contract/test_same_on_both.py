"""One program, two machines: what it returns, prints and refuses is the same on real MPI and simulated.

Every case is a function of a communicator that returns plain data and leaves no message behind. All cases run
in one launch per machine and number of ranks.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from tests.support.same import Table, outcomes, values

pytestmark = pytest.mark.mpi

CASES = Table()
case = CASES.case
#: state that a process has for itself
LEAKED = []


# -- point to point ---------------------------------------------------------------------------------------


@case
def objects_around_a_ring(comm):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    mine = {"rank": comm.rank, "keys": list(range(comm.rank))}
    return [comm.sendrecv(mine, dest=right, sendtag=3, source=left, recvtag=3)]


@case
def buffers_around_a_ring(comm):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    status = MPI.Status()
    got = np.full(10, -1.0)
    comm.Sendrecv(np.arange(comm.rank, comm.rank + 6, dtype=float), right, 5, got, left, 5, status)
    return (
        got.tolist(),
        status.Get_source(),
        status.Get_tag(),
        status.Get_count(MPI.DOUBLE),
        status.Get_count(),
    )


@case
def large_messages(comm):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    request = comm.Isend(np.full(200_000, comm.rank, dtype=np.int32), right)
    got = np.empty(200_000, dtype=np.int32)
    comm.Recv(got, left)
    request.Wait()
    return int(got.min()), int(got.max())


@case
def any_source_and_any_tag(comm):
    if comm.rank:
        comm.send(comm.rank**2, dest=0, tag=10 + comm.rank)
        return None
    found = []
    status = MPI.Status()
    for _ in range(comm.size - 1):
        value = comm.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status)
        found.append((status.source, status.tag, value))
    return sorted(found)


@case
def messages_do_not_overtake(comm):
    if comm.rank == 0:
        for other in range(1, comm.size):
            for k in range(20):
                comm.send(k, other, tag=k % 2)
        return None
    even = [comm.recv(source=0, tag=0) for _ in range(10)]
    return even, [comm.recv(source=0, tag=1) for _ in range(10)]


@case
def requests_of_everyone(comm):
    requests = [comm.irecv(source=other, tag=1) for other in range(comm.size)]
    sends = [comm.isend((comm.rank, other), other, tag=1) for other in range(comm.size)]
    got = MPI.Request.waitall(requests)
    MPI.Request.waitall(sends)
    return got


@case
def polling(comm):
    if comm.rank:
        comm.send("x" * comm.rank, dest=0)
        return None
    got = []
    for other in range(1, comm.size):
        request = comm.irecv(source=other)
        is_done, value = request.test()
        while not is_done:
            is_done, value = request.test()
        got.append(value)
    return got


@case
def probing(comm):
    if comm.rank:
        comm.Send(np.zeros(comm.rank, dtype=np.int16), 0, tag=comm.rank)
        return None
    found = []
    for _ in range(comm.size - 1):
        status = MPI.Status()
        comm.Probe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        got = np.empty(status.Get_count(MPI.SHORT), dtype=np.int16)
        while not comm.Iprobe(status.source, status.tag):
            pass
        comm.Recv(got, status.source, status.tag)
        found.append((status.source, status.tag, len(got)))
    return sorted(found)


@case
def nobody(comm):
    status = MPI.Status()
    comm.send("into the void", MPI.PROC_NULL)
    value = comm.recv(source=MPI.PROC_NULL, status=status)
    return value, status.source == MPI.PROC_NULL, status.tag == MPI.ANY_TAG, status.Get_count(MPI.BYTE)


@case
def oneself(comm):
    request = comm.isend([comm.rank], comm.rank, tag=9)
    got = comm.recv(source=comm.rank, tag=9)
    request.wait()
    return got


@case
def what_is_received_is_a_copy(comm):
    mine = [comm.rank]
    request = comm.isend(mine, (comm.rank + 1) % comm.size)
    got = comm.recv(source=(comm.rank - 1) % comm.size)
    request.wait()
    got.append("changed")
    comm.barrier()
    return mine


# -- collectives ------------------------------------------------------------------------------------------


@case
def collectives_of_objects(comm):
    root = comm.size - 1
    words = [f"{comm.rank}-{other}" for other in range(comm.size)]
    return {
        "bcast": comm.bcast(("hello", comm.rank), root=root),
        "reduce": comm.reduce(comm.rank + 1, op=MPI.PROD, root=root),
        "allreduce": [comm.allreduce(comm.rank, op=op) for op in (MPI.SUM, MPI.MIN, MPI.MAX, MPI.BOR)],
        "maxloc": comm.allreduce((comm.rank % 2, comm.rank), op=MPI.MAXLOC),
        "minloc": comm.allreduce((comm.rank % 2, comm.rank), op=MPI.MINLOC),
        "gather": comm.gather(words, root=root),
        "scatter": comm.scatter(words if comm.rank == root else None, root=root),
        "allgather": comm.allgather({comm.rank}),
        "alltoall": comm.alltoall(words),
        "scan": comm.scan(comm.rank + 1),
        "exscan": comm.exscan(comm.rank + 1),
    }


@case
def order_of_operands(comm):
    text = "abcdefghij"[comm.rank % 10]
    together = lambda a, b: a + b  # noqa: E731
    return [
        comm.allreduce(text, op=together), comm.reduce(text, op=together, root=0),
        comm.scan(text, op=together), comm.exscan(text, op=together),
    ]  # fmt: skip


@case
def own_operation_on_buffers(comm):
    def compose(a, b, datatype):
        """Chain the maps x -> m x + c, stored as m + ic: associative, not commutative."""
        left, right = np.frombuffer(a, dtype=complex), np.frombuffer(b, dtype=complex)
        right[:] = left.real * right.real + 1j * (left.imag * right.real + right.imag)

    operation = MPI.Op.Create(compose, commute=False)
    mine = np.array([complex(2, comm.rank), complex(1 + comm.rank, 1)])
    total, prefix = np.zeros(2, dtype=complex), np.zeros(2, dtype=complex)
    comm.Allreduce(mine, total, op=operation)
    comm.Scan(mine, prefix, op=operation)
    is_commutative = operation.Is_commutative()
    operation.Free()
    return total.tolist(), prefix.tolist(), is_commutative


@case
def collectives_of_buffers(comm):
    p, me, root = comm.size, comm.rank, 0
    block = np.arange(3, dtype=np.int64) + 10 * me
    found = {}
    data = block.copy()
    comm.Bcast(data, root=p - 1)
    found["Bcast"] = data.copy()
    for name, op in (("sum", MPI.SUM), ("max", MPI.MAX), ("bxor", MPI.BXOR)):
        total = np.zeros_like(block)
        comm.Allreduce(block, total, op=op)
        found[f"Allreduce {name}"] = total
    total = block.copy()
    comm.Allreduce(MPI.IN_PLACE, total)
    found["Allreduce in place"] = total
    total = np.full_like(block, -1)
    comm.Reduce(block, total if me == root else None, op=MPI.MIN, root=root)
    found["Reduce"] = total
    every = np.zeros((p, 3), dtype=np.int64)
    comm.Allgather(block, every)
    found["Allgather"] = every
    every = np.zeros((p, 3), dtype=np.int64)
    comm.Gather(block, every if me == root else None, root=root)
    found["Gather"] = every
    part = np.zeros(3, dtype=np.int64)
    comm.Scatter(every if me == root else None, part, root=root)
    found["Scatter"] = part
    swapped = np.zeros((p, 2), dtype=np.int32)
    comm.Alltoall(np.arange(2 * p, dtype=np.int32) + 100 * me, swapped)
    found["Alltoall"] = swapped
    for name, method in (("Scan", comm.Scan), ("Exscan", comm.Exscan)):
        part = np.full(3, -7, dtype=np.int64)
        method(block, part, op=MPI.SUM)
        found[name] = part
    comm.Barrier()
    return {name: array.tolist() for name, array in found.items()}


@case
def collectives_of_unequal_blocks(comm):
    p, me = comm.size, comm.rank
    counts = [(k * 2) % 5 for k in range(p)]  # rank 0 has none
    offsets = [sum(counts[:k]) for k in range(p)]
    mine = np.full(counts[me], me, dtype=np.float64)
    whole = np.full(sum(counts), -1.0)
    comm.Allgatherv(mine, (whole, counts))
    gathered = np.full(sum(counts), -1.0)
    comm.Gatherv(mine, (gathered, counts, offsets, MPI.DOUBLE) if me == 0 else None, root=0)
    part = np.full(counts[me], -1.0)
    comm.Scatterv((whole, counts) if me == 0 else None, part, root=0)
    sending = np.arange(me * 10, me * 10 + p * (p + 1) // 2, dtype=np.float64)
    send_counts = list(range(1, p + 1))  # k + 1 keys to rank k
    received = np.full(p * (me + 1), -1.0)
    comm.Alltoallv((sending, send_counts), (received, [me + 1] * p))
    return [array.tolist() for array in (whole, gathered, part, received)]


@case
def types(comm):
    totals = []
    for dtype in "bhilqBHILQfdFD?":
        total = np.zeros(1, dtype=dtype)
        comm.Allreduce(np.ones(1, dtype=dtype), total, op=MPI.LOR if dtype == "?" else MPI.SUM)
        totals.append(total.tolist())
    return totals


# -- errors -----------------------------------------------------------------------------------------------


def error_class(call):
    try:
        call()
    except MPI.Exception as error:
        return error.Get_error_class()
    return None


@case
def refused(comm):
    found = [
        error_class(lambda: comm.send(1, dest=comm.size)) == MPI.ERR_RANK,
        error_class(lambda: comm.send(1, dest=0, tag=-5)) == MPI.ERR_TAG,
        error_class(lambda: comm.bcast(1, root=comm.size)) in (MPI.ERR_ROOT, MPI.ERR_RANK),
    ]
    return found


@case
def truncated(comm):
    if comm.size == 1:
        return None
    if comm.rank == 0:
        comm.Send(np.zeros(8), 1)
    elif comm.rank == 1:
        return error_class(lambda: comm.Recv(np.zeros(4), 0)) == MPI.ERR_TRUNCATE
    return None


@case
def wrong_python_arguments(comm):
    kinds = []
    for call in (lambda: comm.Send(None, 0), lambda: comm.Send(object(), 0), lambda: comm.send()):
        try:
            call()
        except Exception as error:
            kinds.append(type(error).__name__)
    return kinds


# -- the process ------------------------------------------------------------------------------------------


@case
def globals_belong_to_a_rank(comm):
    LEAKED.append(comm.rank)
    comm.barrier()
    return list(LEAKED)


@case
def random_numbers(comm):
    return random.random(), float(np.random.random()), float(np.random.default_rng().random())


@case
def times_go_forward(comm):
    begin = MPI.Wtime()
    comm.barrier()
    with lk.phase("step"):
        comm.barrier()
    return MPI.Wtime() >= begin, MPI.Wtick() > 0


@case
def sample_sort_of_labkit(comm):
    from labkit.algorithms.sorting.sample_sort import sample_sort

    keys = np.random.default_rng(comm.rank).integers(0, 50, size=100 + 13 * comm.rank)
    return sample_sort(comm, keys).tolist()


# -- the tests --------------------------------------------------------------------------------------------


def every_case(comm):
    return values(comm, CASES)


outcome = outcomes(every_case)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", CASES)
def test_results(name, ranks):
    real, simulated = ([result[name] for result in outcome(ranks, on)] for on in ("mpi", "star"))
    assert simulated == real
