"""A program that takes no time is no broken study: it is said that nothing was charged, and what to do."""

from __future__ import annotations

import pytest

import labkit as lk
from labkit.errors import DataError
from tests.support.refusals import raises_code

RANKS = [1, 2, 4, 8, 16]
SAID = r'makespan_s is 0 at every p: no computing was charged.*compute="measured"'


@pytest.fixture(scope="module")
def study() -> lk.Study:
    def program(comm):
        with lk.phase("count"):
            lk.compute(seconds=0)
        return comm.rank

    return lk.sweep(program, RANKS, progress=False)


def test_a_verdict_is_open(study):
    verdict = study.expect("p log p")
    assert verdict.match == "undecided"
    assert not verdict
    assert "no computing was charged" in verdict.reasons[0]
    assert "no computing was charged" in str(verdict)
    assert "no computing was charged" in verdict._repr_html_()
    assert "of phase 'count' is 0" in study.expect("1", phase="count").reasons[0]
    assert study.expect("p", metric="messages").reasons == (
        "messages is 0 at every p: there is nothing that grows",
    )


def test_the_other_tables_stand(study):
    assert study.table().models == {"count": None, "whole run": None}
    assert "count" in str(study.table())
    assert study.table({"count": "p"}, "1").verdicts["count"].match == "undecided"


@pytest.mark.parametrize(
    "ask",
    [
        lambda study: study.fit(),
        lambda study: study.plot(),
        lambda study: study.plot("p"),
        lambda study: study.limit("makespan_s", at_most=1),
        lambda study: lk.plot.speedup(study),
        lambda study: lk.plot.efficiency(study),
    ],
)
def test_what_needs_more_than_0_says_so(study, ask):
    with raises_code(DataError, "no-data"):
        ask(study)


def test_some_zeros_are_left_out_as_before(study):
    def program(comm):
        lk.compute(seconds=1e-3 * (comm.size - 1))

    some = lk.sweep(program, [1, 2, 3, 5, 9, 17], progress=False)
    assert some.expect("p").match == "exact"
    assert "makespan_s is 0 at p = 1, which is left out" in str(some.expect("p"))
    assert lk.plot.speedup(some).reading


def test_numbers_of_ones_own_that_are_all_0():
    with raises_code(DataError, "no-data", "0"):
        lk.judge(RANKS, [0] * 5, "p")
