"""Programs in which nobody is late: whoever finds a wait state of note in them finds too much."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import labkit as lk

HEALTHY: dict[str, Callable[[Any], None]] = {}
#: of each of the steps
WORK_S, STEPS = 20e-3, 3


def healthy(step: Callable[[Any], None]) -> Callable[[Any], None]:
    HEALTHY[step.__name__] = step
    return step


def work() -> None:
    with lk.phase("work"):
        lk.compute(seconds=WORK_S)


def ends(comm: Any) -> tuple[int, int]:
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


def program(comm: Any, name: str) -> None:
    """Work and communicate in turn; all ranks have the same to do."""
    for _ in range(STEPS):
        work()
        with lk.phase(name):
            HEALTHY[name](comm)


@healthy
def shift(comm: Any) -> None:
    right, left = ends(comm)
    comm.Sendrecv(np.zeros(100), right, 0, np.zeros(100), left, 0)


@healthy
def overlapped_halo(comm: Any) -> None:
    right, left = ends(comm)
    got = np.zeros((2, 100))
    requests = [comm.Irecv(got[0], left, 1), comm.Irecv(got[1], right, 2)]
    requests += [comm.Isend(np.zeros(100), right, 1), comm.Isend(np.zeros(100), left, 2)]
    work()
    lk.MPI.Request.Waitall(requests)


@healthy
def persistent_halo(comm: Any) -> None:
    right, left = ends(comm)
    requests = [comm.Recv_init(np.zeros(100), left), comm.Send_init(np.zeros(100), right)]
    for _ in range(2):
        lk.MPI.Prequest.Startall(requests)
        work()
        lk.MPI.Request.Waitall(requests)


@healthy
def blocks_around_a_ring(comm: Any) -> None:
    right, left = ends(comm)
    block = np.zeros(50)
    for _ in range(comm.size - 1):
        comm.Sendrecv_replace(block, right, 0, left, 0)


@healthy
def butterfly(comm: Any) -> None:
    distance = 1
    while distance < comm.size:
        there, here = (comm.rank + distance) % comm.size, (comm.rank - distance) % comm.size
        comm.Sendrecv(np.zeros(8), there, 0, np.zeros(8), here, 0)
        distance *= 2


@healthy
def odd_even(comm: Any) -> None:
    for parity in range(2):
        partner = comm.rank + 1 if comm.rank % 2 == parity else comm.rank - 1
        if 0 <= partner < comm.size:
            comm.Sendrecv(np.zeros(200), partner, 0, np.zeros(200), partner, 0)


@healthy
def transposition(comm: Any) -> None:
    comm.Alltoall(np.zeros((comm.size, 20)), np.zeros((comm.size, 20)))


@healthy
def unequal_transposition(comm: Any) -> None:
    counts = [1 + (comm.rank + other) % 3 for other in range(comm.size)]
    comm.Alltoallv([np.zeros(sum(counts)), counts], [np.zeros(sum(counts)), counts])


@healthy
def two_dot_products(comm: Any) -> None:
    for _ in range(2):
        comm.Allreduce(np.zeros(1), np.zeros(1))
        work()


@healthy
def overlapped_dot_product(comm: Any) -> None:
    request = comm.Iallreduce(np.zeros(1), np.zeros(1))
    work()
    request.Wait()


@healthy
def from_and_to_a_root(comm: Any) -> None:
    is_root = comm.rank == 0
    comm.Scatter(np.zeros((comm.size, 10)) if is_root else None, np.zeros(10), root=0)
    work()
    comm.Gather(np.zeros(10), np.zeros((comm.size, 10)) if is_root else None, root=0)


@healthy
def news_and_sums(comm: Any) -> None:
    comm.Bcast(np.zeros(100), root=comm.size - 1)
    work()
    comm.Reduce(np.zeros(100), np.zeros(100), root=1 % comm.size)


@healthy
def prefixes(comm: Any) -> None:
    comm.Scan(np.zeros(4), np.zeros(4))
    comm.Exscan(np.zeros(4), np.zeros(4))


@healthy
def reduced_blocks(comm: Any) -> None:
    comm.Reduce_scatter_block(np.zeros(4 * comm.size), np.zeros(4))
    comm.Allgather(np.zeros(4), np.zeros(4 * comm.size))


@healthy
def barriers(comm: Any) -> None:
    comm.Barrier()
    request = comm.Ibarrier()
    work()
    request.Wait()


@healthy
def neighbors(comm: Any) -> None:
    ring = comm.Create_cart([comm.size], periods=[True])
    ring.Neighbor_alltoall(np.zeros(2), np.zeros(2))
    ring.Free()


@healthy
def halves(comm: Any) -> None:
    half = comm.Split(comm.rank % 2, comm.rank)
    half.Allreduce(np.zeros(10), np.zeros(10))
    half.Free()


@healthy
def objects(comm: Any) -> None:
    right, left = ends(comm)
    comm.sendrecv({"of": comm.rank}, right, source=left)
    comm.allgather(comm.rank)


@healthy
def probed(comm: Any) -> None:
    right, left = ends(comm)
    request = comm.Isend(np.zeros(10), right)
    work()
    comm.Probe(left)
    comm.Recv(np.zeros(10), left)
    request.Wait()


@healthy
def synchronous_pairs(comm: Any) -> None:
    partner = comm.rank ^ 1
    if partner >= comm.size:
        return
    for turn in range(2):
        if comm.rank % 2 == turn:
            comm.Ssend(np.zeros(10), partner)
        else:
            comm.Recv(np.zeros(10), partner)


@healthy
def fenced_puts(comm: Any) -> None:
    window = lk.MPI.Win.Allocate(80, 8, comm=comm)
    window.Fence()
    window.Put(np.zeros(10), ends(comm)[0])
    window.Fence()
    window.Free()


@healthy
def posted_puts(comm: Any) -> None:
    window, group = lk.MPI.Win.Allocate(80, 8, comm=comm), comm.Get_group()
    right, left = ends(comm)
    window.Post(group.Incl([left]))
    window.Start(group.Incl([right]))
    window.Put(np.zeros(10), right)
    window.Complete()
    window.Wait()
    window.Free()


@healthy
def a_lock_each(comm: Any) -> None:
    window, right = lk.MPI.Win.Allocate(80, 8, comm=comm), ends(comm)[0]
    window.Lock(right)
    window.Accumulate(np.zeros(10), right)
    window.Unlock(right)
    window.Free()
