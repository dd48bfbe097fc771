"""Waits of ranks that poll: a blocking call in the place of a loop of tests or probes waits as long."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import MPI

DELAY_S = 7e-3


def late() -> None:
    with lk.phase("late"):
        lk.compute(seconds=DELAY_S)


def probe(comm: Any) -> None:
    if comm.rank == 1:
        late()
        comm.Send(np.zeros(1), 0)
    elif comm.rank == 0:
        while not comm.Iprobe(1):
            pass
        comm.Recv(np.zeros(1), 1)


def one(comm: Any) -> None:
    if comm.rank == 1:
        late()
        comm.Send(np.zeros(1), 0)
    elif comm.rank == 0:
        request = comm.Irecv(np.zeros(1), 1)
        while not request.Test():
            pass


def every(comm: Any) -> None:
    if comm.rank == 1:
        late()
    before, behind = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    requests = [comm.Irecv(np.zeros(1), before), comm.Isend(np.zeros(1), behind)]
    while not MPI.Request.Testall(requests):
        pass


def sent(comm: Any) -> None:
    if comm.rank == 1:
        late()
        comm.Recv(np.zeros(1), 0)
    elif comm.rank == 0:
        request = comm.Issend(np.zeros(1), 1)
        while not request.Test():
            pass


def barrier(comm: Any) -> None:
    if comm.rank == 1:
        late()
    request = comm.Ibarrier()
    while not request.Test():
        pass


def persistent(comm: Any) -> None:
    request = comm.Allreduce_init(np.zeros(1), np.zeros(1))
    if comm.rank == 1:
        late()
    request.Start()
    while not request.Test():
        pass


LOOPS = {
    probe: ("late sender", "Iprobe", [0]), one: ("late sender", "Test", [0]),
    every: ("late sender", "Testall", [2]), sent: ("late receiver", "Test", [0]),
    barrier: ("wait at barrier", "Test", [0, 2, 3, 4]), persistent: ("wait at nxn", "Test", [0, 2, 3, 4]),
}  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_a_loop_of_polls_waits_as_the_blocking_call_would(loop: Any) -> None:
    state, call, ranks = LOOPS[loop]
    run = lk.run(loop, 5, on="star:5", trace=True)
    assert len(run.trace.calls) < 10 * run.ranks  # polls that follow each other are one call
    waiting = run.waits()
    long = waiting.waits[waiting.waits["seconds"] > 0.1 * DELAY_S]
    assert sorted(long["rank"]) == ranks
    assert {*long["state"]} == {state}
    assert {*long["call"]} == {call}
    assert {*long["cause"]} == {1}
    assert long["seconds"].to_numpy() == pytest.approx(DELAY_S, rel=0.02)
    first = waiting.causes("rank", "phase").iloc[0]
    assert (first["rank"], first["phase"]) == (1, "late")
    costs = waiting.delays[["direct_s", "indirect_s"]].to_numpy().sum()
    assert costs == pytest.approx(waiting.seconds, rel=1e-12)


def test_polls_beside_work_wait_as_long_as_they_last() -> None:
    def overlapped(comm: Any) -> None:
        if comm.rank == 1:
            late()
            comm.Send(np.zeros(1), 0)
        elif comm.rank == 0:
            request = comm.Irecv(np.zeros(1), 1)
            while not request.Test():
                lk.compute(seconds=1e-3)

    run = lk.run(overlapped, 2, on="star:2", trace=True)
    waiting, calls = run.waits(), run.trace.calls
    tests = calls[(calls["call"] == "Test") & (calls["end_s"] <= DELAY_S)]
    assert waiting.seconds == pytest.approx(float((tests["end_s"] - tests["begin_s"]).sum()), rel=0.02)
    assert waiting.seconds < 0.2 * DELAY_S


BEGUN = {
    "wait at nxn": lambda comm: comm.Iallreduce(np.zeros(1), np.zeros(1)),
    "wait at barrier": lambda comm: comm.Ibarrier(),
    "late broadcast": lambda comm: comm.Ibcast(np.zeros(1), root=1),
    "wait at n-to-1": lambda comm: comm.Ireduce(np.zeros(1), np.zeros(1), root=0),
    "early scan": lambda comm: comm.Iscan(np.zeros(1), np.zeros(1)),
}


@pytest.mark.parametrize("state", BEGUN)
def test_every_poll_for_a_collective_waits_until_the_last_has_come(state: str) -> None:
    def overlapped(comm: Any) -> None:
        if comm.rank == 1:
            late()
        request = BEGUN[state](comm)
        polls = 0
        while not request.Test():
            polls += 1
            if polls % 10 == 0:
                lk.compute(seconds=1e-3)

    run = lk.run(overlapped, 4, on="star:4", trace=True)
    waiting, calls = run.waits(), run.trace.calls
    waiters = {"wait at n-to-1": [0], "early scan": [2, 3]}.get(state, [0, 2, 3])
    for rank in waiters:
        own = waiting.waits[waiting.waits["rank"] == rank]
        tests = calls[(calls["rank"] == rank) & (calls["call"] == "Test") & (calls["begin_s"] < DELAY_S)]
        assert len(tests) > 2
        until = np.minimum(tests["end_s"], DELAY_S)
        assert {*own["state"]} == {state}
        assert {*own["cause"]} == {1}
        assert own["seconds"].sum() == pytest.approx(float((until - tests["begin_s"]).sum()), rel=0.02)


def test_a_poll_that_finds_at_once_waits_for_nobody() -> None:
    def quick(comm: Any) -> None:
        request = comm.Isend(np.zeros(1), (comm.rank + 1) % comm.size)
        comm.Recv(np.zeros(1), (comm.rank - 1) % comm.size)
        lk.compute(seconds=1e-3)
        assert request.Test()
        assert not comm.Iprobe()

    run = lk.run(quick, 3, on="star:3", trace=True)
    assert run.waits().seconds < 1e-9


@pytest.mark.mpi
def test_polls_on_real_mpi() -> None:
    def polled(comm: Any, delay_s: float) -> None:
        import time

        comm.Barrier()
        if comm.rank == 1:
            with lk.phase("late"):
                time.sleep(delay_s)
            comm.Send(np.zeros(1), 0)
        elif comm.rank == 0:
            while not comm.Iprobe(1):
                pass
            comm.Recv(np.zeros(1), 1)

    run = lk.run(polled, 2, on="mpi", trace=True, delay_s=0.1)
    waiting = run.waits()
    own = waiting.waits[waiting.waits["call"] == "Iprobe"]
    assert {*own["state"]} == {"late sender"}
    assert {*own["cause"]} == {1}
    calls = run.trace.calls
    send = calls[calls["call"] == "Send"].iloc[0]
    assert own["seconds"].sum() > 0  # how long is the host's affair: where a poll rests it is computation
    assert own["end_s"].max() <= send["begin_s"]
