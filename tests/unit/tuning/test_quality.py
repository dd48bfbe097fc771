"""Verification runs: winners, instability, and errors of rankings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import labkit as lk
from labkit.errors import DataError
from labkit.tuning import Verification
from tests.support.refusals import raises_code

#: three codelets a, b, c with overlaps a-b and b-c, and d far away; by hand
BY_HAND = Verification(
    {"a": [10.0, 11.0, 12.0], "b": [11.5, 12.5, 13.5], "c": [13.0, 14.0, 15.0], "d": [20.0] * 3}
)


def test_by_hand():
    assert BY_HAND.winners == ["a", "b"]
    assert BY_HAND.worst == ["d"]
    assert [BY_HAND.instability(name) for name in "abcd"] == pytest.approx([1 / 3, 2 / 3, 1 / 3, 0])
    assert BY_HAND.stability == "stable"  # 1/3 in the mean
    assert BY_HAND.loss("b") == pytest.approx(12.5 / 11 - 1)
    errors = BY_HAND.ranking_errors(
        {"a": 3.0, "b": 1.0, "c": 2.0, "d": 4.0}
    )  # c before a; b before a overlaps
    assert errors.loc["average"].tolist() == pytest.approx([100 * (14 - 11) / 11] * 2)
    # c's least overhead, 13/10, and a's most, 12/12; c's most, 15/12, and a's least, 10/10
    assert errors.loc["least", "largest"] == pytest.approx(min(30 - 0, 25 - 0))
    assert errors.loc["most", "largest"] == pytest.approx(max(30 - 0, 25 - 0))
    assert (BY_HAND.ranking_errors({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}) == 0).all(axis=None)


times = st.dictionaries(
    st.sampled_from("abcdef"), st.lists(st.floats(0.1, 10), min_size=3, max_size=3), min_size=2
)


@given(times)
def test_laws(values):
    found = Verification(values)
    means = {name: float(np.mean(own)) for name, own in values.items()}
    assert min(values, key=lambda name: min(values[name])) in found.winners
    assert found.ranking_errors(means)["sum"].max() == 0
    assert all(0 <= found.instability(name) <= 1 for name in values)
    same = Verification({name: values[next(iter(values))] for name in values})
    assert same.stability == "very unstable"
    assert same.ranking_errors({name: -mean for name, mean in means.items()})["sum"].max() == 0


def program(comm, use=None):
    with lk.tune.allreduce(comm, use=use) as allreduce, lk.phase("loop"):
        for _ in range(5):
            allreduce(np.ones(1000), np.empty(1000))


def test_runs_of_each_codelet():
    names = ["ring", "recursive_doubling"]
    options = {"noise": "jitter=10us,period=1ms", "runs": 2}
    whole = lk.tune.verify(program, 8, "star", names, **options)
    loop = lk.tune.verify(program, 8, "star", names, phase="loop", **options)
    assert loop.winners == ["recursive_doubling"]
    assert all(a > b for name in names for a, b in zip(whole.times[name], loop.times[name], strict=True))
    assert len(set(loop.times["ring"])) == 2  # seeds of their own
    with raises_code(DataError, "unknown-name"):
        lk.tune.verify(program, 2, "star", names, phase="nowhere")
    with raises_code(DataError, "out-of-range", "1"):
        lk.tune.verify(program, 2, "star", names, runs=0)
    with raises_code(DataError, "count-mismatch"):
        Verification({"a": [1.0]})
    with raises_code(DataError, "no-data"):
        BY_HAND.ranking_errors({"x": 1.0})
