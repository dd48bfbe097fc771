"""What is given as an operator and is none is refused with what came, what may come, and what to write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.errors import RankError


def _window(comm: Any, op: Any) -> None:
    window = MPI.Win.Allocate(8, 8, comm=comm)
    window.Fence()
    window.Accumulate(np.ones(1), 0, op=op)


CALLS = {
    "allreduce": lambda comm, op: comm.allreduce(1, op=op),
    "reduce": lambda comm, op: comm.reduce(1, op=op),
    "scan": lambda comm, op: comm.scan(1, op=op),
    "exscan": lambda comm, op: comm.exscan(1, op=op),
    "Allreduce": lambda comm, op: comm.Allreduce(np.ones(2), np.empty(2), op=op),
    "Iallreduce": lambda comm, op: comm.Iallreduce(np.ones(2), np.empty(2), op=op).Wait(),
    "Reduce_scatter_block": lambda comm, op: comm.Reduce_scatter_block(
        np.ones(2 * comm.size), np.empty(2), op=op
    ),
    "Accumulate": _window,
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("given", "came", "write"),
    [("sum", "'sum'", "MPI.SUM"), ("max", "'max'", "MPI.MAX"), (3, "a value of type int", "MPI.SUM")],
)
@pytest.mark.parametrize("ranks", [1, 3])
def test_it_is_refused_with_what_to_write(call: str, given: Any, came: str, write: str, ranks: int) -> None:
    if ranks == 1 and call.islower():  # as mpi4py: one object is not combined
        assert len(lk.run(CALLS[call], 1, "star", args=(given,)).results) == 1
        return
    with pytest.raises(RankError) as caught:
        lk.run(CALLS[call], ranks, "star", args=(given,))
    said = str(caught.value)
    assert "TypeError: op: expected an operator such as MPI.SUM" in said
    assert f"got {came}; write op={write}" in said


def test_functions_of_two_objects_and_operators_pass() -> None:
    def program(comm: Any) -> tuple[int, int]:
        return comm.allreduce(comm.rank, op=max), comm.allreduce(1, op=MPI.SUM)

    assert lk.run(program, 3, "star").results == [(2, 3)] * 3
