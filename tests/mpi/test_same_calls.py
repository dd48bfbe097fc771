"""A traced run has the same calls on real MPI and on a simulated machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import MPI

pytestmark = pytest.mark.mpi

#: what does not depend on the machine; of the communicators' numbers only who is in a collective together
SAME = ["rank", "call", "bytes", "root", "position", "place", "phase"]


def exchange(comm: Any) -> None:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    mine, theirs = np.full(10, float(comm.rank)), np.empty(10)
    comm.Sendrecv(mine, right, 0, theirs, left)
    MPI.Request.Waitall([comm.Isend(mine, right), comm.Irecv(theirs, left)])
    request = comm.irecv(source=left)
    comm.send({"from": comm.rank}, right)
    request.wait()
    again = comm.Send_init(mine, right)
    again.Start()
    comm.Recv(theirs, left)
    again.Wait()
    message = None
    comm.isend(1, right).wait()
    message = comm.mprobe(left)
    assert message.recv() == 1


def program(comm: Any) -> None:
    size, every = comm.size, np.empty(10 * comm.size)
    mine, theirs = np.full(10, float(comm.rank)), np.empty(10)
    with lk.phase("messages"):
        exchange(comm)
    with lk.phase("collectives"):
        comm.Allreduce(mine, theirs, op=MPI.MAX)
        comm.Bcast(mine, root=1)
        comm.Gather(mine, every if comm.rank == 2 else None, root=2)
        comm.Scatter(every if comm.rank == 1 else None, mine, root=1)
        comm.Allgather(mine, every)
        comm.Alltoall(every, every.copy())
        comm.Allreduce(MPI.IN_PLACE, theirs)
        comm.Scan(mine, theirs)
        comm.Reduce_scatter_block(every, theirs)
        comm.Barrier()
        comm.Gatherv(mine, [every, [10] * size] if comm.rank == 0 else None, root=0)
        comm.Scatterv([every, [10] * size] if comm.rank == 0 else None, mine, root=0)
        comm.Allgatherv(mine, [every, [10] * size])
        comm.Alltoallv([every, [comm.rank] * size], [every.copy(), list(range(size))])
        comm.Reduce_scatter(every, theirs, [10] * size)
    with lk.phase("objects"):
        comm.allreduce(comm.rank)
        comm.bcast("x" * 100 if comm.rank == 1 else None, root=1)
        comm.gather("y" * comm.rank, root=1)
        comm.alltoall(["z" * (comm.rank + other) for other in range(size)])
        comm.barrier()
    half = comm.Split(comm.rank % 2, -comm.rank)
    half.Bcast(mine, root=1)
    begun = half.Ibcast(mine, root=0)
    begun.Wait()
    grid = comm.Create_cart([size], [True])
    grid.Neighbor_allgather(mine, np.empty(20))
    grid.Neighbor_alltoall(np.ones(20), np.empty(20))
    grid.neighbor_allgather("w")
    half.Free()


def of(run: Any) -> Any:
    calls = run.trace.calls
    assert list(calls.columns) == [*SAME[:3], "begin_s", "end_s", "joint", *SAME[3:], "algorithm"]
    assert (calls["begin_s"] <= calls["end_s"]).all()
    return calls


def together(calls: Any) -> set[tuple[tuple[int, int], ...]]:
    """The collectives, each as its ranks with the numbers of their calls."""
    number = calls.groupby("rank").cumcount()
    joined = calls.assign(number=number)[calls["joint"] >= 0]
    return {tuple(zip(group["rank"], group["number"], strict=True)) for _, group in joined.groupby("joint")}


def test_calls_of_both_machines() -> None:
    simulated, real = (of(lk.run(program, ranks=4, on=on, trace=True)) for on in ("star", "mpi"))
    for column in SAME:
        mine, theirs = simulated[column], real[column]
        if column == "bytes":  # a reduction of objects makes more pickles on its way in mpi4py
            mine, theirs = (values[simulated["call"] != "allreduce"] for values in (mine, theirs))
        assert mine.tolist() == theirs.tolist(), column
    assert together(simulated) == together(real)
