"""`mpi4py.util.pkl5` over intercommunicators: every rank gets what the other group gave."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk
from labkit import MPI


def between(comm):
    from mpi4py.util import pkl5

    half = comm.size // 2
    is_low = comm.rank < half
    mine = comm.Split(0 if is_low else 1)
    both = pkl5.Intercomm(mine.Create_intercomm(0, comm, half if is_low else 0))
    given = {"rank": comm.rank, "data": np.full(1000, comm.rank)}
    gathered = both.allgather(given)
    assert all((one["data"] == one["rank"]).all() for one in gathered)
    if is_low:
        root = MPI.ROOT if mine.rank == 0 else MPI.PROC_NULL
    else:
        root = 0
    told = both.bcast(given if root == MPI.ROOT else None, root)
    exchanged = both.alltoall([(comm.rank, other) for other in range(both.remote_size)])
    return [one["rank"] for one in gathered], told and told["rank"], exchanged


@pytest.mark.parametrize("p", [2, 3, 4, 5, 7])
def test_what_the_other_group_gave(p):
    half = p // 2
    low, high = list(range(half)), list(range(half, p))
    for rank, (gathered, told, exchanged) in enumerate(lk.run(between, p).results):
        others, place = (high, rank) if rank < half else (low, rank - half)
        assert gathered == others
        assert told == (None if rank < half else 0)
        assert exchanged == [(other, place) for other in others]
