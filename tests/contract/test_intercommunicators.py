"""Two groups that talk to each other: messages, collectives of all forms, communicators made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import MPI


def _between(comm: Any) -> dict[str, Any]:
    half = comm.size // 2
    is_low = comm.rank < half
    mine = comm.Split(0 if is_low else 1)
    inter = mine.Create_intercomm(0, comm, half if is_low else 0, 5)
    found: dict[str, Any] = {"sizes": (inter.size, inter.remote_size, inter.rank, inter.is_inter)}
    root = (MPI.ROOT if inter.rank == 0 else MPI.PROC_NULL) if is_low else 0
    data = np.full(3, 7.0 if is_low else 0.0)
    inter.Bcast(data, root)
    found["bcast"] = data.tolist()
    own, theirs = np.array([float(comm.rank)]), np.zeros(inter.remote_size)
    inter.Allgather(own, theirs)
    found["allgather"] = theirs.tolist()
    request = inter.Iallgather(own, theirs * 0)
    request.Wait()
    total = np.zeros(1)
    inter.Allreduce(own, total, MPI.SUM)
    found["allreduce"] = total[0]
    started = inter.Allreduce_init(own, total, MPI.MAX)
    for _ in range(2):
        started.Start()
        started.Wait()
    found["largest"] = total[0]
    found["objects"] = inter.allgather({"rank": comm.rank})
    found["reduced"] = inter.allreduce([comm.rank])
    status = MPI.Status()
    if inter.rank == 0:
        found["message"] = inter.sendrecv(comm.rank, 0, 3, None, MPI.ANY_SOURCE, 3, status)
        found["source"] = status.source
    merged = inter.Merge(is_low)
    found["merged"] = merged.allgather(comm.rank)
    again = inter.Dup()
    found["again"] = (again.Compare(inter) == MPI.CONGRUENT, again.remote_size)
    inter.Barrier()
    for one in (again, inter, merged, mine):
        one.Free()
    return found


def _expected(rank: int, size: int) -> dict[str, Any]:
    half = size // 2
    low, high = list(range(half)), list(range(half, size))
    mine, theirs = (low, high) if rank < half else (high, low)
    place = mine.index(rank)
    wanted: dict[str, Any] = {
        "sizes": (len(mine), len(theirs), place, True),
        "bcast": [7.0] * 3,
        "allgather": [float(r) for r in theirs],
        "allreduce": float(sum(theirs)),
        "largest": float(max(theirs)),
        "objects": [{"rank": r} for r in theirs],
        "reduced": theirs,
        "merged": high + low,
        "again": (True, len(theirs)),
    }
    if place == 0:
        wanted |= {"message": theirs[0], "source": 0}
    return wanted


@pytest.mark.parametrize("size", [2, 3, 4, 5, 7])
def test_two_groups(size: int) -> None:
    run = lk.run(_between, ranks=size, on=f"star:{size}")
    assert run.results == [_expected(rank, size) for rank in range(size)]


@pytest.mark.mpi
def test_real_mpi_agrees() -> None:
    assert lk.run(_between, ranks=3, on="mpi").results == [_expected(rank, 3) for rank in range(3)]


def test_a_traced_run_has_the_calls_between_two_groups():
    def program(comm):
        half = comm.Split(comm.rank % 2)
        inter = half.Create_intercomm(0, comm, 1 - comm.rank % 2)
        inter.allreduce(1)
        inter.Barrier()
        if half.rank == 0:
            inter.sendrecv(comm.rank, 0, source=0)
        inter.Merge()

    calls = lk.run(program, 4, "star:4", trace=True).trace.calls
    leader = ["Split", "Create_intercomm", "allreduce", "Barrier", "sendrecv", "Merge"]
    for rank in range(4):
        own = calls[calls["rank"] == rank].sort_values("begin_s", kind="stable")
        assert own["call"].tolist() == [name for name in leader if rank < 2 or name != "sendrecv"]
        assert own["joint"].tolist() == [0] + [-1] * (len(own) - 1)
        # nothing is computed, so the calls follow each other
        assert own["begin_s"].tolist()[1:] == pytest.approx(own["end_s"].tolist()[:-1])
