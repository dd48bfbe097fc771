"""A wait for a sender goes back to the call that sent, whichever calls follow at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import MPI


def to_three(comm: Any, size: int) -> None:
    """Sends that pay a start-up each, one right behind the other."""
    if comm.rank == 0:
        with lk.phase("late"):
            lk.compute(seconds=1e-3)
        requests = [comm.Isend(np.zeros(size), to, to) for to in (1, 2, 3)]
        MPI.Request.Waitall(requests)
    else:
        comm.Recv(np.zeros(size), 0, comm.rank)


@pytest.mark.parametrize("size", [1, 1000, 100_000])
def test_a_wait_for_a_sender_ends_when_its_call_begins(size: int) -> None:
    run = lk.run(to_three, 4, "star:4", trace=True, size=size)
    waits, calls = run.waits().waits, run.trace.calls
    late = waits[waits["state"] == "late sender"]
    assert late["rank"].tolist() == [1, 2, 3]
    assert late["cause_row"].tolist() == calls.index[calls["call"] == "Isend"].tolist()
    assert late["end_s"].tolist() == calls.loc[late["cause_row"], "begin_s"].tolist()


def small_and_large(comm: Any) -> None:
    """A send that pays its start-up, and one that pays none: both are posted at one instant."""
    if comm.rank == 0:
        lk.compute(seconds=1e-3)
        comm.Send(np.zeros(1), 2, 1)
        comm.Send(np.zeros(100_000), 1, 2)
    elif comm.rank == 1:
        comm.Recv(np.zeros(100_000), 0)
    else:
        lk.compute(seconds=2e-3)
        comm.Recv(np.zeros(1), 0)


def test_a_large_send_is_no_part_of_the_small_one_before_it() -> None:
    run = lk.run(small_and_large, 3, "star:3", trace=True)
    calls = run.trace.calls
    late = run.waits().waits.query("rank == 1")
    large = calls.index[(calls["rank"] == 0) & (calls["call"] == "Send")][1]
    assert late["cause_row"].tolist() == [large]
    assert late["end_s"].tolist() == [calls.loc[large, "begin_s"]]
