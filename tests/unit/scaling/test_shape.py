"""What is said of the shape of data that no single law describes is true of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.scaling.judgement import describe

P = np.array([4.0, 8, 16, 32, 64, 128, 256, 512])


@pytest.mark.parametrize(
    ("y", "said"),
    [
        ([1, 2, 4, 8, 16, 32, 64, 128], "rises by a factor of 128"),
        ([10, 14, 16, 17, 17.4, 17.6, 17.7, 17.7], "rises by 77 % and levels off"),
        ([8, 7, 6, 5, 4, 3, 2, 1], "falls by 88 %, faster towards the end"),
        ([100, 101, 100, 99, 100, 101, 100, 100], "stays within 2 %"),
        ([9, 7, 5, 4, 5, 7, 9, 12], "falls up to p = 32 and rises from there on"),
        ([1, 2, 3, 4, 5, 4, 3, 2], "rises up to p = 64 and falls from there on"),
        ([100, 101, 102, 101, 100, 101, 99, 150], "rises by 50 %, faster towards the end"),
        (
            [100, 103, 103.5, 102, 100, 103, 99.9, 150],
            "stays within 4 % up to p = 256 and rises from there on",
        ),
        (
            [300, 200, 100, 103, 104, 100.5, 103.5, 100.5],
            "falls up to p = 16 and stays within 4 % from there on",
        ),
        ([1, 2, 1, 2, 1, 2, 1, 2], "goes up and down"),
    ],
)
def test_shapes_have_their_words(y: list[float], said: str) -> None:
    assert describe(P, np.array(y, float), None, "p", 0.02) == said


@given(st.lists(st.floats(1.0, 100.0), min_size=8, max_size=8), st.sampled_from([0.02, 0.1]))
def test_a_stretch_that_falls_or_rises_does_so_by_more_than_the_tolerance(y: list[float], tol: float) -> None:
    values = np.array(y)
    said = describe(P, values, None, "p", tol)
    first, _, second = said.partition(" up to p = ")
    if not second:
        return
    place, _, second = second.partition(" and ")
    at = int(np.flatnonzero(float(place) == P)[0])
    for words, part in ((first, values[: at + 1]), (second, values[at:])):
        change = part[-1] / part[0] - 1
        if words.startswith("rises"):
            assert change > tol
        elif words.startswith("falls"):
            assert change < -tol
        else:
            assert np.ptp(part) <= 2 * tol * part.min()
