"""Nonblocking collectives: what they give, what they cost, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk
from labkit import MPI

RANKS = (1, 2, 3, 4, 5, 7, 8, 16)


def both(name, comm, *args):
    """Carry out a collective in its blocking or nonblocking form."""
    if name.startswith("I"):
        request = getattr(comm, name)(*args)
        request.Wait()
        assert request == MPI.REQUEST_NULL
    else:
        getattr(comm, name)(*args)


def every_collective(comm, blocking: bool):
    """Return what each collective leaves in the receive buffer, on data that tells ranks and places apart."""
    me, p = comm.rank, comm.size
    mine = np.arange(3.0) + 10 * me
    wide = np.arange(2.0 * p) + 100 * me
    counts = [1 + i % 3 for i in range(p)]
    ragged = np.arange(float(sum(counts))) + 1000 * me
    root = p - 1
    out: dict[str, np.ndarray] = {}

    def do(name, into, *args):
        both(name if blocking else "I" + name.lower(), comm, *args)
        out[name] = into

    def empty(n):
        return np.full(n, -1.0)

    do("Barrier", empty(0))
    for name in ("Allreduce", "Scan", "Exscan"):
        do(name, into := empty(3), mine, into)
    do("Bcast", into := mine.copy(), into, root)
    do("Reduce", into := empty(3), mine, into if me == root else None, MPI.MAX, root)
    do("Gather", into := empty(3 * p), mine, into if me == root else None, root)
    do("Scatter", into := empty(2), wide if me == root else None, into, root)
    do("Allgather", into := empty(3 * p), mine, into)
    do("Alltoall", into := empty(2 * p), wide, into)
    own = np.full(counts[me], float(me))
    do("Allgatherv", into := empty(sum(counts)), own, [into, counts])
    do("Gatherv", into := empty(sum(counts)), own, [into, counts] if me == root else None, root)
    do("Scatterv", into := empty(counts[me]), [ragged, counts] if me == root else None, into, root)
    do("Reduce_scatter_block", into := empty(2), wide, into)
    do("Reduce_scatter", into := empty(counts[me]), ragged, into, counts)
    do("Alltoallv", into := empty(counts[me] * p), [ragged, counts], [into, [counts[me]] * p])
    places = [8 * counts[me] * i for i in range(p)]
    starts = [8 * sum(counts[:i]) for i in range(p)]
    do("Alltoallw", into := empty(counts[me] * p), [ragged, counts, starts, [MPI.DOUBLE] * p],
       [into, [counts[me]] * p, places, [MPI.DOUBLE] * p])  # fmt: skip
    return out


@pytest.mark.parametrize("ranks", RANKS)
def test_results_and_times_are_those_of_the_blocking_calls(ranks) -> None:
    blocking = lk.run(every_collective, ranks, on="star", args=(True,))
    beside = lk.run(every_collective, ranks, on="star", args=(False,))
    for expected, found in zip(blocking.results, beside.results, strict=True):
        assert {name: value.tolist() for name, value in expected.items()} == {
            name: value.tolist() for name, value in found.items()
        }
    assert beside.makespan_s == blocking.makespan_s
    assert (beside.messages, beside.bytes) == (blocking.messages, blocking.bytes)


def overlapped(comm, elements, seconds):
    sent, received = np.ones(elements), np.zeros(elements)
    request = comm.Iallreduce(sent, received)
    begun = MPI.Wtime()
    lk.compute(seconds=seconds)
    request.Wait()
    assert (received == comm.size).all()
    return begun


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_a_collective_goes_on_while_the_ranks_compute(ranks) -> None:
    alone_s = lk.run(overlapped, ranks, on="star", args=(100_000, 0.0)).makespan_s
    half = lk.run(overlapped, ranks, on="star", args=(100_000, alone_s / 2))
    double = lk.run(overlapped, ranks, on="star", args=(100_000, 2 * alone_s))
    # the call returned long before; first the computation is hidden behind it, then it behind the computation
    assert max(half.results) < alone_s / 10
    assert half.makespan_s == pytest.approx(alone_s, rel=1e-12)
    assert double.makespan_s == pytest.approx(max(double.results) + 2 * alone_s, rel=1e-12)


def test_a_late_rank_holds_up_the_others() -> None:
    def program(comm):
        lk.compute(seconds=1e-3 * (comm.rank == 2))
        request = comm.Ibarrier()
        is_over = request.Test()
        while not request.Test():
            lk.compute(seconds=1e-5)
        return is_over, MPI.Wtime()

    run = lk.run(program, 4, on="star")
    # a test takes 0.1 ms in this model, as in SMPI: enough for the rest of the barrier once all are here
    assert [over for over, _ in run.results] == [False, False, True, False]
    assert all(1e-3 < when < 1.21e-3 for _, when in run.results)
