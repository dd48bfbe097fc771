"""Agreement of ranks: the bits of all flags, in no order with other collectives, over both groups."""

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from tests.support.refusals import raises_code


def flag_of(rank):
    return 0b1111 & ~(1 << rank % 3)


def agreed(comm):
    flag = np.array([flag_of(comm.rank)], "i")
    request = comm.Iagree(flag)
    request.Wait()
    return comm.Agree(flag_of(comm.rank)), int(flag[0])


@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 7, 8])
def test_the_bits_that_all_ranks_have(p):
    wanted = functools.reduce(operator.and_, map(flag_of, range(p)))
    assert lk.run(agreed, p).results == [(wanted, wanted)] * p


def crossed(comm):
    """One rank begins to agree before a barrier, the others behind it."""
    flag = np.array([flag_of(comm.rank)], "i")
    if comm.rank == comm.size - 1:
        request = comm.Iagree(flag)
        comm.Barrier()
    else:
        comm.Barrier()
        request = comm.Iagree(flag)
    request.Wait()
    return int(flag[0])


@pytest.mark.parametrize("p", [2, 3, 4, 5, 7])
def test_agreements_are_in_no_order_with_other_collectives(p):
    wanted = functools.reduce(operator.and_, map(flag_of, range(p)))
    assert lk.run(crossed, p).results == [wanted] * p


def between(comm):
    half = comm.size // 2
    is_low = comm.rank < half
    mine = comm.Split(0 if is_low else 1)
    both = mine.Create_intercomm(0, comm, half if is_low else 0)
    flag = np.array([flag_of(comm.rank)], "i")
    first, second = both.Iagree(flag), np.array([1 << is_low], "i")
    MPI.Request.Waitall([first, both.Iagree(second)])
    return int(flag[0]), int(second[0])


@pytest.mark.parametrize("p", [2, 3, 4, 5, 7])
def test_both_groups_agree(p):
    wanted = functools.reduce(operator.and_, map(flag_of, range(p)))
    assert lk.run(between, p).results == [(wanted, 0)] * p


def test_what_is_no_int_is_refused():
    def wrong(comm):
        comm.Iagree(np.zeros(3, "i"))

    with raises_code(lk.errors.LabkitError, "rank-failed", "12"):
        lk.run(wrong, 2)
