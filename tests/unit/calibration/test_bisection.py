"""Effective bisection bandwidth: against closed forms and against the cut."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk
from labkit.calibration import effective_bisection
from labkit.errors import DataError


@pytest.mark.parametrize("p", [2, 3, 4, 7, 16])
def test_a_crossbar_has_all_of_it(p: int) -> None:
    found = effective_bisection("star", p, samples=4, model="raw")
    assert found.bytes_per_s.shape == (4, p // 2)
    assert found.share == pytest.approx(1, rel=1e-6)


def test_static_routes_of_a_full_tree_lose_some_and_half_a_tree_more() -> None:
    full = effective_bisection("fattree:8x8:1x8:1x1", 64, samples=20)
    half = effective_bisection("fattree:8x8:1x4:1x1", 64, samples=20)
    assert 0.5 < half.share < full.share < 0.99
    assert len(np.unique(full.samples_bytes_per_s)) > 1
    assert "90 %" in str(full)
    assert "<table>" in full._repr_html_()


def test_a_line_of_two_halves_has_what_its_cut_has() -> None:
    """All pairs of a torus of two hosts, and of a ring, share the ring's two links of the cut at most."""
    ring = effective_bisection("torus:16", 16, samples=30, model="raw")
    cut = lk.platform("torus:16").bisection
    assert cut is not None
    per_pair = cut.bytes_per_s / 8  # if all eight pairs cross it
    assert ring.samples_bytes_per_s.min() >= per_pair * 0.5
    assert ring.share < 1


def test_the_same_seed_draws_the_same() -> None:
    one, two = (effective_bisection("torus:4x4", 16, samples=5, seed=3) for _ in range(2))
    assert np.array_equal(one.bytes_per_s, two.bytes_per_s)


@pytest.mark.mpi
def test_on_real_mpi() -> None:
    found = effective_bisection("mpi", 2, samples=3, n_bytes=1 << 16)
    assert found.bytes_per_s.shape == (3, 1)
    assert (found.bytes_per_s > 0).all()


@pytest.mark.parametrize("bad", [{"ranks": 1}, {"samples": 0}, {"n_bytes": 0}])
def test_what_cannot_be_measured_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(DataError):
        effective_bisection("star", **{"ranks": 4} | bad)
