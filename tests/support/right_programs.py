"""Small right programs without a warning: each is safe without buffers, on any number of ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from labkit import MPI

__all__ = ["RIGHT"]

#: by name
RIGHT: dict[str, Callable[..., Any]] = {}


def _right(program: Callable[..., Any]) -> Callable[..., Any]:
    RIGHT[program.__name__] = program
    return program


def _ends(comm: Any) -> tuple[int, int]:
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


@_right
def shift_by_sendrecv(comm):
    right, left = _ends(comm)
    comm.Sendrecv(np.ones(3), right, 0, np.empty(3), left)


@_right
def shift_by_replacing(comm):
    right, left = _ends(comm)
    comm.Sendrecv_replace(np.ones(3), right, 0, left)


@_right
def shift_of_objects(comm):
    right, left = _ends(comm)
    comm.sendrecv(comm.rank, right, source=left)


@_right
def one_side_receives_first(comm):
    right, left = _ends(comm)
    if comm.rank == 0:
        comm.Recv(np.empty(3), left)
        comm.Send(np.ones(3), right)
    else:
        comm.Send(np.ones(3), right)
        comm.Recv(np.empty(3), left)


@_right
def odd_and_even(comm):
    right, left = comm.rank + 1, comm.rank - 1
    for parity in (0, 1):
        if comm.rank % 2 == parity and right < comm.size:
            comm.Send(np.ones(3), right)
        elif comm.rank % 2 != parity and left >= 0:
            comm.Recv(np.empty(3), left)


@_right
def open_chain_sends_first(comm):
    if comm.rank + 1 < comm.size:
        comm.send(comm.rank, comm.rank + 1)
    if comm.rank > 0:
        comm.recv(source=comm.rank - 1)


@_right
def pipeline(comm):
    for step in range(5):
        value = comm.recv(source=comm.rank - 1) if comm.rank else step
        if comm.rank + 1 < comm.size:
            comm.send(value, comm.rank + 1)


@_right
def receives_are_posted_first(comm):
    right, left = _ends(comm)
    room = np.empty(3)
    request = comm.Irecv(room, left)
    comm.Send(np.ones(3), right)
    request.Wait()


@_right
def all_requests_together(comm):
    right, left = _ends(comm)
    rooms = [np.empty(3), np.empty(3)]
    requests = [comm.Isend(np.ones(3), right, 1), comm.Isend(np.ones(3), left, 2)]
    requests += [comm.Irecv(rooms[0], left, 1), comm.Irecv(rooms[1], right, 2)]
    MPI.Request.Waitall(requests)


@_right
def sends_are_waited_for_last(comm):
    right, left = _ends(comm)
    request = comm.isend({"rank": comm.rank}, right)
    comm.recv(source=left)
    request.wait()


@_right
def persistent_halo(comm):
    right, left = _ends(comm)
    sent, got = np.ones(3), np.empty(3)
    requests = [comm.Send_init(sent, right), comm.Recv_init(got, left)]
    for _ in range(3):
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
        sent[:] = got


@_right
def buffered_sends(comm):
    right, left = _ends(comm)
    MPI.Attach_buffer(bytearray(10_000))
    comm.Bsend(np.ones(3), right)
    comm.Recv(np.empty(3), left)
    MPI.Detach_buffer()


@_right
def farm_of_tasks(comm):
    status = MPI.Status()
    if comm.rank == 0:
        tasks, done = list(range(3 * comm.size)), 0
        for worker in range(1, comm.size):
            comm.send(tasks.pop(), worker)
        waiting = 3 * comm.size
        while done < waiting:
            comm.recv(source=MPI.ANY_SOURCE, status=status)
            done += 1
            comm.send(tasks.pop() if tasks else None, status.Get_source())
    else:
        while (task := comm.recv(source=0)) is not None:
            comm.send(task * comm.rank, 0)


@_right
def farm_that_probes(comm):
    if comm.rank == 0:
        for _ in range(comm.size - 1):
            status = MPI.Status()
            comm.Probe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
            comm.recv(source=status.Get_source())
            comm.send("stop", status.Get_source())
    else:
        comm.send(comm.rank, 0)
        comm.recv(source=0)


@_right
def gathered_in_order(comm):
    if comm.rank == 0:
        for source in range(1, comm.size):
            comm.recv(source=source)
    else:
        comm.send(np.ones(comm.rank), 0)


@_right
def acknowledged(comm):
    if comm.rank == 0:
        for _ in range(comm.size - 1):
            comm.recv(source=MPI.ANY_SOURCE)
        for rank in range(1, comm.size):
            comm.send(None, rank)
    else:
        comm.send(None, 0)
        comm.recv(source=0)


@_right
def ping_pong(comm):
    room = np.empty(4)
    for _ in range(4):
        if comm.rank == 0:
            comm.Send(np.ones(4), 1)
            comm.Recv(room, 1)
        elif comm.rank == 1:
            comm.Recv(room, 0)
            comm.Send(np.ones(4), 0)


@_right
def broadcast_by_a_tree(comm):
    if comm.rank:
        comm.recv(source=(comm.rank - 1) // 2)
    for child in (2 * comm.rank + 1, 2 * comm.rank + 2):
        if child < comm.size:
            comm.send("news", child)


@_right
def reduce_by_a_tree(comm):
    total = comm.rank
    for child in (2 * comm.rank + 1, 2 * comm.rank + 2):
        if child < comm.size:
            total += comm.recv(source=child)
    if comm.rank:
        comm.send(total, (comm.rank - 1) // 2)


@_right
def barriers_between_phases(comm):
    for step in range(3):
        if comm.rank == step % comm.size:
            for other in range(comm.size):
                if other != comm.rank:
                    comm.send(step, other)
        else:
            comm.recv(source=step % comm.size)
        comm.Barrier()


@_right
def collectives_only(comm):
    values = np.full(4, comm.rank, float)
    total, parts = np.empty(4), np.empty(4 * comm.size)
    for _ in range(3):
        comm.Allreduce(values, total)
        comm.Allreduce(MPI.IN_PLACE, values)
        comm.Allgather(values, parts)
        comm.Bcast(values)
        comm.Reduce(values, total)


@_right
def halves_of_one_array(comm):
    values = np.zeros(8)
    comm.Scan(values[:4], values[4:])
    comm.Scan([values, 4, MPI.DOUBLE], [values[4:], 4, MPI.DOUBLE])
    comm.Sendrecv(values[:4], (comm.rank + 1) % comm.size, 0, values[4:], (comm.rank - 1) % comm.size)


@_right
def tables_in_place(comm):
    values = np.arange(comm.size, dtype=float)
    comm.Allgatherv(MPI.IN_PLACE, [values, [1] * comm.size])
    comm.Alltoall(MPI.IN_PLACE, values)


@_right
def bytes_go_with_everything(comm):
    if comm.rank == 0:
        comm.Send(np.ones(2), 1)
    elif comm.rank == 1:
        comm.Recv(bytearray(16), 0)


@_right
def unsigned_and_signed(comm):
    if comm.rank == 0:
        comm.Send(np.ones(2, "u4"), 1)
    elif comm.rank == 1:
        comm.Recv(np.zeros(2, "i4"), 0)


@_right
def other_tags_than_in_order(comm):
    if comm.rank == 0:
        MPI.Request.waitall([comm.isend(tag, 1, tag) for tag in (1, 2)])
    elif comm.rank == 1:
        requests = [comm.irecv(source=0, tag=tag) for tag in (2, 1)]
        assert MPI.Request.waitall(requests) == [2, 1]


@_right
def polls_for_its_message(comm):
    right, left = _ends(comm)
    request = comm.Isend(np.ones(3), right)
    while not comm.Iprobe(left):
        pass
    comm.Recv(np.empty(3), left)
    request.Wait()


@_right
def tests_for_its_message(comm):
    right, left = _ends(comm)
    room = np.empty(3)
    request = comm.Irecv(room, left)
    comm.Send(np.ones(3), right)
    while not request.Test():
        pass


@_right
def halves_talk_in_groups(comm):
    half = comm.Split(comm.rank % 2, comm.rank)
    total = half.allreduce(comm.rank)
    if half.rank == 0 and comm.rank in (0, 1):
        comm.sendrecv(total, 1 - comm.rank, source=1 - comm.rank)
    half.Free()


@_right
def neighbors_of_a_grid(comm):
    grid = comm.Create_cart([comm.size], [True])
    left, right = grid.Shift(0, 1)
    grid.Sendrecv(np.ones(2), right, 0, np.empty(2), left)
    grid.Neighbor_allgather(np.ones(2), np.empty(4))


@_right
def one_sided_shift(comm):
    window = MPI.Win.Allocate(8, 8, comm=comm)
    window.Fence()
    window.Put(np.ones(1), (comm.rank + 1) % comm.size)
    window.Fence()
    window.Free()


@_right
def synchronous_after_receives(comm):
    right, left = _ends(comm)
    request = comm.Irecv(np.empty(2), left)
    comm.Ssend(np.ones(2), right)
    request.Wait()


@_right
def overlap_of_work_and_barrier(comm):
    request = comm.Ibarrier()
    comm.sendrecv(1, (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)
    request.Wait()


@_right
def buffer_used_again_after_its_wait(comm):
    right, left = _ends(comm)
    values = np.zeros(100)
    for step in range(3):
        values[:] = step
        request = comm.Isend(values, right)
        comm.Recv(np.empty(100), left)
        request.Wait()
