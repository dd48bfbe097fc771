"""Derived datatypes in every kind of call: the bytes are where NumPy's slices have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import MPI

N = 6


def _columns(comm: Any) -> list[Any]:
    """Send columns of matrices and receive them as columns, in calls of all kinds."""
    rank, size = comm.rank, comm.size
    right, left = (rank + 1) % size, (rank - 1) % size
    mine = np.arange(N * N, dtype=float).reshape(N, N) + 100 * rank
    column = MPI.DOUBLE.Create_vector(N, 1, N).Commit()
    columns = column.Create_resized(0, 8).Commit()
    slot = MPI.DOUBLE.Create_vector(N, 1, size).Create_resized(0, 8).Commit()
    found: list[Any] = []
    got = np.zeros((N, N))
    comm.Sendrecv([mine, 1, column], right, 0, [got, 1, column], left, 0)
    found.append(got.copy())
    status = MPI.Status()
    request = comm.Irecv([got, (2, 1), columns], left)
    comm.Send([mine, (2, 1), columns], right)
    request.Wait(status)
    found += [got.copy(), status.Get_count(columns), status.Get_elements(columns), status.Get_count(MPI.BYTE)]
    same = mine.copy()
    comm.Bcast([same, 1, column], size - 1)
    found.append(same)
    for call in ("Allgather", "Iallgather"):
        gathered = np.zeros((N, size))
        request = getattr(comm, call)([mine, 1, column], [gathered, 1, slot])
        if request is not None:
            request.Wait()
        found.append(gathered)
    scattered = np.zeros((N, N))
    comm.Scatter([np.tile(np.arange(float(size)), (N, 1)), 1, slot], [scattered, 1, column], 0)
    found.append(scattered)
    exchanged = np.zeros((N, size))
    rows = [np.full((size, N), float(rank)), [N] * size, range(0, 8 * N * size, 8 * N), [MPI.DOUBLE] * size]
    comm.Alltoallw(rows, [exchanged, [1] * size, range(0, 8 * size, 8), [slot] * size])
    found.append(exchanged)
    ring = comm.Create_cart([size], [True])
    beside = np.zeros((N, 2))
    pair = MPI.DOUBLE.Create_vector(N, 1, 2).Create_resized(0, 8).Commit()
    ring.Neighbor_allgather([mine, 1, column], [beside, 1, pair])
    found.append(beside)

    def add(left_part: Any, right_part: Any, datatype: Any) -> None:
        total = np.frombuffer(right_part, float)
        total += np.frombuffer(left_part, float)

    summed = np.zeros((N, N))
    comm.Allreduce([mine, 1, column], [summed, 1, column], MPI.Op.Create(add, True))
    found.append(summed[:, 0].copy())  # between the columns nothing is said
    return found


def _expected(rank: int, size: int) -> list[Any]:
    matrix = lambda r: np.arange(N * N, dtype=float).reshape(N, N) + 100 * r  # noqa: E731
    left, right = (rank - 1) % size, (rank + 1) % size
    first = np.zeros((N, N))
    first[:, 0] = matrix(left)[:, 0]
    second = first.copy()
    second[:, 1:3] = matrix(left)[:, 1:3]
    same = matrix(rank)
    same[:, 0] = matrix(size - 1)[:, 0]
    gathered = np.stack([matrix(r)[:, 0] for r in range(size)], 1)
    scattered = np.zeros((N, N))
    scattered[:, 0] = rank
    exchanged = np.tile(np.arange(float(size)), (N, 1))
    beside = np.stack([matrix(left)[:, 0], matrix(right)[:, 0]], 1)
    summed = sum(matrix(r)[:, 0] for r in range(size))
    counts = [2, 2 * N, 16 * N]
    return [first, second, *counts, same, gathered, gathered, scattered, exchanged, beside, summed]


def _check(run: Any, size: int) -> None:
    for rank, found in enumerate(run.results):
        for mine, wanted in zip(found, _expected(rank, size), strict=True):
            np.testing.assert_array_equal(mine, wanted)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7])
def test_columns_arrive_as_columns(size: int) -> None:
    _check(lk.run(_columns, ranks=size, on=f"star:{size}"), size)


@pytest.mark.mpi
def test_real_mpi_agrees() -> None:
    _check(lk.run(_columns, ranks=3, on="mpi"), 3)


def test_a_message_is_as_long_as_its_data() -> None:
    def program(comm: Any) -> None:
        column = MPI.DOUBLE.Create_vector(100, 1, 1000).Commit()
        memory = np.zeros(100_000)
        if comm.rank == 0:
            comm.Send([memory, 1, column], 1)
        else:
            comm.Recv([memory, 1, column], 0)

    assert lk.run(program, ranks=2, on="star:2").bytes == 800
