"""A sweep on real MPI counts in its warm-up what a simulated one counts in every run."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk

pytestmark = pytest.mark.mpi


def ring(comm, n=1000):
    with lk.phase("make"):
        mine = np.ones(100 * n)
    with lk.phase("send"):
        for _ in range(3):
            other = np.empty(n)
            comm.Sendrecv(mine[:n], (comm.rank + 1) % comm.size, 0, other, (comm.rank - 1) % comm.size)
    lk.count("steps", 3)


def test_messages_rounds_memory_and_own_counts_are_those_of_the_simulation():
    study = lk.sweep(ring, [2], on=["mpi", "star"], repeats=2, progress=False)
    counts = study.data[~study.data["metric"].isin(["makespan_s", "phase_s", "rank_resident_bytes"])]
    real, simulated = (
        {(row.metric, row.phase): row.value for row in counts[counts["on"] == on].itertuples()}
        for on in ("mpi", "star")
    )
    assert real == simulated
    assert real["messages", "send"] == 6
    assert counts["is_valid"].all()
    assert set(counts["repetition"]) == {0}
    assert study.data.query("metric == 'makespan_s' and on == 'mpi'")["repetition"].tolist() == [0, 1]
    assert "warm-up" in study.notes["counts"]["mpi"]


def test_what_the_library_sends_in_a_collective_is_not_guessed():
    def program(comm):
        comm.send(comm.rank, 1 - comm.rank)
        comm.recv()
        comm.Allreduce(np.ones(4), np.empty(4))

    study = lk.sweep(program, [2], on="mpi", repeats=1, progress=False)
    found = dict(zip(study.data["metric"], study.data["value"], strict=True))
    assert "messages" not in found
    assert (found["p2p_messages"], found["rank_collectives"], found["rank_collective_bytes"]) == (2, 1, 32)
    assert lk.sweep(program, [2], on="mpi", repeats=1, warmup=0, progress=False).metrics == ["makespan_s"]
