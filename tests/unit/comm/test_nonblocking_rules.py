"""What MPI asks of nonblocking collectives, and what becomes of programs that break it."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.errors import DeadlockError, MismatchError, RankError, UnsupportedError
from tests.support.refusals import raises_code


def test_other_orders_are_a_mismatch() -> None:
    def program(comm):
        first, second = (comm.Ibarrier, lambda: comm.Ibcast(np.zeros(1)))[:: 1 if comm.rank else -1]
        MPI.Request.Waitall([first(), second()])

    with raises_code(MismatchError, "collective-mismatch", "rank 1", "rank 0"):
        lk.run(program, 2)


@pytest.mark.parametrize("start", [lambda comm: comm.Ibarrier().Wait(), lambda comm: comm.Barrier_init()])
def test_blocking_ones_do_not_match_others(start) -> None:
    with raises_code(MismatchError, "collective-mismatch", "rank 0"):
        lk.run(lambda comm: start(comm) if comm.rank else comm.Barrier(), 3)


@pytest.mark.parametrize(
    ("calls", "code", "fact"),
    [
        (lambda comm, x: comm.Ibcast(x, root=comm.rank), "root-mismatch", "root"),
        (
            lambda comm, x: comm.Iallreduce(x[: 1 + comm.rank], x[: 1 + comm.rank].copy()),
            "collective-mismatch",
            "bytes",
        ),
        (
            lambda comm, x: comm.Iallreduce(x, x.copy(), MPI.MAX if comm.rank else MPI.SUM),
            "collective-mismatch",
            "op",
        ),
        (
            lambda comm, x: comm.Allreduce_init(x, x.copy(), MPI.MAX if comm.rank else MPI.SUM),
            "collective-mismatch",
            "op",
        ),
    ],
)
def test_other_arguments_are_a_mismatch(calls, code, fact) -> None:
    with raises_code(MismatchError, code, fact):
        lk.run(lambda comm: calls(comm, np.zeros(4)).Wait(), 2)


def test_a_deadlock_names_the_collective_and_who_is_missing() -> None:
    def program(comm):
        x = np.zeros(1)
        if comm.rank == 2:
            comm.Recv(x, 0)
        else:
            MPI.Request.Waitall([comm.Irecv(x, 2, 5), comm.Iallreduce(x, x.copy())])

    with pytest.raises(DeadlockError) as caught:
        lk.run(program, 4)
    peers = {rank: peers for rank, (_, peers) in caught.value.waits.items()}
    assert peers == {0: (2,), 1: (2,), 2: (0,), 3: (2,)}
    assert "Iallreduce" in caught.value.waits[0][0]
    assert caught.value.cycle == [0, 2]


def test_a_deadlock_names_the_root() -> None:
    with pytest.raises(DeadlockError) as caught:
        lk.run(lambda comm: comm.rank == 1 and comm.Ibcast(np.zeros(1), root=2).Wait(), 4)
    text, peers = caught.value.waits[1]
    assert peers == (0, 2, 3)
    assert "Ibcast with root 2" in text


def test_a_deadlock_of_a_bundle_names_its_message() -> None:
    def program(comm):
        right = (comm.rank + 1) % comm.size
        comm.Isendrecv(np.zeros(1), right, 1, np.zeros(1), right, 2).Wait()

    with raises_code(DeadlockError, "deadlock", "rank 0", "rank 1, tag 2"):
        lk.run(program, 3)


@pytest.mark.parametrize("method", ["Cancel", "Free"])
def test_only_single_messages_can_be_cancelled_or_freed(method) -> None:
    def program(comm):
        request = comm.Ibarrier()
        with pytest.raises(MPI.Exception) as caught:
            getattr(request, method)()
        assert caught.value.Get_error_class() == MPI.ERR_REQUEST
        request.Wait()
        with pytest.raises(MPI.Exception):
            getattr(request, method)()

    lk.run(program, 2)


def test_requests_and_buffers_that_nobody_keeps_go_on() -> None:
    def program(comm):
        received = np.zeros(50_000)
        comm.Iallreduce(np.full(50_000, 1.0), received)
        gc.collect()
        lk.compute(seconds=1.0)
        comm.Barrier()
        return received.min(), received.max()

    assert lk.run(program, 3).results == [(3.0, 3.0)] * 3


def test_a_run_may_end_with_collectives_under_way() -> None:
    run = lk.run(lambda comm: comm.Ialltoall(np.zeros(5 * 10**4), np.zeros(5 * 10**4)) and None, 5)
    assert run.results == [None] * 5


def test_a_program_of_one_rank_needs_no_message() -> None:
    def program(comm):
        x, y = np.arange(3.0), np.zeros(3)
        comm.Iallreduce(x, y).Wait()
        MPI.COMM_SELF.Iallgather(x, y).Wait()
        return y.tolist()

    run = lk.run(program, 1)
    assert run.results == [[0.0, 1.0, 2.0]]
    assert run.messages == 0


def test_an_operator_of_the_program_is_applied_in_rank_order_and_may_fail() -> None:
    def matrices(comm):
        def product(left, right, datatype):
            a, b = np.frombuffer(left, np.int64).reshape(2, 2), np.frombuffer(right, np.int64).reshape(2, 2)
            b[...] = a @ b

        op = MPI.Op.Create(product, commute=False)
        mine, result = np.array([[1, comm.rank], [1, 1]]), np.zeros((2, 2), np.int64)
        comm.Iallreduce(mine, result, op).Wait()
        expected = np.eye(2, dtype=np.int64)
        for rank in range(comm.size):
            expected = expected @ np.array([[1, rank], [1, 1]])
        assert (result == expected).all()

    for ranks in (2, 3, 5, 8):
        lk.run(matrices, ranks)

    def failing(comm):
        def no(left, right, datatype):
            raise ZeroDivisionError("in the operator")

        request = comm.Iallreduce(np.zeros(1), np.zeros(1), MPI.Op.Create(no, commute=True))
        lk.compute(seconds=1e-3)
        request.Wait()

    with raises_code(RankError, "rank-failed", "ZeroDivisionError"):
        lk.run(failing, 2)


def test_what_does_not_fit_is_said_by_the_wait() -> None:
    def program(comm):
        into = np.zeros(3)
        counts = [into, [1, 2]] if comm.rank == 0 else None
        request = comm.Igatherv(np.zeros(1 + 2 * comm.rank), counts)
        lk.compute(seconds=1.0)
        with pytest.raises(MPI.Exception) as caught:
            request.Wait()
        return caught.value.Get_error_class() == MPI.ERR_TRUNCATE

    with pytest.raises(RankError):  # rank 1 sends, and notices nothing
        lk.run(program, 2)

    def root_alone(comm):
        if comm.rank == 0:
            return program(comm)
        return comm.Igatherv(np.zeros(3), None).Wait()

    assert lk.run(root_alone, 2).results == [True, True]


@pytest.mark.parametrize("name", ["Iallreduce", "Ialltoall", "Allgather_init", "Iscan", "Ineighbor_alltoall"])
def test_bad_buffers_are_refused_at_once(name) -> None:
    def program(comm):
        grid, read_only = comm.Create_cart([comm.size], [True]), np.zeros(4)
        read_only.flags.writeable = False
        with pytest.raises(BufferError, match="read-only"):
            getattr(grid, name)(np.zeros(4), read_only)
        with pytest.raises((TypeError, ValueError)):
            getattr(grid, name)(3, np.zeros(4))
        grid.Barrier()  # nobody has come to anything

    lk.run(program, 2)


def test_sizes_without_bytes() -> None:
    def program(comm):
        request = comm.Iallreduce(lk.sized(10**9), lk.sized(10**9))
        request.Wait()
        with pytest.raises(TypeError, match="one buffer is a phantom"):
            comm.Iallreduce(lk.sized(8), np.zeros(8, np.uint8))

    run = lk.run(program, 4)
    blocking = lk.run(lambda comm: comm.Allreduce(lk.sized(10**9), lk.sized(10**9)), 4)
    assert run.makespan_s == blocking.makespan_s


@pytest.mark.parametrize("algorithm", ["ring", "recursive_doubling", "rabenseifner"])
def test_the_algorithm_chosen_is_used(algorithm) -> None:
    def program(comm, name):
        request = getattr(comm, name)(np.zeros(10_000), np.zeros(10_000))
        if request is not None:
            request.Wait()

    ran = [
        lk.run(program, 8, on="torus:2x4", args=(name,), coll={"allreduce": algorithm})
        for name in ("Iallreduce", "Allreduce")
    ]
    assert ran[0].makespan_s == ran[1].makespan_s
    assert ran[0].messages == ran[1].messages


def test_a_recording_refuses_them(tmp_path) -> None:
    with raises_code(RankError, "not-recordable", UnsupportedError.__name__):
        lk.run(lambda comm: comm.Iallreduce(np.zeros(1), np.zeros(1)).Wait(), 2, trace_ti=tmp_path / "t")
