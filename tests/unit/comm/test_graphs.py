"""Graph communicators: neighbors met more than once, and what is refused (Open MPI looks at less)."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.errors import MismatchError
from tests.support.refusals import raises_code


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda comm: comm.Create_graph([1], [9]), MPI.ERR_ARG),
        (lambda comm: comm.Create_graph([2, 1], [0, 1]), MPI.ERR_ARG),
        (lambda comm: comm.Create_graph([1] * 9, [0]), MPI.ERR_ARG),
        (lambda comm: comm.Create_dist_graph_adjacent([9], []), MPI.ERR_ARG),
        (lambda comm: comm.Create_dist_graph([0], [1], [-1]), MPI.ERR_ARG),
        (lambda comm: comm.Create_graph([1, 2], [1, 0]).Get_neighbors(2), MPI.ERR_RANK),
    ],
)
def test_what_cannot_be_is_refused(make, error) -> None:
    def program(comm):
        with pytest.raises(MPI.Exception) as caught:
            make(comm)
        return caught.value.Get_error_class() == error

    assert lk.run(program, 2).results == [True, True]


def test_all_ranks_give_the_same_graph() -> None:
    with raises_code(MismatchError, "collective-mismatch"):
        lk.run(lambda comm: comm.Create_graph([1, 2], [1, 0] if comm.rank else [0, 1]), 2)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("is_nonblocking", [False, True])
def test_several_edges_of_a_pair_are_told_apart_by_their_order(ranks, is_nonblocking) -> None:
    def program(comm):
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        graph = comm.Create_dist_graph_adjacent([left, left, left], [right, right, right])
        out, into = np.arange(3.0) + 10 * comm.rank, np.zeros(3)
        if is_nonblocking:
            graph.Ineighbor_alltoall(out, into).Wait()
        else:
            graph.Neighbor_alltoall(out, into)
        assert into.tolist() == [10.0 * left, 10.0 * left + 1, 10.0 * left + 2]

    lk.run(program, ranks)


def test_ranks_left_over_are_in_no_graph() -> None:
    def program(comm):
        graph = comm.Create_graph([1, 2], [1, 0])
        return graph == MPI.COMM_NULL, comm.Graph_map([1, 2], [1, 0]) == MPI.UNDEFINED

    assert lk.run(program, 3).results == [(False, False), (False, False), (True, True)]


def test_edges_may_be_given_by_anybody() -> None:
    def program(comm):
        ring = [(i + 1) % comm.size for i in range(comm.size)]
        everything = (list(range(comm.size)), [1] * comm.size, ring) if comm.rank == 0 else ([], [], [])
        graph = comm.Create_dist_graph(*everything)
        return graph.inedges, graph.outedges, graph.neighbor_allgather(comm.rank)

    assert lk.run(program, 3).results == [([2], [1], [2]), ([0], [2], [0]), ([1], [0], [1])]


@pytest.mark.parametrize("ranks", [1, 2, 4, 6])
def test_a_halo_exchange_goes_on_while_the_inside_is_computed(ranks) -> None:
    def program(comm, is_nonblocking):
        grid = comm.Create_cart(MPI.Compute_dims(comm.size, 2), [True, False])
        out, into = np.zeros((4, 20_000)), np.zeros((4, 20_000))
        for _ in range(3):
            if is_nonblocking:
                request = grid.Ineighbor_alltoall(out, into)
                lk.compute(seconds=1e-3)
                request.Wait()
            else:
                grid.Neighbor_alltoall(out, into)
                lk.compute(seconds=1e-3)

    blocking_s, overlapped_s = (lk.run(program, ranks, args=(way,)).makespan_s for way in (False, True))
    assert 3e-3 < overlapped_s < blocking_s
    assert overlapped_s < 3.4e-3


def test_a_range_of_ranks_ends_with_the_last():
    def program(comm):
        group = comm.Get_group()
        with pytest.raises(MPI.Exception) as caught:
            group.Range_incl([(0, comm.size, 1)])
        return caught.value.Get_error_class() == MPI.ERR_RANK, group.Range_incl([(0, comm.size - 1, 1)]).size

    assert lk.run(program, 3).results == [(True, 3)] * 3
