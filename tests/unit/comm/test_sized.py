"""Phantom buffers: every call takes as long as with bytes, and moves none."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.errors import DataError, MismatchError, RankError
from labkit.program.sized import is_sized
from tests.support.refusals import raises_code

N = 4096
Make = Callable[..., Any]


def zeros(n: int, dtype: Any = np.uint8) -> np.ndarray:
    return np.zeros(n, dtype)


def point_to_point(comm: MPI.Comm, make: Make) -> None:
    peer = 1 - comm.rank
    comm.Sendrecv(make(N), peer, 0, make(N), peer, 0)
    requests = [comm.Irecv(make(10 * N), peer, 1), comm.Isend(make(10 * N)[:N], peer, 1)]
    MPI.Request.Waitall(requests)
    if comm.rank == 0:
        comm.Send([make(N), 100, MPI.DOUBLE], peer, 2)
    else:
        status = MPI.Status()
        comm.Recv(make(N), peer, 2, status)
        assert status.Get_count(MPI.DOUBLE) == 100


COLLECTIVES: dict[str, Callable[[MPI.Comm, Make], None]] = {
    "Bcast": lambda comm, make: comm.Bcast(make(N), 0),
    "Gather": lambda comm, make: comm.Gather(make(N), make(N * comm.size) if comm.rank == 0 else None),
    "Scatter": lambda comm, make: comm.Scatter(make(N * comm.size) if comm.rank == 0 else None, make(N)),
    "Allgather": lambda comm, make: comm.Allgather(make(N), make(N * comm.size)),
    "Alltoall": lambda comm, make: comm.Alltoall(make(N * comm.size), make(N * comm.size)),
    "Allreduce": lambda comm, make: comm.Allreduce(make(N, np.float64), make(N, np.float64)),
    "Reduce": lambda comm, make: comm.Reduce(
        make(N, "i4"), make(N, "i4") if comm.rank == 0 else None, MPI.MAX
    ),
    "Scan": lambda comm, make: comm.Scan(make(N, "f4"), make(N, "f4")),
    "Reduce_scatter_block": lambda comm, make: comm.Reduce_scatter_block(make(N * comm.size), make(N)),
    "Alltoallv": lambda comm, make: comm.Alltoallv(
        [make(10 * N), np.arange(comm.size) + comm.rank],
        [make(10 * N), np.arange(comm.size) + comm.rank],
    ),
    "Allgatherv": lambda comm, make: comm.Allgatherv(make(comm.rank), [make(N), np.arange(comm.size)]),
    "in place": lambda comm, make: comm.Alltoall(MPI.IN_PLACE, make(N * comm.size)),
}


def both(program: Callable[..., None], p: int) -> None:
    phantom, real = (lk.run(program, p, f"star:{p}", args=(make,)) for make in (lk.sized, zeros))
    assert phantom.makespan_s == real.makespan_s
    assert (phantom.messages, phantom.bytes) == (real.messages, real.bytes)


def test_point_to_point_takes_as_long_as_with_bytes() -> None:
    both(point_to_point, 2)


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("p", [1, 2, 5, 8])
def test_a_collective_takes_as_long_as_with_bytes(name: str, p: int) -> None:
    call = COLLECTIVES[name]

    def program(comm: MPI.Comm, make: Make) -> None:
        call(comm, make)

    both(program, p)


def test_a_terabyte_per_rank_takes_no_memory() -> None:
    def program(comm: MPI.Comm) -> None:
        comm.Alltoall(lk.sized(2**40), lk.sized(2**40))
        comm.Allreduce(lk.sized(2**37, "f8"), lk.sized(2**37, "f8"))

    run = lk.run(program, 16, "star:16")
    assert run.bytes is not None
    assert run.bytes > 16 * 2**40 * 15 / 16


def test_a_size_cannot_fill_a_buffer_that_wants_bytes() -> None:
    def program(comm: MPI.Comm) -> None:
        if comm.rank == 0:
            comm.Send(lk.sized(100), 1)
        else:
            comm.Recv(bytearray(100), 0)

    with raises_code(RankError, "rank-failed", "100", "labkit.sized"):
        lk.run(program, 2, "star:2")


def test_bytes_may_be_received_as_a_size() -> None:
    def program(comm: MPI.Comm) -> int:
        if comm.rank == 0:
            comm.Send(np.ones(50), 1)
            return 0
        status = MPI.Status()
        comm.Recv(lk.sized(1000), 0, status=status)
        return status.Get_count(MPI.BYTE)

    assert lk.run(program, 2, "star:2").results == [0, 400]


def test_a_collective_wants_all_or_none() -> None:
    def ranks_differ(comm: MPI.Comm) -> None:
        make = lk.sized if comm.rank else zeros
        comm.Allreduce(make(8), make(8))

    def buffers_differ(comm: MPI.Comm) -> None:
        comm.Allreduce(lk.sized(8), zeros(8))

    with raises_code(MismatchError, "collective-mismatch"):
        lk.run(ranks_differ, 2, "star:2")
    with raises_code(RankError, "rank-failed"):
        lk.run(buffers_differ, 2, "star:2")


def test_there_is_nothing_to_compute_with() -> None:
    buffer = lk.sized(10, "i8")
    for use in (lambda b: b + 1, np.sort, np.sum, lambda b: np.add(b, b)):
        with pytest.raises(TypeError, match=r"sized\(10, int64\) has a size and no content"):
            use(buffer)
    assert repr(buffer) == str(buffer) == "sized(10, int64)"
    assert (len(buffer), buffer.nbytes, buffer.dtype) == (10, 80, np.dtype("i8"))
    assert is_sized(buffer[3:])
    assert len(buffer[3:]) == 7
    assert not is_sized(zeros(3))


def test_copies_are_sizes_again() -> None:
    buffer = lk.sized(2**40)
    for same in (buffer.copy(), copy.copy(buffer), copy.deepcopy(buffer), pickle.loads(pickle.dumps(buffer))):
        assert is_sized(same)
        assert len(same) == 2**40


def test_arguments_and_globals_of_a_program_may_be_sizes() -> None:
    def program(comm: MPI.Comm, buffer: Any) -> bool:
        comm.Bcast(buffer)
        return is_sized(buffer)

    assert lk.run(program, 3, "star:3", args=(lk.sized(2**38),)).results == [True] * 3


@pytest.mark.parametrize("n", [-1, 2.5, 2**60, True])
def test_sizes_that_make_no_sense_are_refused(n: Any) -> None:
    with raises_code(DataError, "out-of-range"):
        lk.sized(n)
