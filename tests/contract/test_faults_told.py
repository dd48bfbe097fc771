"""Thirty-eight wrong programs, each told with rank and line.

The line that must be named is marked; a rank that must be named stands beside it in the table.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import MPI

ANY = MPI.ANY_SOURCE


def everything_said(program: Any, ranks: int, **how: Any) -> str:
    """Return what a run says: its error with its notes, or the notes of the run."""
    try:
        run = lk.run(program, ranks, on="star:1,cores=8", **how)
    except lk.errors.LabkitError as error:
        return "\n".join([str(error), *getattr(error, "__notes__", ())])
    return "\n".join(run.notes)


def marked(program: Any) -> list[str]:
    """Return the marked lines of a program, as file:line."""
    lines, first = inspect.getsourcelines(program)
    return [f"test_faults_told.py:{first + at}" for at, line in enumerate(lines) if "# <-" in line]


# --- deadlocks -------------------------------------------------------------------------------------------


def both_receive_first(comm):
    got = comm.recv(source=1 - comm.rank)  # <-
    comm.send(got, 1 - comm.rank)


def ring_of_synchronous_sends(comm):
    comm.ssend(comm.rank, (comm.rank + 1) % comm.size)  # <-
    comm.recv()


def one_leaves_the_barrier_out(comm):
    if comm.rank:
        comm.Barrier()  # <-


def another_tag(comm):
    if comm.rank == 0:
        comm.send("x", 1, tag=1)
    else:
        comm.recv(source=0, tag=2)  # <-


def another_source(comm):
    if comm.rank == 0:
        comm.send("x", 1)
    elif comm.rank == 1:
        comm.recv(source=2)  # <-


def a_member_of_the_part_is_missing(comm):
    part = comm.Split(comm.rank // 2)
    if comm.rank != 2:
        part.allreduce(1)  # <-


def a_wait_for_nobody(comm):
    request = comm.Irecv(np.zeros(1), source=1 - comm.rank)
    request.Wait()  # <-


# --- collectives that do not match -----------------------------------------------------------------------


def another_collective(comm):
    data = np.zeros(2)
    if comm.rank == 1:
        comm.Barrier()  # <-
    else:
        comm.Bcast(data)


def another_lower_case_collective(comm):
    if comm.rank == 1:
        comm.gather(1)  # <-
    else:
        comm.bcast(1)


def another_root(comm):
    comm.Bcast(np.zeros(2), root=comm.rank)  # <-


def another_lower_case_root(comm):
    comm.reduce(1, root=comm.rank)  # <-


def another_operator(comm):
    comm.Allreduce(np.zeros(2), np.zeros(2), MPI.MAX if comm.rank else MPI.SUM)  # <-


def another_lower_case_operator(comm):
    comm.allreduce(1, MPI.MAX if comm.rank else MPI.SUM)  # <-


def another_count(comm):
    n = 3 + comm.rank
    comm.Allreduce(np.zeros(n), np.zeros(n))  # <-


def another_type(comm):
    data = np.zeros(2, "f8" if comm.rank else "i4")
    comm.Allreduce(data, data.copy())  # <-


def blocks_that_do_not_fit(comm):
    give, take = [1] * comm.size, [1 + comm.rank] * comm.size
    comm.Alltoallv([np.zeros(8), give], [np.zeros(16), take])  # <-


# --- messages --------------------------------------------------------------------------------------------


def truncated(comm):
    if comm.rank == 0:
        comm.Send(np.zeros(4), 1)
    else:
        comm.Recv(np.zeros(2), source=0)  # <-


def nobody_receives(comm):
    if comm.rank == 0:
        comm.send("x", 1, tag=7)  # <-


def never_waited_for_a_receive(comm):
    got = np.zeros(1)
    if comm.rank == 0:
        comm.Send(got, 1)
    else:
        kept.append(comm.Irecv(got, source=0))  # <-


kept: list[Any] = []


def never_waited_for_a_send(comm):
    if comm.rank == 0:
        comm.Isend(np.zeros(1), 1)  # <-
    else:
        comm.Recv(np.zeros(1), source=0)


def changed_before_the_wait(comm):
    data = np.zeros(2)
    if comm.rank == 0:
        request = comm.Isend(data, 1)  # <-
        data[0] = 1
        request.Wait()  # <-
    else:
        comm.Recv(data, source=0)


def changed_a_column_before_the_wait(comm):
    table, column = np.zeros((3, 3)), MPI.DOUBLE.Create_vector(3, 1, 3).Commit()
    if comm.rank == 0:
        request = comm.Isend([table, 1, column], 1)  # <-
        table[1, 0] = 1
        request.Wait()  # <-
    else:
        comm.Recv(table[0], source=0)


def another_struct_at_the_other_end(comm):
    kinds = [MPI.INT, MPI.DOUBLE]
    pair = MPI.Datatype.Create_struct([1, 1], [0, 8], kinds if comm.rank else kinds[::-1]).Commit()
    if comm.rank == 0:
        comm.Send([bytearray(16), 1, pair], 1)  # <-
    else:
        comm.Recv([bytearray(16), 1, pair], source=0)  # <-


def overlapping_receives(comm):
    data = np.zeros(3)
    if comm.rank == 0:
        for tag in range(2):
            comm.Send(data[:2], 1, tag)
    else:
        requests = [comm.Irecv(data[:2], 0, 0)]  # <-
        requests.append(comm.Irecv(data[1:], 0, 1))  # <-
        MPI.Request.Waitall(requests)


def sent_while_received_into(comm):
    data = np.zeros(2)
    if comm.rank == 0:
        comm.Send(data, 1)
        comm.Recv(data, 1)
    else:
        request = comm.Irecv(data, 0)  # <-
        comm.Send(data, 0)  # <-
        request.Wait()


def sent_and_received_in_one_buffer(comm):
    data = np.zeros(2)
    comm.Sendrecv(data, 1 - comm.rank, 0, data, 1 - comm.rank)  # <-


def another_type_at_the_other_end(comm):
    if comm.rank == 0:
        comm.Send(np.zeros(2), 1)  # <-
    else:
        comm.Recv(np.zeros(2, "i8"), source=0)  # <-


def another_type_at_a_later_wait(comm):
    if comm.rank == 0:
        comm.Send(np.zeros(2, "f4"), 1)  # <-
    else:
        comm.Irecv(np.zeros(2, "i4"), source=0).Wait()  # <-


def an_object_into_a_buffer(comm):
    if comm.rank == 0:
        comm.send(1.0, 1)  # <-
    else:
        comm.Recv(np.zeros(64), source=0)  # <-


def a_rank_that_there_is_not(comm):
    comm.send(1, comm.size)  # <-


def a_negative_tag(comm):
    comm.send(1, 0, tag=-5)  # <-


# --- timing ----------------------------------------------------------------------------------------------


def first_come(comm):
    if comm.rank == 0:
        return [comm.recv(source=ANY) for _ in range(comm.size - 1)]  # <-
    comm.send(comm.rank, 0)
    return None


def first_come_after_work(comm):
    comm.Barrier()
    if comm.rank == 0:
        first, second = np.zeros(1), np.zeros(1)
        comm.Recv(first, ANY)  # <-
        comm.Recv(second, ANY)
        return float(first[0] - second[0])
    lk.compute(seconds=1e-4 * comm.rank)
    comm.Send(np.array([comm.rank], "f8"), 0)
    return None


def locked_up_in_another_order(comm):
    if comm.rank == 0:
        comm.recv(source=ANY)
        comm.recv(source=2)  # <-
    else:
        lk.compute(seconds=1e-5 * comm.rank)
        comm.send(comm.rank, 0)


# --- windows, start and end ------------------------------------------------------------------------------


def two_puts_in_one_epoch(comm):
    win = MPI.Win.Allocate(8, comm=comm)
    win.Fence()
    win.Put(np.zeros(1), 0)  # <-
    win.Fence()
    win.Free()


def a_window_that_is_kept(comm):
    MPI.Win.Allocate(8, comm=comm)  # <-


def a_put_outside_an_epoch(comm):
    win = MPI.Win.Allocate(8, comm=comm)
    win.Put(np.zeros(1), 0)  # <-


def after_the_end(comm):
    MPI.Finalize()  # <-
    comm.Barrier()


CHECK, EXPLORE = {"check": True}, {"explore": 20}
FAULTS = [
    (both_receive_first, 2, {}, "rank"), (ring_of_synchronous_sends, 3, {}, "rank"),
    (one_leaves_the_barrier_out, 3, {}, "rank 0"), (another_tag, 2, {}, "rank 1"),
    (another_source, 3, {}, "rank 1"), (a_member_of_the_part_is_missing, 4, {}, "rank 3"),
    (a_wait_for_nobody, 2, {}, "rank"), (another_collective, 2, {}, "rank 1"),
    (another_lower_case_collective, 2, {}, "rank 1"), (another_root, 2, {}, "rank 1"),
    (another_lower_case_root, 2, {}, "rank 1"), (another_operator, 2, {}, "rank 1"),
    (another_lower_case_operator, 2, {}, "rank 1"), (another_count, 2, {}, "rank 1"),
    (another_type, 2, {}, "rank 1"), (blocks_that_do_not_fit, 2, {}, "rank"), (truncated, 2, {}, "rank 1"),
    (nobody_receives, 2, CHECK, "rank 0"), (never_waited_for_a_receive, 2, CHECK, "rank 1"),
    (never_waited_for_a_send, 2, CHECK, "rank 0"), (changed_before_the_wait, 2, CHECK, "rank 0"),
    (changed_a_column_before_the_wait, 2, CHECK, "rank 0"),
    (another_struct_at_the_other_end, 2, CHECK, "rank 1"), (overlapping_receives, 2, CHECK, "rank 1"),
    (sent_while_received_into, 2, CHECK, "rank 1"),
    (sent_and_received_in_one_buffer, 2, CHECK, "rank 1"),
    (another_type_at_the_other_end, 2, CHECK, "rank 0"), (another_type_at_a_later_wait, 2, CHECK, "rank 1"),
    (an_object_into_a_buffer, 2, CHECK, "rank 1"), (a_rank_that_there_is_not, 2, {}, "rank 0"),
    (a_negative_tag, 2, {}, "rank 0"), (first_come, 4, EXPLORE, "rank 0"),
    (first_come_after_work, 3, EXPLORE, "rank 0"), (locked_up_in_another_order, 3, EXPLORE, "rank 0"),
    (two_puts_in_one_epoch, 2, {}, "rank 1"), (a_window_that_is_kept, 2, {}, "rank"),
    (a_put_outside_an_epoch, 2, {}, "rank 0"), (after_the_end, 2, {}, "rank 0"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("program", "ranks", "how", "who"), FAULTS, ids=lambda one: getattr(one, "__name__", None)
)
def test_faults_are_told_with_rank_and_line(program, ranks, how, who) -> None:
    said = everything_said(program, ranks, **how)
    assert who in said, said
    said = re.sub(r'", line (\d+), in ', r":\1 in ", said)  # as a traceback has it
    for place in marked(program):
        assert place in said, said
