"""Every way in which a simulated run can end badly, and that the process stays usable after each."""

from __future__ import annotations

import gc
import signal
import threading

import greenlet
import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.errors import DeadlockError, RankError, TimeLimitError
from tests.support.refusals import raises_code

unwound: list[int] = []


@pytest.fixture(autouse=True)
def process_stays_usable():
    unwound.clear()
    before = suspended()  # ranks that have aborted never go on
    yield
    assert lk.run(lambda comm: comm.allreduce(1), 3).results == [3, 3, 3]
    gc.collect()
    assert suspended() <= before


def suspended():
    found = [g for g in gc.get_objects() if type(g) is greenlet.greenlet]
    return {id(g) for g in found if g.gr_frame is not None}


def test_two_receives_facing_each_other() -> None:
    def program(comm):
        try:
            comm.Recv(np.zeros(4), source=1 - comm.rank, tag=7)
        finally:
            unwound.append(comm.rank)

    with pytest.raises(DeadlockError) as caught:
        lk.run(program, 2, isolate=False)
    found = caught.value
    assert (found.ranks, found.blocked, found.cycle) == (2, 2, [0, 1])
    text, peers = found.waits[0]
    assert peers == (1,)
    assert all(fact in text for fact in ("Recv", "tag 7", "test_endings.py:", "in program"))
    assert unwound == [0, 1]


def test_large_sends_facing_each_other_deadlock_and_small_ones_do_not() -> None:
    def program(comm, n):
        comm.Send(np.zeros(n), (comm.rank + 1) % comm.size)
        comm.Recv(np.zeros(n), (comm.rank - 1) % comm.size)

    lk.run(program, 3, args=(100,))
    with raises_code(DeadlockError, "deadlock", "rank 1, tag 0", "800000 B") as caught:
        lk.run(program, 3, args=(100_000,))
    assert caught.value.cycle == [0, 1, 2]


def test_a_rank_that_has_finished_cannot_be_waited_for() -> None:
    with raises_code(DeadlockError, "deadlock", "1", "3") as caught:
        lk.run(lambda comm: comm.rank == 0 or comm.recv(source=0), 3)
    assert {rank: peers for rank, (_, peers) in caught.value.waits.items()} == {1: (0,), 2: (0,)}


def test_a_deadlock_in_a_collective_names_who_is_missing() -> None:
    def program(comm):
        if comm.rank == 2:
            comm.recv(source=0)
        comm.allgather(1)

    with raises_code(DeadlockError, "deadlock", "ranks 0", "1", "3", "rank 2") as caught:
        lk.run(program, 4)
    assert caught.value.waits[2][1] == (0,)
    assert caught.value.cycle == [0, 2]


def test_a_program_that_swallows_the_deadlock_still_ends_with_it() -> None:
    def program(comm):
        while True:
            try:
                comm.recv()
            except Exception:
                unwound.append(comm.rank)
                if len(unwound) > 5:
                    return

    with pytest.raises(DeadlockError):
        lk.run(program, 2, isolate=False)
    assert len(unwound) > 5


def test_an_exception_names_the_rank_and_shows_the_program_only() -> None:
    def program(comm):
        try:
            if comm.rank == 1:
                raise ValueError("bad key")
            comm.recv(source=1)
        finally:
            unwound.append(comm.rank)

    with raises_code(RankError, "rank-failed", "rank 1", "ValueError") as caught:
        lk.run(program, 3, isolate=False)
    assert caught.value.rank == 1
    assert 'raise ValueError("bad key")' in caught.value.traceback
    assert "labkit/sim" not in caught.value.traceback
    assert 1 in unwound
    assert 0 in unwound


def test_only_the_first_failure_counts() -> None:
    def program(comm):
        try:
            if comm.rank == 0:
                raise KeyError("first")
            comm.barrier()
        finally:
            if comm.rank:
                raise RuntimeError("a consequence")

    with raises_code(RankError, "rank-failed", "rank 0", "KeyError"):
        lk.run(program, 3)


@pytest.mark.parametrize("code", [None, 0])
def test_leaving_with_code_0_is_an_end_like_any_other(code) -> None:
    def program(comm):
        comm.barrier()
        raise SystemExit(code)

    assert lk.run(program, 2).results == [None, None]


def test_leaving_with_another_code() -> None:
    with raises_code(RankError, "rank-failed", "rank 1", "3"):
        lk.run(lambda comm: exec("raise SystemExit(3)") if comm.rank else comm.barrier(), 2)


def test_a_rank_that_never_yields_meets_the_limit() -> None:
    def program(comm):
        if comm.rank == 1:
            try:
                while True:
                    pass
            finally:
                unwound.append(comm.rank)
        comm.recv(source=1)

    with raises_code(
        TimeLimitError, "time-limit", "0.3 s", "rank 1: running at ", "rank 0: recv from rank 1"
    ):
        lk.run(program, 2, timeout_s=0.3, isolate=False)
    assert unwound == [1]


@pytest.mark.parametrize("left", [2, 3, 5, 30])
def test_the_limit_is_told_from_a_stack_that_is_used_up(left: int) -> None:
    """The report of the limit needs frames of its own; without them the rank seemed to recurse too deeply."""

    def frames_left(used=0):
        try:
            return frames_left(used + 1)
        except RecursionError:
            return used

    def descend(levels, comm):
        if levels > 0:
            return descend(levels - 1, comm)
        while comm.rank == 1:
            pass
        return comm.recv(source=1)

    def program(comm):
        return descend(frames_left() - left if comm.rank == 1 else 0, comm)

    gc.disable()  # a collection calls what Hypothesis has left with it: the limit may find the rank there
    try:
        with raises_code(TimeLimitError, "time-limit", "rank 1"):
            lk.run(program, 3, timeout_s=0.2)
    finally:
        gc.enable()


def test_the_limit_works_on_other_threads() -> None:
    caught: list[BaseException] = []

    def program(comm):
        n = 0
        while comm.rank == 0:
            n += 1
        comm.barrier()

    def run() -> None:
        try:
            lk.run(program, 2, timeout_s=0.3)
        except TimeLimitError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert len(caught) == 1
    assert "rank 0: running at " in str(caught[0])


def test_ranks_that_talk_for_ever_meet_the_limit() -> None:
    def program(comm):
        while True:
            comm.barrier()

    with raises_code(TimeLimitError, "time-limit"):
        lk.run(program, 16, timeout_s=0.3)


def test_a_rank_that_is_ahead_of_the_others_waits_for_no_rank() -> None:
    def program(comm):
        window = MPI.Win.Create(np.zeros(1), comm=comm)
        if comm.rank == 1:
            comm.send(None, 0)
            lk.compute(seconds=1.0)
            window.Lock(1)
        comm.recv(source=1)
        while True:
            pass

    with raises_code(TimeLimitError, "time-limit") as caught:
        lk.run(program, 2, timeout_s=0.5)
    state = next(line for line in str(caught.value).splitlines() if "rank 1: " in line)
    assert "rank 1: Lock at " in state
    assert " from " not in state


def test_an_error_in_an_operator_and_communication_in_one() -> None:
    def fails(left, right, datatype):
        raise ZeroDivisionError("in the operator")

    def talks(left, right, datatype):
        MPI.COMM_WORLD.Barrier()

    def program(comm, function):
        op = MPI.Op.Create(function)
        comm.Allreduce(np.ones(1), np.ones(1), op)

    with raises_code(RankError, "rank-failed"):
        lk.run(program, 4, args=(fails,))
    with raises_code(RankError, "unsupported"):
        lk.run(program, 4, args=(talks,))


def test_an_interrupt_ends_the_run() -> None:
    def program(comm):
        if comm.rank == 1:
            signal.raise_signal(signal.SIGINT)
        comm.recv()

    with pytest.raises(KeyboardInterrupt):
        lk.run(program, 2)


def test_a_program_that_raises_the_interrupt_has_failed() -> None:
    def program(comm):
        if comm.rank == 1:
            raise KeyboardInterrupt
        comm.recv()

    with raises_code(RankError, "rank-failed", "rank 1", "KeyboardInterrupt"):
        lk.run(program, 2)


def test_a_run_within_a_rank() -> None:
    def inner(comm):
        return comm.allreduce(comm.rank)

    def program(comm):
        return comm.allreduce(lk.run(inner, 3).results[0])

    assert lk.run(program, 2).results == [6, 6]


def test_many_ranks_and_runs_leave_nothing_behind() -> None:
    def program(comm):
        comm.isend(comm.rank, (comm.rank + 1) % comm.size)
        comm.irecv(source=MPI.ANY_SOURCE, tag=77)  # never matched, handle dropped
        return comm.recv()

    assert lk.run(program, 500).results == [(r - 1) % 500 for r in range(500)]
