"""List ranking against the serial loop, on lists in order, at random, several of them, and odd ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import registry
from labkit.datasets.matrices import offsets
from labkit.errors import DataError, RankError
from tests.support.refusals import raises_code

NAMES = registry.names("lists")


def chained(*lists: Any) -> Any:
    """Successors of lists of elements."""
    successors = np.arange(sum(map(len, lists)))
    for one in lists:
        successors[one[:-1]] = one[1:]
    return successors


def shuffled(n: int) -> Any:
    return np.random.default_rng(n).permutation(n)


LISTS = {
    "none": chained(),
    "one": chained([0]),
    "loners": chained([0], [1], [2], [3], [4]),
    "in order": chained(range(40)),
    "backwards": chained([*range(39, -1, -1)]),
    "at random": chained(shuffled(150)),
    "several": chained(shuffled(60)[:1], shuffled(60)[1:13], shuffled(60)[13:]),
}


def wanted(successors: Any) -> Any:
    links = np.zeros(len(successors), int)
    for start in range(len(successors)):
        at = start
        while successors[at] != at:
            links[start], at = links[start] + 1, successors[at]
    return links


WANTED = {name: wanted(successors) for name, successors in LISTS.items()}


def rank_all(comm: Any) -> None:
    """Rank all lists; on many ranks a few of them, among these the ones with more ranks than elements."""
    for kind in LISTS if comm.size < 6 else ("loners", "several"):
        successors = LISTS[kind]
        n = len(successors)
        mine = slice(*offsets(n, comm.size)[comm.rank : comm.rank + 2])
        for name in NAMES:
            for how in ({},) if name == "pointer_jumping" else ({}, {"keep": 4}):
                given = successors[mine].copy()
                found = registry.get("lists", name).function(comm, n, given, **how)
                assert np.array_equal(found, WANTED[kind][mine]), (kind, name, how)
                assert np.array_equal(given, successors[mine])


@pytest.mark.parametrize("ranks", range(1, 18))
def test_links_are_those_of_the_serial_loop(ranks: int) -> None:
    lk.run(rank_all, ranks, "star")


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", range(1, 6))
def test_links_are_those_of_the_serial_loop_on_real_mpi(ranks: int) -> None:
    lk.run(rank_all, ranks, "mpi")


def ranked(comm: Any, name: str, n: int, successors: Any) -> None:
    mine = slice(*offsets(n, comm.size)[comm.rank : comm.rank + 2])
    registry.get("lists", name).function(comm, n, successors[mine])


def test_removing_sends_fewer_bytes_and_more_messages() -> None:
    n = 4096
    counts = {
        name: lk.run(ranked, 8, "star", args=(name, n, chained(shuffled(n))), count=True).counts
        for name in NAMES
    }
    totals = {name: found.query("phase == ''")[["messages", "bytes"]].max() for name, found in counts.items()}
    few, many = totals["pointer_jumping"], totals["independent_sets"]
    assert many["messages"] > few["messages"]
    assert many["bytes"] < few["bytes"] / 2
    assert few["messages"] == 12 * 2 * (7 + 3)  # in 12 rounds two exchanges, and two of lengths by Bruck
    for name, rounds in (("pointer_jumping", 12), ("independent_sets", 11)):
        cost = registry.get("lists", name).cost
        assert cost is not None
        bound = cost(8, 8 * n / 8, rounds=rounds)
        assert totals[name]["messages"] <= bound.rounds
        assert totals[name]["bytes"] <= bound.volume_bytes


def test_the_last_element_is_not_asked_by_everybody() -> None:
    """Without one request for all elements that point to the same one, its owner would answer n of them."""
    n = 2048
    run = lk.run(ranked, 8, "star", args=("pointer_jumping", n, chained(range(n))), count=True)
    sent = run.counts.query("phase == 'exchange'").set_index("rank")["bytes"]
    assert sent[7] < 2 * sent.mean()


@pytest.mark.parametrize("name", NAMES)
def test_growth_is_as_expected(name: str) -> None:
    def program(comm: Any) -> None:
        n = 32 * comm.size
        ranked(comm, name, n, chained(shuffled(n)))

    study = lk.sweep(program, [2, 4, 8, 16, 32], "star", progress=False)
    for phase, growth in registry.get("lists", name).expectations.items():
        if phase in study.data["phase"].unique():
            assert study.expect(growth, **({"phase": phase} if phase else {})).match != "none", phase


@pytest.mark.parametrize(
    ("name", "given", "code", "facts"),
    [
        ("pointer_jumping", (2, [1]), "count-mismatch", ["int64", "(1,)"]),
        ("pointer_jumping", (2, [0, 2]), "out-of-range", ["0 to 1", "0 to 2"]),
        ("independent_sets", (1, [0.5]), "count-mismatch", ["float64", "(1,)"]),
        ("independent_sets", (1, [0], 0), "out-of-range", ["keep", "1", "0"]),
    ],
)
def test_what_is_no_list_is_refused(name: str, given: Any, code: str, facts: list[str]) -> None:
    def program(comm: Any) -> None:
        n, successors, *keep = given
        how = {"keep": keep[0]} if keep else {}
        registry.get("lists", name).function(comm, n, successors, **how)

    with raises_code((DataError, RankError), code, *facts):
        lk.run(program, 1, "star")
