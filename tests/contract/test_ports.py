"""Groups of ranks that meet by ports and services get a communicator of two groups."""

from __future__ import annotations

import pytest

import labkit as lk
from labkit import MPI
from tests.support.refusals import raises_code


def _meet(comm):
    mine = comm.Split(comm.rank == 0)
    if comm.rank == 0:
        port = MPI.Open_port()
        MPI.Publish_name("meeting", port)
        comm.Barrier()
        both = mine.Accept(port)
        MPI.Unpublish_name("meeting", port)
        MPI.Close_port(port)
    else:
        comm.Barrier()
        port = MPI.Lookup_name("meeting") if mine.rank == 0 else None
        both = mine.Connect(port)
    sizes = (both.size, both.remote_size)
    heard = both.allgather(comm.rank)
    both.Disconnect()
    return sizes, heard


@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
def test_groups_meet_at_a_port(ranks) -> None:
    others = list(range(1, ranks))
    found = lk.run(_meet, ranks, on="star").results
    assert found == [((1, ranks - 1), others)] + [((ranks - 1, 1), [0])] * (ranks - 1)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda: MPI.Lookup_name("nobody"), ("rank-failed", "MPI_ERR_NAME")),
        (lambda: MPI.Close_port("labkit-port:9"), ("rank-failed", "MPI_ERR_PORT")),
        (lambda: MPI.COMM_SELF.Connect("elsewhere"), ("rank-failed", "MPI_ERR_PORT")),
        (lambda: MPI.Unpublish_name("nobody", "labkit-port:9"), ("rank-failed", "MPI_ERR_SERVICE")),
    ],
)
def test_names_that_there_are_not_are_refused(call, wanted: tuple[str, ...]) -> None:
    with raises_code(lk.errors.RankError, *wanted):
        lk.run(lambda comm: call(), 1, on="star")
