"""Clocks are led over: planted offsets and drifts come out again, and one clock stays as it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit import MPI
from labkit.timing.clocks import ClockMeter, Clocks, ClockSample, best_of

delays = st.floats(1e-7, 1e-3)


def test_the_shortest_round_trip_counts() -> None:
    long, short = (0.0, 105.0, 8.0), (10.0, 113.1, 10.2)
    assert best_of([long, short, long]) == pytest.approx(ClockSample(10.1, 103.0, 0.1))


@settings(max_examples=60)
@given(
    offset=st.floats(-1e6, 1e6), drift=st.floats(-2e-4, 2e-4), span=st.floats(0.1, 1e4),
    ways=st.lists(st.tuples(delays, delays), min_size=2, max_size=24),
)  # fmt: skip
def test_a_planted_offset_and_drift_are_taken_out_to_within_the_bound(offset, drift, span, ways) -> None:
    """A clock that says (t + offset) (1 + drift) at t, compared at 0 and at `span` over any ways."""

    def clock(t: float) -> float:
        return (t + offset) * (1 + drift)

    def compare(t: float) -> ClockSample:
        exchanges = []
        for there, back in ways:
            exchanges.append((clock(t), t + there, clock(t + there + back)))
            t += there + back
        return best_of(exchanges)

    clocks = Clocks([[], [compare(0.0), compare(span)]])
    true = np.linspace(0.0, span, 7)
    error = np.abs(clocks.corrected(1, clock(true)) - true)
    own = abs(offset) > 2e-3
    bound = clocks.bound_s if clocks.is_own(1) else clocks.bound_s + np.abs(clock(true) - true).max()
    assert (error <= bound + 1e-9 * (span + abs(offset)) + 4e-4 * 2e-3 * len(ways)).all()
    assert clocks.is_own(1) or not own
    if clocks.is_own(1):
        assert "corrected to that of rank 0" in clocks.text()


def test_a_clock_in_common_is_left_alone_whatever_the_ways() -> None:
    clocks = Clocks([[], [ClockSample(1.0, 0.3e-6, 0.5e-6), ClockSample(9.0, -0.4e-6, 0.5e-6)]])
    times = np.array([1.5, 2.5])
    assert (clocks.corrected(1, times) == times).all()
    measured = "differences of up to 400 ns were measured, within 500 ns"
    assert clocks.text() == f"the ranks read one clock ({measured})"


def test_ranks_compare_their_clocks_by_messages() -> None:
    """In simulation, where the ways are known: every rank's clock goes wrong in its own way."""

    def program(comm: object) -> object:
        rank = comm.rank  # type: ignore[attr-defined]
        meter = ClockMeter(comm, lambda: (MPI.Wtime() + 100.0 * rank) * (1 + 1e-5 * rank))
        first = meter.compare()
        lk.compute(seconds=50.0)
        comm.barrier()  # type: ignore[attr-defined]
        return [first, meter.compare()], MPI.Wtime(), (MPI.Wtime() + 100.0 * rank) * (1 + 1e-5 * rank)

    run = lk.run(program, 4, "star:4")
    clocks = Clocks([samples for samples, _, _ in run.results])
    for rank, (_, true, wrong) in enumerate(run.results):
        assert clocks.corrected(rank, wrong) == pytest.approx(true, abs=clocks.bound_s + 1e-9)
        assert clocks.drift(rank) == pytest.approx(-1e-5 * rank, rel=1e-2, abs=1e-12)
    assert 1e-6 < clocks.bound_s < 1e-3
    assert "clocks of 3 of 4 ranks" in clocks.text()
