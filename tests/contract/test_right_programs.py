"""Thirty-one right programs, checked and explored: no alarm, and the results of a plain run."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk
from labkit import MPI

ANY = MPI.ANY_SOURCE


def halo(comm):
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    field = np.full(6, float(comm.rank))
    for _ in range(3):
        requests = [comm.Irecv(field[:1], left, 1), comm.Irecv(field[-1:], right, 2)]
        requests += [comm.Isend(field[-2:-1], right, 1), comm.Isend(field[1:2], left, 2)]
        MPI.Request.Waitall(requests)
        field[1:-1] += 1
    return field.tolist()


def ring(comm):
    return comm.sendrecv(comm.rank, (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)


def ring_in_place(comm):
    data = np.full(3, float(comm.rank))
    comm.Sendrecv_replace(data, (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)
    return data.tolist()


def columns(comm):
    matrix = np.full((4, 4), float(comm.rank))
    column = MPI.DOUBLE.Create_vector(4, 1, 4).Create_resized(0, 8).Commit()
    other = 1 - comm.rank if comm.rank < 2 else MPI.PROC_NULL
    requests = [comm.Irecv([matrix.reshape(-1)[3:], 1, column], other)]
    requests.append(comm.Isend([matrix.reshape(-1), 1, column], other))
    MPI.Request.Waitall(requests)
    column.Free()
    return matrix.tolist()


def one_buffer_to_many(comm):
    data = np.arange(4.0)
    if comm.rank == 0:
        MPI.Request.Waitall([comm.Isend(data, other) for other in range(1, comm.size)])
        data[:] = 0
    else:
        comm.Recv(data, 0)
    return data.tolist()


def sum_of_whoever_comes(comm):
    if comm.rank:
        comm.send(comm.rank, 0)
        return None
    return sum(comm.recv(source=ANY) for _ in range(comm.size - 1))


def placed_by_source(comm):
    status, found = MPI.Status(), [0.0] * comm.size
    if comm.rank:
        comm.Send(np.array([comm.rank], "f8"), 0)
    for _ in range((comm.size - 1) * (comm.rank == 0)):
        got = np.zeros(1)
        comm.Recv(got, ANY, status=status)
        found[status.source] = float(got[0])
    return found


def masters_and_workers(comm):
    status = MPI.Status()
    if comm.rank:
        answer = None
        while (task := comm.sendrecv(answer, 0, source=0)) is not None:
            answer = task**2
        return None
    found, tasks, working = [], list(range(9)), comm.size - 1
    while working:
        answer = comm.recv(source=ANY, status=status)
        found += [] if answer is None else [answer]
        task = tasks.pop() if tasks else None
        comm.send(task, status.source)
        working -= task is None
    return sorted(found)


def probed(comm):
    status = MPI.Status()
    if comm.rank == 0:
        comm.Send(np.arange(3.0), 1)
    elif comm.rank == 1:
        comm.Probe(0, status=status)
        got = np.zeros(status.Get_count(MPI.DOUBLE))
        comm.Recv(got, 0)
        return got.tolist()
    return None


def matched_probe(comm):
    if comm.rank == 0:
        comm.Send(np.arange(3, dtype="i4"), 1)
    elif comm.rank == 1:
        got = np.zeros(3, "i4")
        comm.Mprobe(0).Recv(got)
        return got.tolist()
    return None


def polled(comm):
    if comm.rank == 0:
        lk.compute(seconds=1e-4)
        comm.send("x", 1)
    elif comm.rank == 1:
        request = comm.irecv(source=0)
        while not (answer := request.test())[0]:
            lk.compute(seconds=1e-5)
        return answer[1]
    return None


def persistent(comm):
    data, got = np.zeros(2), np.zeros(2)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    requests = [comm.Send_init(data, right), comm.Recv_init(got, left)]
    for step in range(3):
        data[:] = step
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
    for request in requests:
        request.Free()
    return got.tolist()


def waited_one_by_one(comm):
    if comm.rank == 0:
        return [comm.Irecv(np.zeros(2), other).Wait() for other in range(1, comm.size)]
    comm.Isend(np.zeros(2), 0).Wait()
    return None


def some_at_a_time(comm):
    got = np.zeros(comm.size)
    if comm.rank:
        comm.Send(np.array([comm.rank], "f8"), 0)
        return None
    requests = [comm.Irecv(got[other : other + 1], other) for other in range(1, comm.size)]
    left = len(requests)
    while left:
        left -= len(MPI.Request.Waitsome(requests) or ())
    return got.tolist()


def any_at_a_time(comm):
    got = np.zeros(comm.size)
    if comm.rank:
        comm.Send(np.array([comm.rank], "f8"), 0)
        return None
    requests = [comm.Irecv(got[other : other + 1], other) for other in range(1, comm.size)]
    for _ in range(len(requests)):
        MPI.Request.Waitany(requests)
    return got.tolist()


def nonblocking_collectives(comm):
    data, total = np.full(3, float(comm.rank)), np.zeros(3)
    requests = [comm.Iallreduce(data, total), comm.Ibcast(parts := np.full(2, float(comm.rank)), 1)]
    MPI.Request.Waitall(requests)
    return total.tolist(), parts.tolist()


def in_place(comm):
    data = np.full(2, float(comm.rank))
    comm.Allreduce(MPI.IN_PLACE, data)
    comm.Iallreduce(MPI.IN_PLACE, data).Wait()
    return data.tolist()


def blocks_of_any_size(comm):
    counts = [rank + 1 for rank in range(comm.size)]
    got = np.zeros(sum(counts))
    comm.Allgatherv(np.full(comm.rank + 1, float(comm.rank)), [got, counts])
    return got.tolist()


def objects(comm):
    found = comm.allgather({"rank": comm.rank})
    comm.scatter(comm.gather(found, 1), 1)
    return comm.allreduce(comm.rank), comm.alltoall([comm.rank] * comm.size)


def bytes_of_numbers(comm):
    if comm.rank == 0:
        comm.Send(np.arange(2.0), 1)
    elif comm.rank == 1:
        raw = bytearray(16)
        comm.Recv(raw, 0)
        return np.frombuffer(raw).tolist()
    return None


def packed(comm):
    if comm.rank == 0:
        room = bytearray(64)
        end = MPI.DOUBLE.Pack(np.arange(2.0), room, 0, comm)
        comm.Send([room, end, MPI.PACKED], 1)
    elif comm.rank == 1:
        room, got = bytearray(64), np.zeros(2)
        comm.Recv([room, MPI.PACKED], 0)
        MPI.DOUBLE.Unpack(room, 0, got, comm)
        return got.tolist()
    return None


def to_nobody(comm):
    comm.Sendrecv(np.zeros(1), MPI.PROC_NULL, 0, np.zeros(1), MPI.PROC_NULL)
    comm.Isend(np.zeros(1), MPI.PROC_NULL).Wait()


def to_itself(comm):
    request = comm.Irecv(got := np.zeros(2), comm.rank)
    comm.Send(np.arange(2.0), comm.rank)
    request.Wait()
    return got.tolist()


def cancelled(comm):
    request = comm.Irecv(np.zeros(1), comm.rank, 99)
    request.Cancel()
    request.Wait()


def same_tag_in_order(comm):
    if comm.rank == 0:
        comm.Send(np.zeros(1), 1)
        comm.Send(np.zeros(1, "i4"), 1)
    elif comm.rank == 1:
        first, second = np.zeros(1), np.zeros(1, "i4")
        MPI.Request.Waitall([comm.Irecv(first, 0), comm.Irecv(second, 0)])


def parts_and_rows(comm):
    row = comm.Split(comm.rank // 2, comm.rank)
    total = row.allreduce(comm.rank)
    row.Free()
    return total


def on_a_grid(comm):
    grid = comm.Create_cart([comm.size], periods=[True])
    source, dest = grid.Shift(0, 1)
    got = np.zeros(1)
    grid.Sendrecv(np.array([grid.rank], "f8"), dest, 0, got, source)
    answer = np.zeros(2)
    grid.Neighbor_allgather(got, answer)
    grid.Free()
    return answer.tolist()


def a_window(comm):
    win = MPI.Win.Allocate(8 * comm.size, 8, comm=comm)
    win.Fence()
    win.Put(np.array([comm.rank], "f8"), 0, comm.rank)
    win.Fence()
    found = np.frombuffer(win, "f8").tolist()
    win.Free()
    return found


def a_counter(comm):
    win = MPI.Win.Allocate(8 * (comm.rank == 0), 8, comm=comm)
    win.Lock(0)
    win.Fetch_and_op(np.ones(1, "i8"), np.zeros(1, "i8"), 0)
    win.Unlock(0)
    comm.Barrier()
    total = int(np.frombuffer(win, "i8")[0]) if comm.rank == 0 else 0
    win.Free()
    return total


def sorted_by_samples(comm):
    from labkit.algorithms.sorting.sample_sort import sample_sort
    from labkit.datasets import inputs

    return sample_sort(comm, inputs.keys("uniform", comm.rank, comm.size, 50)).tolist()


def ended_by_hand(comm):
    total = comm.allreduce(1)
    MPI.Finalize()
    return total


def interleaved_columns(comm):
    table, column = np.zeros(8), MPI.DOUBLE.Create_vector(4, 1, 2).Commit()
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    requests = [comm.Irecv([table[k:], 1, column], left, k) for k in range(2)]
    requests += [comm.Isend(np.full(4, comm.rank + k / 2), right, k) for k in range(2)]
    table[:0] = 1
    MPI.Request.Waitall(requests)
    return table.tolist()


RIGHT = [
    interleaved_columns,
    halo, ring, ring_in_place, columns, one_buffer_to_many, sum_of_whoever_comes, placed_by_source, probed,
    matched_probe, polled, persistent, waited_one_by_one, some_at_a_time, any_at_a_time, in_place,
    nonblocking_collectives, blocks_of_any_size, objects, bytes_of_numbers, packed, to_nobody, to_itself,
    cancelled, same_tag_in_order, parts_and_rows, on_a_grid, a_window, a_counter, sorted_by_samples,
    ended_by_hand, masters_and_workers,
]  # fmt: skip


@pytest.mark.parametrize("program", RIGHT)
def test_right_programs_raise_no_alarm(program) -> None:
    plain = lk.run(program, 4, on="star:1,cores=8")
    run = lk.run(program, 4, on="star:1,cores=8", check=True, explore=3)
    alarms = [note for note in run.notes if note.startswith("check:") or "never received" in note]
    assert not alarms
    assert not run.exploration.differences
    assert repr(run.results) == repr(plain.results)
