"""Windows: what is said about wrong programs, and that right ones raise no alarm."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from tests.support.refusals import raises_code


def line_of(function, text: str) -> str:
    """`file:line` of the line of a function that contains a text."""
    lines, first = inspect.getsourcelines(function)
    return (
        f"{inspect.getsourcefile(function)}:{first + next(i for i, one in enumerate(lines) if text in one)}"
    )


def two_puts(comm):
    win = MPI.Win.Allocate(8, 8, comm=comm)
    win.Set_name("halo")
    win.Fence()
    if comm.rank in (1, 2):
        win.Put(np.array([comm.rank * 1.0]), 0)  # both
    win.Fence()
    win.Free()


def put_and_get(comm):
    win = MPI.Win.Allocate(16, 8, comm=comm)
    win.Lock_all()
    if comm.rank == 1:
        win.Put(np.zeros(2), 0)  # both
    if comm.rank == 2:
        win.Get(np.zeros(1), 0, 1)  # both
    win.Unlock_all()
    win.Free()


def two_operators(comm):
    win = MPI.Win.Allocate(8, 8, comm=comm)
    win.Fence()
    op = MPI.SUM if comm.rank == 1 else MPI.MAX
    if comm.rank in (1, 2):
        win.Accumulate(np.array([comm.rank * 1.0]), 0, op=op)  # both
    win.Fence()
    win.Free()


def one_rank_twice(comm):
    win = MPI.Win.Allocate(8, 8, comm=comm)
    win.Fence()
    if comm.rank == 1:
        win.Put(np.zeros(1), 0)  # both
        win.Get(np.zeros(1), 0)
    win.Fence()
    win.Free()


@pytest.mark.parametrize("program", [two_puts, put_and_get, two_operators, one_rank_twice])
def test_a_race_is_told_with_its_ranks_and_lines(program) -> None:
    notes = lk.run(program, 3, "star:3").notes
    assert len(notes) == 1
    assert notes[0].startswith("race on the window")
    assert line_of(program, "# both") in notes[0]
    assert "rank 1" in notes[0]
    assert "of rank 0" in notes[0]
    assert ("rank 2" in notes[0]) == (program is not one_rank_twice)
    assert ("'halo'" in notes[0]) == (program is two_puts)


def apart(comm, win):
    win.Fence()
    win.Put(np.zeros(1), 0, comm.rank)
    win.Fence()


def same_operator(comm, win):
    win.Fence()
    win.Accumulate(np.ones(1), 0)
    win.Fence()


def fetched(comm, win):
    win.Lock_all()
    win.Fetch_and_op(np.ones(1), np.zeros(1), 0)
    win.Fetch_and_op(np.ones(1), np.zeros(1), 0, op=MPI.NO_OP)
    win.Unlock_all()


def all_read(comm, win):
    win.Fence()
    win.Get(np.zeros(4), 0)
    win.Fence()


def one_after_another(comm, win):
    for rank in range(comm.size):
        win.Fence()
        if rank == comm.rank:
            win.Put(np.zeros(1), 0)
    win.Fence()


def flushed_in_turn(comm, win):
    win.Lock_all()
    if comm.rank:
        comm.recv(source=comm.rank - 1)
    win.Put(np.zeros(1), 0)
    win.Flush(0)
    if comm.rank + 1 < comm.size:
        comm.send(None, comm.rank + 1)
    win.Unlock_all()


def under_exclusive_locks(comm, win):
    win.Lock(0)
    win.Put(np.zeros(1), 0)
    win.Unlock(0)


def other_targets(comm, win):
    win.Fence()
    win.Put(np.zeros(1), (comm.rank + 1) % comm.size)
    win.Fence()


RIGHT = [
    apart, same_operator, fetched, all_read, one_after_another, flushed_in_turn, under_exclusive_locks,
    other_targets,
]  # fmt: skip


@pytest.mark.parametrize("body", RIGHT)
def test_right_programs_raise_no_alarm(body) -> None:
    def program(comm):
        win = MPI.Win.Allocate(64, 8, comm=comm)
        body(comm, win)
        win.Free()

    for ranks in (1, 2, 3, 5, 8):
        assert lk.run(program, ranks, f"star:{ranks}").notes == []


WRONG = {
    "outside": (lambda win: win.Put(np.zeros(1), 0), MPI.ERR_RMA_SYNC, "Put to rank 0 outside any epoch"),
    "unlock": (lambda win: win.Unlock(0), MPI.ERR_RMA_SYNC, "Unlock of rank 0"),
    "flush": (lambda win: win.Flush_all(), MPI.ERR_RMA_SYNC, "Flush_all without a lock"),
    "complete": (lambda win: win.Complete(), MPI.ERR_RMA_SYNC, "Complete without Start"),
    "wait": (lambda win: win.Wait(), MPI.ERR_RMA_SYNC, "Wait without Post"),
    "type": (lambda win: win.Lock(0, 7), MPI.ERR_LOCKTYPE, "lock_type=7"),
    "rank": (lambda win: win.Lock(9), MPI.ERR_RANK, "rank 9 is not of this window"),
    "range": (lambda win: (win.Lock(0), win.Put(np.zeros(3), 0)), MPI.ERR_RMA_RANGE, "it has 16 bytes"),
    "before": (lambda win: (win.Lock(0), win.Put(np.zeros(1), 0, -1)), MPI.ERR_DISP, "displacement -1"),
    "amount": (
        lambda win: (win.Lock(0), win.Put(np.zeros(2), 0, (0, 1, MPI.DOUBLE))),
        MPI.ERR_TRUNCATE,
        "16 bytes) at the origin, but 1 x MPI_DOUBLE (8 bytes) at the target",
    ),
    "amount from oneself": (
        lambda win: (win.Lock(win.group.rank), win.Get(np.zeros(1), win.group.rank, (0, 2, MPI.DOUBLE))),
        MPI.ERR_TRUNCATE,
        "8 bytes) at the origin, but 2 x MPI_DOUBLE (16 bytes) at the target",
    ),
    "own operator": (
        lambda win: (win.Lock(0), win.Accumulate(np.zeros(1), 0, op=MPI.Op.Create(lambda a, b, t: None))),
        MPI.ERR_OP,
        "MPI's own operators",
    ),
    "operator": (
        lambda win: (win.Lock(0), win.Accumulate(np.zeros(1), 0, op=MPI.BAND)), MPI.ERR_OP, "not defined on",
    ),
    "attach": (lambda win: win.Attach(np.zeros(1)), MPI.ERR_RMA_FLAVOR, "Create_dynamic"),
    "freed with a lock": (lambda win: (win.Lock(0), win.Free()), MPI.ERR_RMA_SYNC, "holds a lock"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_wrong_calls_say_what_is_allowed(what) -> None:
    call, kind, text = WRONG[what]

    def program(comm):
        win = MPI.Win.Allocate(16, 8, comm=comm)
        with pytest.raises(MPI.Exception) as caught:
            call(win)
        assert caught.value.Get_error_class() == kind
        return str(caught.value)

    assert text in lk.run(program, 1, "star:1").results[0]


def test_windows_that_are_kept_are_told() -> None:
    def program(comm):
        win = MPI.Win.Allocate(8, comm=comm)
        if comm.rank == 1:
            win.Lock(0)

    (note,) = lk.run(program, 3, "star:3").notes
    assert line_of(program, "Win.Allocate(8") in note
    assert "was not freed by ranks 0-2" in note
    assert f"rank 1 still holds a lock that it took at {line_of(program, 'win.Lock(0)')}" in note


def test_a_deadlock_of_locks_names_their_holders() -> None:
    def program(comm):
        win = MPI.Win.Allocate(8, comm=comm)
        win.Lock(comm.rank)
        comm.Barrier()
        win.Lock(1 - comm.rank)

    with pytest.raises(lk.errors.DeadlockError) as caught:
        lk.run(program, 2, "star:2")
    text, peers = caught.value.waits[0]
    assert peers == (1,)
    assert caught.value.cycle == [0, 1]
    assert all(
        fact in text for fact in ("Lock of rank 1", line_of(program, "1 - comm.rank").rpartition("/")[2])
    )


def test_ranks_that_do_not_agree_are_told() -> None:
    def program(comm):
        win = MPI.Win.Allocate(8, comm=comm)
        win.Fence() if comm.rank else win.Free()

    with raises_code(lk.errors.MismatchError, "collective-mismatch"):
        lk.run(program, 2, "star:2")
