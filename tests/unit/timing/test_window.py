"""Windows on a simulated machine, where the true times are known: clocks that go wrong, and late ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.timing import Bench, Repeats
from labkit.timing.clocks import LedClock


def wrong(rank: int, offset: float = 1000.0, drift: float = 4e-5) -> Any:
    """A clock that is off by its own offset and drift on every rank but 0."""
    return lambda: (MPI.Wtime() + offset * rank) * (1 + drift * rank)


@pytest.mark.slow
@pytest.mark.parametrize("drift", [0.0, 4e-5, -4e-5])
def test_ranks_with_wrong_clocks_start_together(drift: float) -> None:
    def program(comm: Any) -> Any:
        clock, begins = wrong(comm.rank, drift=drift), []

        def call() -> None:
            begins.append(MPI.Wtime())
            lk.compute(seconds=0.05 * (1 + comm.rank))

        timing = lk.measure(comm, call, repeats=12, warmup=1, clock=clock)
        return begins, timing.times_s, timing.conduct

    results = lk.run(program, 4, "star:4").results
    begins = np.array([begin for begin, _, _ in results])
    apart = np.ptp(begins, axis=0)
    assert (apart[4:] < 40e-6).all()  # known to half a round trip, of clocks that are hours apart
    _, times, conduct = results[0]
    assert np.array(times) == pytest.approx(0.2, abs=60e-6)  # from the start to the last rank's end
    assert all(result[1] == times for result in results)  # the same on every rank
    assert conduct.own_clocks == 3
    assert conduct.clock_offset_s > 2000
    assert conduct.clock_drift == pytest.approx(3 * abs(drift), rel=0.3, abs=1e-6)
    assert (conduct.start, conduct.late, conduct.warmup) == ("window", 0, 1)


def test_a_drift_is_used_only_where_the_comparisons_lie_far_enough_apart() -> None:
    def program(comm: Any) -> Any:
        clock = LedClock(comm, wrong(comm.rank))
        found = []
        for pause in (0.0, 1e-3, 10.0):
            lk.compute(seconds=pause)
            clock.compare()
            found.append(clock.drift)
        now = MPI.Wtime()
        return found, clock.led(wrong(comm.rank)()) - now, clock.own(clock.led(123.0))

    for rank, (drifts, error, back) in enumerate(lk.run(program, 3, "star:3").results):
        assert drifts[:2] == [0.0, 0.0]
        assert drifts[2] == pytest.approx(-4e-5 * rank, rel=0.05, abs=1e-9)
        assert abs(error) < 20e-6
        assert back == pytest.approx(123.0, abs=1e-9)


def test_a_rank_that_comes_too_late_is_noticed_by_all_and_the_run_is_done_again() -> None:
    """Rank 2 is held up on its way to two of the starts."""

    def program(comm: Any) -> Any:
        bench = Bench(comm.Dup(), Repeats(within=0.0, least=5, most=5), clock=MPI.Wtime)
        window, starts = bench._window, 0
        agree = window._agree

        def held_up(lead_s: float) -> None:
            agree(lead_s)
            if comm.rank == 2 and starts in (1, 3):
                lk.compute(seconds=2e-3)

        window._agree = held_up  # type: ignore[method-assign]
        kept = []
        while not bench.is_done:
            bench.start()
            begin = MPI.Wtime()
            lk.compute(seconds=1e-4)
            kept.append(bench.take(begin, MPI.Wtime()))
            starts += 1
        return kept, bench.conduct()

    results = lk.run(program, 4, "star:4").results
    for kept, _ in results:
        assert kept == [True, False, True, False, True, True, True]
    assert results[0][1].late == 2
    assert results[0][1].repeats == 5
    assert results[0][1].value_s == pytest.approx(1e-4, abs=1e-6)


def test_crowded_cores_leave_a_barrier_and_say_so() -> None:
    def program(comm: Any) -> Any:
        bench = Bench(comm.Dup(), Repeats(within=0.0, least=3, most=3), cores=2, clock=MPI.Wtime)
        while not bench.is_done:
            bench.start()
            begin = MPI.Wtime()
            lk.compute(seconds=1e-3 * (1 + comm.rank))
            bench.take(begin, MPI.Wtime())
        return bench.conduct()

    found = lk.run(program, 3, "star:3").results[1]
    assert (found.start, found.why_barrier) == ("barrier", "ranks share cores")
    assert found.value_s == pytest.approx(3e-3, abs=1e-7)
    assert "behind a barrier (ranks share cores)" in found.text()


def test_planted_noise_is_repeated_until_the_interval_is_narrow() -> None:
    def program(comm: Any) -> Any:
        rng, data = np.random.default_rng(5), np.zeros(10)

        def call() -> None:
            lk.compute(seconds=1e-3 * rng.lognormal(0, 0.1))  # on every rank the same
            comm.Bcast(data)

        return lk.measure(comm, call, repeats=Repeats(most=200))

    timing = lk.run(program, 4, "star:4").results[3]
    assert timing.conduct.stopped == "precise"
    assert 10 < len(timing.times_s) < 100
    assert timing.interval.reach <= 0.05
    assert timing.interval.low <= 1e-3 * 1.06


def test_a_simulated_call_is_measured_once_and_says_why() -> None:
    def program(comm: Any) -> Any:
        return lk.measure(comm, comm.Barrier)

    timing = lk.run(program, 8, "star:8").results[0]
    assert len(timing.times_s) == 1
    assert str(timing).endswith("(simulated: deterministic, one repetition)")
