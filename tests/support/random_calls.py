"""Programs of random steps: messages, collectives, windows, persistent requests, with work in between."""

from __future__ import annotations

from typing import Any

import numpy as np

import labkit as lk


def random_access(comm: Any, what: str, root: int, other: int, work_s: float) -> None:
    """One access to a window, by each way of synchronization."""
    window, data = lk.MPI.Win.Allocate(32, 8, comm=comm), np.zeros(4)
    group = comm.Get_group()
    if what == "fence":
        window.Fence()
        if comm.rank == root:
            window.Put(data, other)
        window.Fence()
    elif what == "lock" and comm.rank in (root, other):
        window.Lock(other)
        lk.compute(seconds=work_s)
        window.Accumulate(data, other)
        window.Unlock(other)
    elif what == "post" and root != other:
        if comm.rank == root:
            window.Start(group.Incl([other]))
            window.Put(data, other)
            lk.compute(seconds=work_s)
            window.Complete()
        elif comm.rank == other:
            window.Post(group.Incl([root]))
            window.Wait()
    window.Free()


def random_step(comm: Any, what: str, root: int, other: int, work_s: float) -> None:
    data, got = np.zeros(4), np.zeros(4)
    if what in ("fence", "lock", "post"):
        random_access(comm, what, root, other, work_s)
    elif what == "neighbor":
        ring = comm.Create_cart([comm.size], periods=[True])
        ring.Neighbor_allgather(data, np.zeros(8))
    elif what in ("persistent", "allreduce_init"):
        request = None
        if what == "allreduce_init":
            request = comm.Allreduce_init(data, got)
        elif root != other and comm.rank in (root, other):
            request = comm.Send_init(data, other) if comm.rank == root else comm.Recv_init(got, root)
        for _ in range(2 if request is not None else 0):
            request.Start()
            lk.compute(seconds=work_s)
            request.Wait()
    elif "send" in what:
        if comm.rank == root != other:
            if what == "isend":
                comm.Isend(data, other).Wait()
            else:
                getattr(comm, what.capitalize())(data, other)
        elif comm.rank == other != root:
            comm.Recv(got, root)
    elif what == "iallreduce":
        request = comm.Iallreduce(data, got)
        lk.compute(seconds=work_s)
        request.Wait()
    elif what == "bcast":
        comm.Bcast(data, root=root)
    elif what == "reduce":
        comm.Reduce(data, got, root=root)
    else:
        getattr(comm, what.capitalize())(*(() if what == "barrier" else (data, got)))


def random_program(comm: Any, steps: list[tuple[str, int, int, list[int]]]) -> None:
    for number, (what, first, second, work) in enumerate(steps):
        with lk.phase(f"step {number % 3}"):
            lk.compute(seconds=work[comm.rank] * 1e-4)
            root = first % comm.size
            random_step(comm, what, root, (first + second) % comm.size, work[-1] * 1e-4)
