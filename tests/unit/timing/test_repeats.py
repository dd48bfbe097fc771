"""Intervals, and when repetition stops: against SciPy, by simulation of noise, and for any numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from labkit.errors import DataError
from labkit.timing import Conduct, Repeats, interval
from labkit.timing.repeats import Series, least_values, repeats_of
from tests.support.refusals import raises_code


@pytest.mark.parametrize("n", [6, 7, 12, 50, 199])
def test_the_median_s_interval_is_the_narrowest_of_its_level(n: int) -> None:
    found = interval(list(range(n)))
    k = int(found.low)
    assert found.high == n - 1 - k

    def outside(j: int) -> float:
        return 2 * binomtest(j, n, 0.5, alternative="less").pvalue

    assert outside(k) <= 0.05 < outside(k + 1)


def test_five_values_have_no_interval_and_six_do() -> None:
    assert least_values() == 6
    assert interval([1.0] * 5).reach == math.inf
    assert interval([1.0] * 6).reach == 0.0


@pytest.mark.parametrize(("statistic", "draw"), [("median", "lognormal"), ("mean", "normal")])
def test_intervals_hold_the_truth_as_often_as_they_say(statistic: str, draw: str) -> None:
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(1000):
        values = rng.lognormal(0, 1, 15) if draw == "lognormal" else rng.normal(1, 0.1, 15)
        found = interval(values.tolist(), statistic)
        hits += found.low <= 1.0 <= found.high
    assert 0.935 <= hits / 1000 <= 0.985


@settings(max_examples=80)
@given(values=st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=60), level=st.floats(0.5, 0.999))
def test_an_interval_holds_its_value_and_grows_with_its_level(values: list[float], level: float) -> None:
    for statistic in ("median", "mean"):
        found = interval(values, statistic, level)
        wider = interval(values, statistic, (1 + level) / 2)
        assert found.low <= found.value * (1 + 1e-12)
        assert found.value <= found.high * (1 + 1e-12)
        assert wider.low <= found.low + 1e-12
        assert found.high <= wider.high + 1e-12


def filled(asked: Repeats, draw: object, warmup: int = 0) -> Series:
    series = Series(asked, warmup)
    while not series.stopped:
        series.take(draw(), 0.0, 0.0)  # type: ignore[operator]
    return series


def test_it_stops_when_the_interval_is_narrow_and_sooner_on_a_quiet_machine() -> None:
    rng = np.random.default_rng(1)
    quiet = filled(Repeats(most=500), lambda: rng.normal(1, 0.02))
    noisy = filled(Repeats(most=500), lambda: rng.normal(1, 0.15))
    assert quiet.stopped == noisy.stopped == "precise"
    assert 6 <= len(quiet.times_s) < 12 < len(noisy.times_s)
    assert noisy.interval().reach <= 0.05
    assert noisy.conduct().is_precise
    assert noisy.conduct().notes() == []


def test_the_cap_is_kept_and_said() -> None:
    rng = np.random.default_rng(1)
    series = filled(Repeats(most=20), lambda: rng.lognormal(0, 1))
    assert (series.stopped, len(series.times_s)) == ("most", 20)
    (note,) = series.conduct().notes()
    assert "after 20 repetitions the median is known to within" in note
    assert "not 5% as wanted: the maximum number was reached" in note


def test_the_time_is_kept_once_there_are_enough_for_an_interval() -> None:
    series, clock, rng = Series(Repeats(most_s=1.0)), 0.0, np.random.default_rng(0)
    while not series.stopped:
        clock += 0.9
        series.take(rng.lognormal(), 0.0, clock)
    assert (series.stopped, len(series.times_s)) == ("time", 6)
    assert "the 1 s for a point had passed" in series.conduct().notes()[0]


def test_late_starts_are_thrown_away_and_counted_and_do_not_go_on_for_ever() -> None:
    series = Series(Repeats(within=0.0, least=4, most=4))
    late = iter([0.0, 1e-3, 0.0, 1e-3, 1e-3, 0.0, 0.0])
    kept = [series.take(1e-3, one, 0.0) for one in late]
    assert kept == [True, False, True, False, False, True, True]
    assert (series.late, series.conduct().repeats, series.conduct().kept_late) == (3, 4, 0)

    always = Series(Repeats(within=0.0, least=4, most=4))
    while not always.stopped:
        always.take(1e-3, 1e-3, 0.0)
    assert (always.late, always.kept_late) == (4, 4)
    assert "4 of 4 repetitions began late" in always.conduct().notes()[0]


def test_a_start_that_is_late_by_little_of_a_long_time_counts() -> None:
    series = Series(Repeats(within=0.0, least=1, most=1))
    assert series.take(1.0, 5e-3, 0.0)


def test_warm_ups_come_first_and_do_not_count() -> None:
    series = filled(Repeats(within=0.0, least=3, most=3), iter([9.0, 9.0, 1.0, 1.0, 1.0]).__next__, warmup=2)
    assert series.times_s == [1.0, 1.0, 1.0]
    assert series.number == 5


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"within": 1.0}, "out-of-range"),
        ({"level": 0}, "out-of-range"),
        ({"most": 5, "least": 5}, "invalid-value"),
        ({"most": 8, "least": 9}, "out-of-range"),
        ({"statistic": "mode"}, "unknown-name"),
        ({"most_s": -1}, "out-of-range"),
        ({"least": True}, "out-of-range"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_value(how: dict[str, object], code: str) -> None:
    with raises_code(DataError, code, str(how[next(iter(how))])):
        Repeats(**how)  # type: ignore[arg-type]


def test_a_number_of_repetitions_is_a_plan_and_a_time_limit_leaves_room() -> None:
    assert repeats_of(3) == Repeats(within=0.0, least=3, most=3)
    assert repeats_of(Repeats(most_s=100), 60.0).most_s == 30.0
    assert Conduct(asked=Repeats().to_dict()).notes()[0].startswith("after 0 repetitions the median has no")
