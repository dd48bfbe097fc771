"""Estimators under outliers: what is dropped, what stays, and the likelihood's maximum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from labkit.errors import DataError
from labkit.tuning.runtime.plan import (
    ESTIMATORS,
    Cluster,
    Drop,
    InterquartileRange,
    Mean,
    StudentT,
    estimator_of,
)
from tests.support.refusals import raises_code

#: three calls in ten have a second mode at 200 ms: no outliers
SECOND_MODE = np.array([0.01, 0.011, 0.2, 0.0105, 0.2, 0.0102, 0.0101, 0.2, 0.0103, 0.0104])


@pytest.mark.parametrize("name", ["drop", "iqr", "cluster", "student"])
def test_one_accident_does_not_count(name):
    times = np.array([1.0, 1.01, 0.99, 1.02, 1.0, 0.98, 1.01, 1.0, 0.99, 50.0])
    assert ESTIMATORS[name]().of(times) == pytest.approx(1.0, rel=0.01)
    assert Mean().of(times) == pytest.approx(5.9, rel=0.01)


@pytest.mark.parametrize("name", ["drop", "iqr", "cluster"])
def test_a_second_mode_counts(name):
    assert ESTIMATORS[name]().of(SECOND_MODE) == pytest.approx(SECOND_MODE.mean())


def test_drop_is_decided_by_the_rank_with_most_outliers():
    drop = Drop(bound=2, most=0.1)
    quiet, noisy = np.array([1.0] * 9 + [9.0]), np.array([1.0] * 7 + [9.0] * 3)
    most = np.max([drop.local(quiet), drop.local(noisy)], axis=0)
    assert drop.joined(drop.local(quiet)) == 1.0
    assert drop.joined(list(most)) == pytest.approx(noisy.mean())


def test_clusters_leave_from_the_root_and_not_more_than_allowed():
    times = np.array([1.0, 1.1, 1.2, 1.05, 1.15, 1.08, 1.12, 1.01, 9.0, 100.0])
    assert Cluster(most=0.1).kept(times).tolist() == [True] * 9 + [False]
    assert Cluster(most=0.2).kept(times).tolist() == [True] * 8 + [False] * 2
    assert Cluster(most=0).kept(times).all()


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(5, 40), st.sampled_from([4.0, 5.0, 6.0]))
def test_student_finds_the_greatest_likelihood(seed, count, degrees):
    times = 1e-4 * (10 + np.abs(stats.t.rvs(3, size=count, random_state=seed)))
    found = StudentT(degrees).of(times)

    def likelihood(location):  # the best scale for a location, on a grid
        scales = np.geomspace(1e-6, 1e-2, 150)[:, None]
        return stats.t.logpdf(times, degrees, location, scales).sum(axis=1).max()

    grid = np.linspace(times.min(), times.max(), 60)
    assert likelihood(found) >= max(likelihood(at) for at in grid) - 1e-3


def test_student_scales_with_its_times_and_finds_its_degrees():
    rng = np.random.default_rng(1)
    times = 5 + 0.1 * rng.standard_t(3, 400)
    for estimator in (StudentT(), StudentT(None)):
        assert estimator.of(1e-6 * times) == pytest.approx(1e-6 * estimator.of(times), rel=1e-6)
        assert estimator.of(times) == pytest.approx(5, abs=0.02)
    assert StudentT().of([2.0, 2.0, 2.0, 7.0]) == 2.0


@given(st.sampled_from(sorted(ESTIMATORS)), st.lists(st.floats(0, 1e3), min_size=1, max_size=30))
@settings(max_examples=150, deadline=None)
def test_every_estimate_lies_among_its_times(name, times):
    estimator = ESTIMATORS[name]()
    found = estimator.of(times)
    assert min(times) * (1 - 1e-9) - 1e-12 <= found <= max(times) * (1 + 1e-9) + 1e-12
    assert 0 <= estimator.outliers(np.array(times)) < len(times)


def test_what_is_refused():
    for times in ([], [1.0, -1.0], [float("nan")]):
        with raises_code(DataError, "not-enough-data"):
            Mean().of(times)
    for make in (lambda: Drop(bound=1), lambda: Cluster(most=1), lambda: InterquartileRange(-1),
                 lambda: StudentT(0), lambda: Cluster(apart=0.5), lambda: Drop(most=-0.1)):  # fmt: skip
        with raises_code(DataError, "out-of-range"):
            make()
    with raises_code(DataError, "unknown-name"):
        estimator_of("median")
