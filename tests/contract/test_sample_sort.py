"""Sample sort's own promises: the balance bound, its options, its phases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit.algorithms.sorting import sample_sort as module
from labkit.datasets import inputs
from labkit.errors import RankError
from tests.support.refusals import raises_code


def loads(comm: Any, cases: list[dict[str, Any]], options: list[dict[str, Any]]) -> list[int]:
    """How many keys this rank ends with, for every case and options."""
    from labkit.algorithms.sorting.sample_sort import sample_sort
    from labkit.datasets import inputs

    return [
        len(sample_sort(comm, inputs.keys(rank=comm.rank, ranks=comm.size, **case), **chosen))
        for case in cases
        for chosen in options
    ]


@pytest.mark.parametrize(
    "ranks", [1, 2, 3, 5, *(pytest.param(p, marks=pytest.mark.slow) for p in (8, 16, 31))]
)
def test_no_rank_exceeds_the_bound_whatever_the_keys(ranks: int) -> None:
    cases = [
        {"name": name, "n_local": n_local, "lengths": lengths}
        for name in inputs.INPUTS
        for lengths in ("even", "ragged", "one_rank", "powers")
        for n_local in (1, 40, 500)
    ]
    options = [{"oversampling": a} for a in (0.3, 1.0, 4.0)]
    results = lk.run(loads, ranks, on=f"star:{ranks}", args=(cases, options)).results
    for i, (case, chosen) in enumerate((case, chosen) for case in cases for chosen in options):
        here = [rank[i] for rank in results]
        assert max(here) <= module.largest_block(sum(here), ranks, chosen["oversampling"]), (case, chosen)


@pytest.mark.parametrize("ranks", [2, 4, 16, 32])
def test_usual_inputs_are_balanced_far_better_than_the_bound(ranks: int) -> None:
    names = sorted(inputs.INPUTS)
    cases = [{"name": name, "n_local": 2000} for name in names]
    results = lk.run(loads, ranks, on=f"star:{ranks}", args=(cases, [{}])).results
    worst = {name: max(rank[i] for rank in results) / 2000 for i, name in enumerate(names)}
    assert max(worst.values()) < 1.2, worst


def test_all_equal_keys_are_spread_evenly_when_every_key_is_a_sample() -> None:
    results = lk.run(loads, 16, on="star:16", args=([{"name": "all_equal", "n_local": 15}], [{}])).results
    assert [rank[0] for rank in results] == [15] * 16


def test_random_places_keep_their_probabilistic_bound() -> None:
    ranks, n_local, failure = 16, 800, 1e-9
    options = [{"seed": seed} for seed in range(20)]
    cases = [{"name": name, "n_local": n_local} for name in ("uniform", "worst_regular", "zipf")]
    results = lk.run(loads, ranks, on="star:16", args=(cases, options)).results
    block = module.block_length(ranks * n_local, ranks, 1.0)
    excess = 2 * block * (1 + np.sqrt(ranks / 2 * np.log(2 * ranks / failure)))
    assert max(max(rank) for rank in results) <= n_local + excess


def adversary(comm: Any) -> list[int]:
    """Loads for keys made against the fixed places: without a seed, and with one."""
    from labkit.algorithms.sorting.sample_sort import (
        block_bounds,
        block_length,
        sample_positions,
        sample_sort,
    )

    p, n = comm.size, 40 * comm.size
    block = block_length(n * p, p, 1.0)
    places = sample_positions(n, block, None, comm.rank)
    number = np.searchsorted(places, np.arange(n), side="right")
    # Before an odd splitter's sample everything crowds above it, after an even one's below it.
    keys = 4 * number + np.where(number % 2 == 0, 3, 1)
    keys[places] = 4 * number[places] + np.where(number[places] % 2 == 0, 0, 2 * (comm.rank == p - 1))
    assert len(block_bounds(n, block)) == len(places) + 1
    return [len(sample_sort(comm, keys)), len(sample_sort(comm, keys, seed=1))]


def test_a_seed_beats_keys_made_against_the_fixed_places() -> None:
    results = lk.run(adversary, 32, on="star:32").results
    fixed, drawn = (max(rank[i] for rank in results) / 1280 for i in range(2))
    assert fixed > 1.6
    assert drawn < 1.4
    assert fixed * 1280 <= module.largest_block(32 * 1280, 32, 1.0)


def phases(comm: Any, n_local: int) -> None:
    from labkit.algorithms.sorting.sample_sort import sample_sort
    from labkit.datasets import inputs

    sample_sort(comm, inputs.keys("uniform", comm.rank, comm.size, n_local))


def test_phases_and_their_order() -> None:
    run = lk.run(phases, 4, on="star:4", args=(1000,))
    for rank in range(4):
        mine = run.phases[run.phases["rank"] == rank].sort_values("begin_s")
        assert mine["phase"].tolist() == ["agree", "local sort", "splitters", "exchange", "merge"]
        assert (mine["end_s"] >= mine["begin_s"]).all()
    total = run.phases.groupby("rank").apply(
        lambda t: (t["end_s"] - t["begin_s"]).sum(), include_groups=False
    )
    assert total.max() == pytest.approx(run.makespan_s, rel=1e-6)


def test_simulated_time_charges_the_work() -> None:
    spent = {}
    for n_local in (1000, 8000):
        table = lk.run(phases, 4, on="star:4", args=(n_local,)).phase_table().set_index("phase")
        spent[n_local] = table["max_s"]
    from labkit import local

    for n_local, times in spent.items():
        assert times["local sort"] == pytest.approx(local.predicted_s("sort", 8, n_local, n_local))
    assert spent[8000]["merge"] > 4 * spent[1000]["merge"]


def test_a_flop_rate_does_not_scale_a_sort_and_the_run_says_whose_costs_it_took() -> None:
    stated, fast = (lk.run(phases, 2, on=f"star:2{speed}", args=(5000,)) for speed in ("", ",speed=20Gf"))
    slow, same = (run.phase_table().set_index("phase")["max_s"] for run in (stated, fast))
    assert slow["local sort"] == pytest.approx(same["local sort"], rel=1e-12)
    assert any("has no node-local costs" in note for note in fast.notes)
    assert not any("node-local costs" in note for note in stated.notes)
    other = lk.run(phases, 2, on="star:2,speed=20Gf,calibration=xeon-x5570", args=(5000,))
    assert not any("node-local costs" in note for note in other.notes)
    assert other.phase_table().set_index("phase")["max_s"]["local sort"] > 3 * slow["local sort"]


def with_options(comm: Any, **options: Any) -> int:
    from labkit.algorithms.sorting.sample_sort import sample_sort

    return len(sample_sort(comm, np.arange(10), **options))


@pytest.mark.parametrize("check", ["off", "local", "global"])
def test_checks_pass(check: str) -> None:
    assert sum(lk.run(with_options, 3, on="star:3", kwargs={"check": check}).results) == 30


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"oversampling": 0}, ("not-finite", "oversampling", "0")),
        ({"oversampling": float("nan")}, ("not-finite", "oversampling", "0")),
        ({"seed": -1}, ("wrong-type", "seed", "0", "-1")),
        ({"check": "perhaps"}, ("out-of-range", "check", '"off"', '"local"', '"global"')),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], wanted: tuple[str, ...]) -> None:
    with raises_code(RankError, *wanted):
        lk.run(with_options, 2, on="star:2", kwargs=options)


def disagreeing(comm: Any) -> str:
    from labkit.algorithms.sorting.sample_sort import sample_sort
    from labkit.errors import DataError

    try:
        sample_sort(comm, np.arange(3), oversampling=1.0 + (comm.rank == 2))
    except DataError as error:
        return str(error)
    return "sorted"


def test_ranks_that_differ_in_an_option_are_told() -> None:
    results = lk.run(disagreeing, 3, on="star:3").results
    assert len(set(results)) == 1
    assert "rank 2 passed oversampling=2.0" in results[0]
