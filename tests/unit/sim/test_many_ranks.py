"""Thousands of ranks: reports stay short, memory goes back, ends are clean."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import labkit as lk
from labkit import _kernels

RANKS = 3000


def test_a_deadlocked_ring_is_reported_in_few_words() -> None:
    def ring(comm):
        comm.Recv(np.empty(1), (comm.rank - 1) % comm.size)

    with pytest.raises(lk.errors.DeadlockError) as caught:
        lk.run(ring, RANKS)
    assert caught.value.ranks == caught.value.blocked == len(caught.value.cycle) == RANKS
    assert len(str(caught.value)) < 10_000


def test_ranks_that_stay_away_from_a_collective_are_counted() -> None:
    def program(comm):
        if comm.rank % 2:
            comm.Barrier()
        else:
            comm.recv(source=comm.rank + 1)

    with pytest.raises(lk.errors.DeadlockError) as caught:
        lk.run(program, RANKS)
    assert caught.value.cycle
    assert len(str(caught.value)) < 15_000


def test_a_time_limit_is_reported_in_few_words() -> None:
    def program(comm):
        if comm.rank == RANKS - 1:
            while True:
                pass
        comm.Barrier()

    with pytest.raises(lk.errors.TimeLimitError) as caught:
        lk.run(program, RANKS, timeout_s=1)
    assert len(str(caught.value)) < 10_000


def test_a_run_shows_itself_in_few_words() -> None:
    run = lk.run(lambda comm: comm.rank, RANKS)
    assert run.results == list(range(RANKS))
    assert len(repr(run)) < 1000
    assert len(run._repr_html_()) < 20_000


def test_frames_go_back_to_the_pool() -> None:
    lk.run(lambda comm: comm.Barrier(), RANKS)
    gc.collect()
    chunks, slabs = _kernels.frame_pool_use()
    assert chunks < RANKS // 10
    assert slabs <= 16 + 1


def test_garbage_is_looked_for_as_before_once_a_run_has_ended() -> None:
    before = gc.get_threshold()
    inside = lk.run(lambda comm: gc.get_threshold()[0], RANKS).results[0]
    assert inside >= RANKS
    assert gc.get_threshold() == before


def test_calls_may_nest_deeper_than_a_small_chunk_of_frames() -> None:
    """From 1024 ranks on frames begin in 2 KiB; a rank that waits finds its frames as it left them."""

    def nested(comm, depth):
        local = [comm.rank, depth]
        if depth and depth % 7 == 0:
            comm.Barrier()
        below = nested(comm, depth - 1) if depth else 0
        assert local == [comm.rank, depth]
        return below + local[0]

    run = lk.run(lambda comm: nested(comm, 60), 1100)
    assert run.results == [61 * rank for rank in range(1100)]
    gc.collect()
    assert _kernels.frame_pool_use()[0] < 100
