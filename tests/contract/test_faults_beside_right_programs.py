"""Wrong programs, each beside the right one that it differs from by a word: told, and no alarm."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import MPI


def said(program: Any, ranks: int, right: bool) -> str:
    """Return what a checked run says: its error, or its notes."""
    try:
        run = lk.run(program, ranks, on="star:1,cores=8", check=True, explore=2, args=(right,))
    except lk.errors.LabkitError as error:
        return "\n".join([str(error), *getattr(error, "__notes__", ())])
    return "\n".join(note for note in run.notes if not note.startswith("explored"))


def one_group_gathers(comm, right):
    side = comm.rank % 2
    part = comm.Split(side, comm.rank)
    both = part.Create_intercomm(0, comm, 1 - side, 9)
    if right or side == 0:
        both.allgather(comm.rank)  # <- rank 0 calls allgather where rank 1 called allreduce
    else:
        both.allreduce(comm.rank)
    both.Free()
    part.Free()


def one_rank_gathers_for_itself(comm, right):
    if right or comm.rank != 2:
        comm.allgather(comm.rank)
    else:
        comm.gather(comm.rank)  # <- rank 2 calls gather where rank 0 called allgather


def one_rank_takes_another_root(comm, right):
    root = 0 if right or comm.rank < 2 else 1
    parts = list(range(comm.size)) if comm.rank == root else None
    comm.scatter(parts, root)  # <- scatter with root=1 at rank 2


def an_object_where_a_buffer_is_taken(comm, right):
    data = np.zeros(3)
    if right or comm.rank:
        comm.Bcast(data)  # <- which lower-case bcast sends first
    else:
        comm.bcast(data)


def another_buffer_of_the_loop(comm, right):
    if comm.rank:
        comm.Recv(np.empty(20000), 0)
        return
    buffers, requests = [np.full(20000, float(k)) for k in range(1, comm.size)], []
    for number, one in enumerate(buffers, 1):
        requests.append(comm.Isend(one, number))  # <- its buffer was changed before Waitany
    for _ in buffers:
        done = MPI.Request.Waitany(requests)
        buffers[done if right else done - 1][:] = -1


def cleared_too_late(comm, right):
    data = np.ones(5)
    if comm.rank == 0:
        data[:] = 0
        request = comm.Irecv(data, 1)  # <- its buffer was written into before its Wait
        if not right:
            data[2] = 7
        request.Wait()
        data[2] = 7
    elif comm.rank == 1:
        comm.Send(data, 0)


def a_column_across_a_row(comm, right):
    win = MPI.Win.Allocate(8 * 16 * (comm.rank == 0), 8, comm=comm)
    column = MPI.DOUBLE.Create_vector(4, 1, 4).Commit()
    win.Fence()
    if comm.rank == 1:
        win.Put([np.ones(4), 4, MPI.DOUBLE], 0, [2, 1, column])
    if right:
        win.Fence()
    if comm.rank == 2:
        win.Put(np.ones(4), 0, [4, 4, MPI.DOUBLE])  # <- are both at bytes 48 to 55 of rank 0 in one epoch
    win.Fence()
    win.Free()
    column.Free()


def sums_and_products(comm, right):
    win = MPI.Win.Allocate(8 * (comm.rank == 0), 8, comm=comm)
    win.Fence()
    op = MPI.SUM if right or comm.rank == 1 else MPI.PROD
    if comm.rank:
        win.Accumulate(np.ones(1), 0, op=op)  # <- nothing orders them
    win.Fence()
    win.Free()


def stores_where_another_rank_puts(comm, right):
    win = MPI.Win.Allocate(16, 8, comm=comm)
    mine = np.frombuffer(win, "f8")
    win.Fence()
    if comm.rank == 0:
        win.Put(np.ones(1), 1)  # <- rank 1 itself has stored into bytes 0 to 7 of its part
    mine[1 if right else 0] = 5
    win.Fence()
    mine[:] = 0
    win.Fence()
    win.Free()


def stores_while_another_rank_reads(comm, right):
    win = MPI.Win.Allocate(8, 8, comm=comm)
    mine = np.frombuffer(win, "f8")
    win.Fence()
    got = np.zeros(1)
    win.Get(got, (comm.rank + 1) % comm.size)  # <- itself has stored into bytes 0 to 7 of its part
    if right:
        win.Fence()
    mine[0] = comm.rank + 1
    win.Fence()
    win.Lock(comm.rank)
    mine[0] += 1
    win.Unlock(comm.rank)
    comm.Barrier()
    win.Lock(0, MPI.LOCK_SHARED)
    win.Get(got, 0)
    win.Unlock(0)
    comm.Barrier()
    win.Free()


def clears_what_it_reads_too_early(comm, right):
    win = MPI.Win.Create(np.full(3, float(comm.rank)), 8, comm=comm)
    got = np.zeros(3)
    win.Fence()
    for _ in range(2):
        win.Get(got, (comm.rank + 1) % comm.size)  # <- its buffer at the origin was changed before Fence
        if not right:
            got[1] = 7
        win.Fence()
        got[:] = 0
    win.Free()


def fills_anew_what_it_puts(comm, right):
    win = MPI.Win.Allocate(8 * comm.size, 8, comm=comm)
    given = np.ones(1)
    win.Lock_all()
    for target in range(comm.size):
        given[0] = target
        win.Put(given, target, comm.rank)  # <- its buffer at the origin was changed before Unlock_all
        if right:
            win.Flush_local(target)
    win.Unlock_all()
    win.Free()


def reads_what_it_gets_too_early(comm, right):
    win = MPI.Win.Create(np.full(3, 1.0 + comm.rank), 8, comm=comm)
    got = np.zeros(3)
    comm.Barrier()
    win.Lock(0, MPI.LOCK_SHARED)
    win.Get([got, MPI.DOUBLE], 0)  # <- its buffer at the origin was read at line
    if right:
        win.Flush(0)
    first = got[0]
    win.Unlock(0)
    assert not right or first == 1
    comm.Barrier()
    win.Free()


def reads_what_it_receives_too_early(comm, right):
    got = np.zeros(2)
    for _ in range(2):
        request = comm.Irecv(got, (comm.rank - 1) % comm.size)  # <- its buffer was read at line
        comm.Send(np.ones(2), (comm.rank + 1) % comm.size)
        if right:
            request.Wait()
        if got.sum() > 9 and len(got):
            comm.Abort()
        request.Wait()


def changes_what_a_started_request_sums(comm, right):
    given, sums = np.ones(4), np.empty(4)
    request = comm.Allreduce_init(given, sums)  # <- its buffer was changed before Wait
    for _ in range(2):
        request.Start()
        if not right:
            given[0] += 7
        request.Wait()
        given[1] = sums[0]
    request.Free()


def sends_what_a_started_request_receives(comm, right):
    got, me = np.zeros(4), comm.rank
    requests = [comm.Recv_init(got, (me - 1) % comm.size), comm.Send_init(np.ones(4), (me + 1) % comm.size)]
    MPI.Prequest.Startall(requests)
    if right:
        MPI.Request.Waitall(requests)
    comm.allgather(me)
    comm.Bcast(got)  # <- that rank 0: Recv_init at
    MPI.Request.Waitall(requests)
    for request in requests:
        request.Free()


def nobody_takes_what_was_probed(comm, right):
    if comm.rank == 0:
        comm.send("x", 1, tag=7)  # <- which was never received
    elif comm.rank == 1:
        comm.probe(source=0, tag=7)
        if right:
            comm.recv(source=0, tag=7)


def everybody_begins_a_barrier(comm, right):
    request = comm.Ibarrier()  # <- ranks 0-3: Ibarrier
    if right:
        request.Wait()


PROGRAMS = [
    one_group_gathers, one_rank_gathers_for_itself, one_rank_takes_another_root,
    an_object_where_a_buffer_is_taken, another_buffer_of_the_loop, cleared_too_late, a_column_across_a_row,
    sums_and_products, stores_where_another_rank_puts, stores_while_another_rank_reads,
    clears_what_it_reads_too_early, fills_anew_what_it_puts,
    reads_what_it_gets_too_early, reads_what_it_receives_too_early, changes_what_a_started_request_sums,
    sends_what_a_started_request_receives, nobody_takes_what_was_probed, everybody_begins_a_barrier,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_wrong_one_is_told_and_the_right_one_raises_no_alarm(program) -> None:
    lines, first = inspect.getsourcelines(program)
    at = next(number for number, line in enumerate(lines) if "# <-" in line)
    text = said(program, 4, right=False)
    assert lines[at].partition("# <- ")[2].strip() in text
    assert f"test_faults_beside_right_programs.py:{first + at}" in text
    assert not said(program, 4, right=True)


def test_windows_of_one_line_that_are_kept_are_told_once() -> None:
    def program(comm):
        for _ in range(3):
            MPI.Win.Allocate(8, comm=comm)

    found = [note for note in lk.run(program, 2, on="star:2").notes if "was not freed" in note]
    assert len(found) == 1
    assert found[0].endswith("(3 of them)")
