"""Roots and ranges: whole numbers of any type are taken, others refused with a sentence."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk
from labkit import MPI

CALLS = {
    "bcast": lambda comm, root: comm.bcast(comm.rank, root=root),
    "gather": lambda comm, root: comm.gather(comm.rank, root=root),
    "scatter": lambda comm, root: comm.scatter(list(range(comm.size)), root=root),
    "reduce": lambda comm, root: comm.reduce(comm.rank, root=root),
    "Bcast": lambda comm, root: comm.Bcast(np.zeros(1), root=root),
    "Reduce": lambda comm, root: comm.Reduce(np.ones(1), np.zeros(1), root=root),
    "Gather": lambda comm, root: comm.Gather(np.ones(1), np.zeros(comm.size), root=root),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("root", [1, 1.0, 1.7, np.int8(1), np.float64(1), np.array(1.0), True])
def test_a_root_is_any_whole_number(call, root) -> None:
    def program(comm, given):
        return str(CALLS[call](comm, given))

    assert lk.run(program, 3, "star:3", given=root).results == lk.run(program, 3, "star:3", given=1).results


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("root", "error"),
    [("0", TypeError), (None, TypeError), (float("nan"), ValueError), (float("inf"), OverflowError)],
)
def test_what_is_no_number_is_no_root(call, root, error) -> None:
    def program(comm):
        with pytest.raises(error):
            CALLS[call](comm, root)

    lk.run(program, 3, "star:3")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("root", [-1, 3])
def test_a_root_is_a_rank(call, root) -> None:
    def program(comm):
        with pytest.raises(MPI.Exception, match="ranks 0 to 2") as caught:
            CALLS[call](comm, root)
        return caught.value.Get_error_class() == MPI.ERR_ROOT

    assert all(lk.run(program, 3, "star:3").results)


def test_ranges_are_cut_as_mpi4py_cuts_them() -> None:
    def program(comm):
        group = comm.Get_group()
        return group.Range_incl([(0, 4 / 3, 1.0)]).size, group.Range_excl([(0.0, 4 / 3, 1)]).size

    assert lk.run(program, 5, "star:5").results == [(2, 3)] * 5
