"""MAFIA finds what was planted, on any number of ranks, and takes as many steps as its formulas say."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit.algorithms.mafia.mafia import dedup, gen, mafia, pcount, unjoin
from labkit.datasets.subspaces import WIDTH, planted
from labkit.errors import DataError, RankError
from tests.support.refusals import raises_code


def clusters_of(comm: Any, how: dict[str, int]) -> list[Any]:
    return mafia(comm, planted(comm.rank, comm.size, **how).points)


@pytest.mark.parametrize(
    "how", [{"k": 1}, {"k": 4}, {"k": 6, "clusters": 4, "d": 30}, {"k": 7, "d": 7, "clusters": 1}]
)
def test_the_planted_clusters_are_found(how: dict[str, int]) -> None:
    how = {"n": 20_000, "seed": 3, **how}
    found = lk.run(clusters_of, 2, on="star:2", args=(how,)).results[0]
    wanted = planted(0, 1, **how).clusters
    assert sorted(tuple(i.dimension for i in one) for one in found) == sorted(
        tuple(sorted(w)) for w in wanted
    )
    for cluster in found:
        starts = {interval.dimension: interval.begin for interval in cluster}
        assert any(set(w) == set(starts) and all(abs(starts[d] - w[d]) < 0.01 for d in w) for w in wanted)
        assert all(abs(interval.end - interval.begin - WIDTH) < 0.02 for interval in cluster)


@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 7, 8, 16])
def test_any_number_of_ranks_finds_the_same(p: int) -> None:
    how = {"n": 4000, "k": 5, "seed": 1}
    results = lk.run(clusters_of, p, args=(how,)).results
    assert all(one == results[0] for one in results)
    assert results[0] == clusters_alone(how)


def clusters_alone(how: dict[str, int]) -> list[Any]:
    return lk.run(clusters_of, 1, args=(how,)).results[0]


def test_points_do_not_depend_on_the_ranks() -> None:
    whole = planted(0, 1, n=100, d=5, k=3, seed=9).points
    parts = [planted(rank, 7, n=100, d=5, k=3, seed=9).points for rank in range(7)]
    assert np.array_equal(np.concatenate(parts), whole)
    assert 0 <= whole.min() <= whole.max() < 1


def steps_of(comm: Any, m: int, k: int) -> None:
    """The four functions on all units of m clusters of k dimensions, level by level."""
    dimension_of = np.tile(np.arange(k), m)
    bits = np.zeros((m * k, 2), np.uint64)
    for size in range(1, k):
        units = units_of(m, k, size)
        candidates = dedup(comm, gen(comm, units, dimension_of))
        pcount(comm, candidates, bits)
        denser = units_of(m, k, size + 1)
        assert not unjoin(comm, units, denser).any()
        if size > 1:
            assert np.array_equal(candidates, denser)


def units_of(m: int, k: int, size: int) -> np.ndarray:
    rows = [[c * k + d for d in some] for c in range(m) for some in combinations(range(k), size)]
    return np.array(sorted(rows), np.int16)


@pytest.mark.parametrize(("m", "k"), [(1, 3), (1, 9), (3, 4), (3, 7)])
def test_steps_are_those_of_the_formulas(m: int, k: int) -> None:
    run = lk.run(steps_of, 1, on="star:1", args=(m, k), count=True)
    # units of one interval have nothing in common but the empty set: all pairs of different dimensions
    first = m * m * comb(k, 2)
    pairs = [first, *(m * comb(k, size) * size * (k - size) // 2 for size in range(2, k))]
    written = sum(n * (size + 1) for size, n in enumerate(pairs, 1))
    common = sum(m * comb(k, size) * size * (size - 1) for size in range(1, k))
    kept = [first, *(m * comb(k, size + 1) for size in range(2, k))]
    assert run.counts["gen_steps"].sum() == written + common
    assert run.counts["dedup_steps"].sum() == sum(
        n * (size + 1) * max(n, 2).bit_length() for size, n in enumerate(pairs, 1)
    )
    assert run.counts["pcount_steps"].sum() == 2 * sum(n * (size + 1) for size, n in enumerate(kept, 1))
    assert run.counts["unjoin_steps"].sum() == sum(
        m * comb(k, size + 1) * (size + 1) * size * max(m * comb(k, size), 2).bit_length()
        for size in range(1, k)
    )


def test_steps_do_not_depend_on_the_ranks_but_for_logarithms() -> None:
    alone, many = (lk.run(steps_of, p, args=(2, 6), count=True).counts for p in (1, 5))
    for name in ("gen_steps", "unjoin_steps"):
        assert many[name].sum() == alone[name].sum()
    assert many["pcount_steps"].sum() == 5 * alone["pcount_steps"].sum()  # each rank has its own points


def test_phases_are_charged_and_grow_with_k() -> None:
    def times(k: int) -> dict[str, float]:
        rows = lk.run(clusters_of, 1, on="juropa", args=({"n": 3000, "k": k},)).phase_rows()
        return {row[0]: row[2] for row in rows}

    few, many = times(4), times(8)
    assert set(few) >= {"grid", "gen", "dedup", "pcount", "unjoin"}
    assert all(many[name] > 8 * few[name] > 0 for name in ("gen", "dedup", "pcount", "unjoin"))


@pytest.mark.parametrize(
    ("points", "how", "wanted"),
    [
        (np.zeros(4), {}, ("count-mismatch", "points")),
        (np.zeros((4, 2), np.float32), {}, ("count-mismatch",)),
        (np.zeros((4, 2)), {"beta": 1.0}, ("out-of-range", "0", "1")),
        (np.zeros((4, 2)), {"alpha": 0.0}, ("out-of-range", "alpha", "0")),
    ],
)
def test_what_is_no_input_is_refused(
    points: np.ndarray, how: dict[str, float], wanted: tuple[str, ...]
) -> None:
    with raises_code(RankError, *wanted):
        lk.run(lambda comm: mafia(comm, points, **how), 1)


@pytest.mark.parametrize("wrong", [{"clusters": 7}, {"k": 21}, {"k": 0}, {"n": 1, "ranks": 2}])
def test_what_cannot_be_planted_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(DataError):
        planted(**{"rank": 0, "ranks": 1, **wrong})
