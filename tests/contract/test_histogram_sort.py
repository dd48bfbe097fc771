"""Histogram sort's own promises: balance within the tolerance, cuts in one total order, rounds, options."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit.algorithms.sorting import histogram_sort as module
from labkit.datasets import inputs
from labkit.errors import RankError
from tests.support.refusals import raises_code

LENGTHS = ("even", "ragged", "one_rank", "powers", "fewer")
Case = dict[str, Any]


def sort_all(comm: Any, cases: list[tuple[Case, Case]]) -> list[tuple[int, int, dict[str, Any]]]:
    """Sort every case; return the numbers of keys given and held, and what the search reports."""
    from labkit.algorithms.sorting.histogram_sort import histogram_sort
    from labkit.datasets import inputs

    outcome = []
    for case, options in cases:
        info: dict[str, Any] = {}
        keys = inputs.keys(rank=comm.rank, ranks=comm.size, **case)
        block = histogram_sort(comm, keys, info=info, check="global", **options)
        outcome.append((len(keys), len(block), info))
    return outcome


def run_all(ranks: int, cases: list[tuple[Case, Case]]) -> list[tuple[int, list[int], dict[str, Any]]]:
    """For each case the total of keys, each rank's number of them, and the report all ranks agree on."""
    results = lk.run(sort_all, ranks, on=f"star:{ranks}", args=(cases,)).results
    for rank in results:
        assert [info for _, _, info in rank] == [info for _, _, info in results[0]]
    return [
        (sum(rank[i][0] for rank in results), [rank[i][1] for rank in results], results[0][i][2])
        for i in range(len(cases))
    ]


@pytest.mark.parametrize(
    "ranks", [1, 2, 3, 5, *(pytest.param(p, marks=pytest.mark.slow) for p in (8, 16, 31))]
)
def test_no_rank_exceeds_the_tolerance_whatever_the_keys(ranks: int) -> None:
    tolerances = [0.0, 0.05, 0.4, 3.0]
    cases = [
        ({"name": name, "n_local": n_local, "lengths": lengths}, {"tolerance": tolerances[i % 4]})
        for i, (n_local, name) in enumerate((n, name) for n in (1, 7, 150) for name in inputs.INPUTS)
        for lengths in (LENGTHS if ranks < 9 else LENGTHS[i % 2 :: 2])
    ]
    for (case, options), (n, lengths, info) in zip(cases, run_all(ranks, cases), strict=True):
        assert max(lengths) <= module.largest_block(n, ranks, **options), (case, options)
        assert max(lengths) <= np.ceil((1 + options["tolerance"]) * n / ranks), (case, options)
        assert info["open"][-1] == info["candidates"][-1] == 0
        assert info["largest_miss"] <= module.slack(n, ranks, **options)


def test_tolerance_zero_divides_exactly() -> None:
    cases = [({"name": name, "n_local": 33}, {"tolerance": 0, "probes": 2}) for name in inputs.INPUTS]
    for n, lengths, info in run_all(7, cases):
        assert lengths == np.diff(np.arange(8) * n // 7).tolist()
        assert info["largest_miss"] == 0


@pytest.mark.parametrize("ranks", [3, 16])
@pytest.mark.parametrize("lengths", ["even", "one_rank", "ragged"])
def test_the_report_tells_how_the_search_closed_in(ranks: int, lengths: str) -> None:
    probes = 3
    cases = [
        ({"name": name, "n_local": 300, "lengths": lengths}, {"probes": probes, "tolerance": 0.01})
        for name in inputs.INPUTS
    ]
    for n, _, info in run_all(ranks, cases):
        opened, candidates = info["open"], info["candidates"]
        assert opened[0] == ranks - 1
        assert candidates[0] == n
        assert len(opened) == len(candidates) == info["rounds"] + 1
        for before, after in pairwise(candidates):
            assert after <= before - min(before, probes * ranks)
        assert opened == sorted(opened, reverse=True)


def test_rounds_do_not_depend_on_the_keys() -> None:
    cases: list[tuple[Case, Case]] = [({"name": name, "n_local": 400}, {}) for name in inputs.INPUTS]
    assert {info["rounds"] for _, _, info in run_all(32, cases)} <= {2, 3}


def test_more_probes_take_fewer_rounds() -> None:
    case = {"name": "gaussian", "n_local": 500}
    options = [{"probes": probes, "tolerance": 0.01} for probes in (1, 4, 100)]
    rounds = [info["rounds"] for _, _, info in run_all(16, [(case, chosen) for chosen in options])]
    assert rounds[0] > rounds[1] > rounds[2]


def test_a_limit_on_the_rounds_is_kept_and_what_was_reached_is_told() -> None:
    case = {"name": "worst_regular", "n_local": 500}
    cases = [(case, {"rounds": rounds, "tolerance": 0, "probes": 4}) for rounds in (1, 2, 3, 50)]
    reached = run_all(16, cases)
    assert [info["rounds"] for _, _, info in reached][:3] == [1, 2, 3]
    assert reached[3][2]["rounds"] < 50
    misses = [info["largest_miss"] for _, _, info in reached]
    assert misses == sorted(misses, reverse=True)
    assert misses[0] > 0 == misses[3]
    for n, lengths, info in reached:
        ends, targets = np.cumsum(lengths)[:-1], np.arange(1, 16) * n // 16
        assert abs(ends - targets).max() == info["largest_miss"]


def test_the_seed_chooses_the_probes() -> None:
    case = {"name": "uniform", "n_local": 200}
    cases = [(case, {"seed": seed}) for seed in (0, 0, 1, 2**70)]
    lengths = [held for _, held, _ in run_all(8, cases)]
    assert lengths[0] == lengths[1]
    assert len({tuple(held) for held in lengths}) == 3


@pytest.mark.parametrize("name", ["all_equal", "few_unique", "uniform", "zipf"])
@pytest.mark.parametrize("lengths", ["even", "one_rank", "powers"])
def test_keys_are_cut_in_one_order_and_no_key_is_probed_twice(
    name: str, lengths: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuts: dict[int, Any] = {}
    blocks: dict[int, Any] = {}
    probed: list[tuple[int, int]] = []

    def spy_on_exchange(comm: Any, mine: Any, here: Any) -> Any:
        blocks[comm.rank], cuts[comm.rank] = mine.copy(), here.copy()
        return exchange(comm, mine, here)

    def spy_on_probes(mine: Any, keys: Any, owners: Any, places: Any, rank: int) -> Any:
        probed.extend((rank, place) for place in places.tolist())
        return cuts_after(mine, keys, owners, places, rank)

    exchange, cuts_after = module.exchange, module.cuts_after
    monkeypatch.setattr(module, "exchange", spy_on_exchange)
    monkeypatch.setattr(module, "cuts_after", spy_on_probes)
    run_all(6, [({"name": name, "n_local": 80, "lengths": lengths}, {"tolerance": 0, "probes": 1})])

    assert len(probed) == len(set(probed)) > 0
    keys = np.concatenate([blocks[rank] for rank in range(6)])
    owners = np.repeat(np.arange(6), [len(blocks[rank]) for rank in range(6)])
    owners = owners[np.argsort(keys, kind="stable")]  # the one order: (key, rank, place)
    for j in range(5):
        here = [int(cuts[rank][j]) for rank in range(6)]
        assert here == np.bincount(owners[: sum(here)], minlength=6).tolist()


def with_options(comm: Any, options: dict[str, Any]) -> int:
    from labkit.algorithms.sorting.histogram_sort import histogram_sort

    return len(histogram_sort(comm, np.arange(10), **options))


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"tolerance": -0.1}, ("not-finite", "tolerance", "0", "-0.1")),
        ({"tolerance": float("nan")}, ("not-finite", "tolerance", "0")),
        ({"tolerance": float("inf")}, ("not-finite", "tolerance", "0")),
        ({"rounds": 0}, ("wrong-type", "rounds", "1", "0")),
        ({"probes": 0}, ("out-of-range", "probes", "1", "0")),
        ({"probes": 2.5}, ("out-of-range", "probes", "1", "2.5")),
        ({"seed": -1}, ("out-of-range", "seed", "0", "-1")),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], wanted: tuple[str, ...]) -> None:
    with raises_code(RankError, *wanted):
        lk.run(with_options, 2, on="star:2", args=(options,))


def test_any_finite_tolerance_is_taken() -> None:
    lengths = lk.run(with_options, 3, on="star:3", args=({"tolerance": 1e300, "check": "global"},)).results
    assert sum(lengths) == 30


def phases(comm: Any) -> None:
    from labkit.algorithms.sorting.histogram_sort import histogram_sort
    from labkit.datasets import inputs

    histogram_sort(comm, inputs.keys("uniform", comm.rank, comm.size, 500))


def test_phases_and_their_order() -> None:
    run = lk.run(phases, 4, on="star:4")
    for rank in range(4):
        mine = run.phases[run.phases["rank"] == rank].sort_values("begin_s")
        assert mine["phase"].tolist() == ["agree", "local sort", "splitters", "exchange", "merge"]
