"""Heap and connections: allocations that are known, partners by closed formulas and by traced messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit.calibration import heap_bytes, partners
from labkit.errors import LabkitError


def test_the_heap_grows_by_what_is_allocated() -> None:
    before = heap_bytes()
    small, large = [bytes(1000) for _ in range(200)], np.ones(4 << 20)
    grown = heap_bytes() - before
    held = sum(map(len, small)) + large.nbytes
    assert held <= grown < 1.1 * held
    del small, large
    assert heap_bytes() - before < 0.1 * held


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 7, 8, 16, 33])
def test_partners_by_closed_formulas(ranks: int) -> None:
    assert partners("alltoall", "pairwise", ranks) == ranks - 1
    assert partners("allgather", "ring", ranks) == min(2, ranks - 1)
    assert partners("gather", "linear", ranks) == ranks - 1
    steps = [1 << k for k in range((ranks - 1).bit_length())]
    assert partners("alltoall", "bruck", ranks) == len({s % ranks for d in steps for s in (d, -d)} - {0})
    assert partners("bcast", "binomial", ranks) == (ranks - 1).bit_length()


@pytest.mark.parametrize(("operation", "algorithm"), [("allreduce", "rabenseifner"), ("alltoall", "mesh_2d")])
def test_partners_are_those_of_the_messages(operation: str, algorithm: str) -> None:
    def program(comm: Any) -> None:
        one, other = np.zeros(16 * comm.size), np.zeros(16 * comm.size)
        comm.Alltoall(one, other) if operation == "alltoall" else comm.Allreduce(one, other)

    run = lk.run(program, 16, "star:16", coll={operation: algorithm}, trace=True)
    rows = run.trace.messages
    pairs = set(zip(rows["source"], rows["destination"], strict=True))
    pairs |= {(b, a) for a, b in pairs}
    most = max(sum(a == rank for a, _ in pairs) for rank in range(16))
    assert partners(operation, algorithm, 16) == most


def test_unknown_algorithms_are_refused() -> None:
    with pytest.raises(LabkitError):
        partners("alltoall", "teleport", 4)


@pytest.mark.mpi
def test_a_communicator_takes_memory_on_real_mpi() -> None:
    def program(comm: Any) -> float:
        comm.Dup()
        before = heap_bytes()
        kept = [comm.Dup() for _ in range(8)]
        return (heap_bytes() - before) / len(kept)

    for taken in lk.run(program, 3, "mpi").results:
        assert 200 < taken < 200_000
