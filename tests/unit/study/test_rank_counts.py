"""Ranges of ranks, and what changes with their form: powers of two or not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import labkit as lk
from labkit.errors import DataError
from labkit.study.points import form_of_algorithms, form_of_values, rank_counts
from tests.support.refusals import raises_code


@pytest.mark.parametrize(
    ("ranks", "wanted"),
    [
        ("16..256", [16, 24, 32, 48, 64, 96, 128, 192, 256]),
        (" 1 .. 8 ", [1, 2, 3, 4, 6, 8]),
        ("5..5", [5]),
        ("7..20", [7, 8, 12, 16, 20]),
        (["1..3", 100], [1, 2, 3, 100]),
        (4, [4]),
        (np.array([4, 2]), [4, 2]),
        (range(1, 4), [1, 2, 3]),
    ],
)
def test_a_range_has_its_ends_and_numbers_of_both_forms(ranks, wanted):
    assert rank_counts(ranks) == wanted


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_the_numbers_of_a_range_grow_by_at_most_a_half(first, more):
    found = rank_counts(f"{first}..{first + more}")
    assert found == sorted(set(found))
    assert (found[0], found[-1]) == (first, first + more)
    assert all(b <= max(1.5 * a, a + 1) for a, b in itertools.pairwise(found))


@pytest.mark.parametrize(
    "wrong", ["0..4", "8..4", "4...8", "4-8", "[2, 4]", "", True, 0, 2.0, None, [4, "x"]]
)
def test_what_is_no_number_of_ranks_is_refused(wrong):
    with raises_code(DataError, "out-of-range"):
        rank_counts(wrong)


def allreduce(comm):
    comm.Allreduce(np.ones(4), np.empty(4))


def allgather(comm):
    comm.Allgather(np.ones(4), np.empty(4 * comm.size))


def bcast(comm):
    comm.Bcast(np.ones(4))


def remarks(program, ranks):
    study = lk.sweep(program, ranks, progress=False)
    return study, " ".join(study.notes["remarks"])


def test_an_algorithm_chosen_by_the_form_of_p_is_named():
    _, said = remarks(allgather, "8..64")
    assert "allgather takes bruck at p = 12, 24, 48 and recursive_doubling at the powers of two" in said
    assert "form of p" not in remarks(allgather, [8, 16, 32, 64])[1]


def test_an_algorithm_whose_times_depend_on_the_form_of_p_is_found():
    """Recursive doubling takes log2 p rounds, and two more elsewhere: 6 at 24 ranks, 5 at 32."""
    study, said = remarks(allreduce, "8..64")
    assert "makespan_s at p = 12, 24, 48 is" in said
    assert "above the powers of two on both sides" in said
    verdict = study.expect("log p")
    assert any("above the powers of two" in note for note in verdict.notes)
    powers = study.expect("log p", where={"ranks": [8, 16, 32, 64]})
    assert not any("powers of two" in note for note in powers.notes)


def test_nothing_is_said_of_an_algorithm_that_does_not_care():
    study, said = remarks(bcast, "8..64")
    assert "form of p" not in said
    assert not any("form of p" in note for note in study.expect("log p").notes)


@given(st.lists(st.floats(0.1, 10), min_size=9, max_size=9), st.floats(0.3, 3))
def test_what_grows_or_falls_steadily_has_no_form(steps, exponent):
    x = rank_counts("16..256")
    rising = np.cumsum(np.array(steps) ** exponent)
    for values in (rising, rising[::-1]):
        assert form_of_values(x, [np.array([v]) for v in values], "time") == ""


def test_a_scatter_that_is_as_large_as_the_difference_is_no_form():
    x = rank_counts("16..256")
    off = [np.array([1.2]) if p & (p - 1) else np.array([1.0]) for p in x]
    assert "is 20 % above" in form_of_values(x, off, "time")
    assert "is 20 % below" in form_of_values(x, [np.array([2.0]) - v for v in off], "time")
    noisy = [np.append(v, [0.9, 1.3]) for v in off]
    assert form_of_values(x, noisy, "time") == ""


def test_algorithms_that_change_with_size_are_no_form():
    assert form_of_algorithms({"bcast": {16: ["binomial"], 24: ["chain"], 32: ["chain"]}}) == []
    assert form_of_algorithms({"bcast": {16: ["a"], 24: ["b"]}}) == []
    assert len(form_of_algorithms({"bcast": {16: ["a"], 24: ["b"], 32: ["a"]}})) == 1
