"""Closed cost formulas equal what is counted on the schedules, for every number of ranks."""

from __future__ import annotations

import pytest

from labkit import registry
from labkit.schedule import count, predict

RANKS = [[1, 2, 3, 4, 5, 7, 8, 16], pytest.param([6, *range(9, 14), 17, 24], marks=pytest.mark.slow)]


@pytest.mark.parametrize("ranks", RANKS, ids=str)
@pytest.mark.parametrize(("problem", "name"), registry.schedules())
def test_closed_formula_equals_the_count(problem: str, name: str, ranks: list[int]) -> None:
    algorithm = registry.get(problem, name)
    assert algorithm.cost is not None
    for p in ranks:
        if algorithm.requirements.unmet(p):
            continue
        schedule = algorithm.build(p)
        cost = algorithm.cost(p, 720.0)
        assert count(schedule, 720.0) == pytest.approx(
            (cost.rounds, cost.volume_bytes, cost.reduced_bytes)
        ), p
        for alpha, beta, gamma in [(5.0, 0.01, 0.003), (1.0, 1.0, 0.5)]:
            seconds = cost.seconds(alpha, beta, gamma)
            found = predict(schedule, 720.0, alpha, beta, gamma)
            if cost.is_bound:
                parts = (cost.rounds * alpha, cost.volume_bytes * beta, cost.reduced_bytes * gamma)
                assert max(parts) * (1 - 1e-9) <= found <= seconds * (1 + 1e-9), (p, alpha)
            else:
                assert found == pytest.approx(seconds), (p, alpha)


@pytest.mark.parametrize(
    ("problem", "name"), [("reduce", "binomial"), ("bcast", "binomial"), ("gather", "binomial")]
)
def test_the_root_does_not_matter(problem: str, name: str) -> None:
    algorithm = registry.get(problem, name)
    for root in range(7):
        assert count(algorithm.build(7, root=root), 10.0) == count(algorithm.build(7), 10.0)


def test_a_port_carries_one_message_at_a_time() -> None:
    linear = registry.get("bcast", "linear").build(9)
    assert predict(linear, 100, alpha_s=1.0, beta_s_per_byte=0.1) == pytest.approx(8 * 11.0)


def test_order_costs_pairwise_one_combination_more() -> None:
    pairwise = registry.get("reduce_scatter_block", "pairwise")
    for p in range(3, 10):
        assert count(pairwise.build(p, commutative=False), 10.0) == (p - 1, (p - 1) * 10, p * 10)


def test_order_costs_the_butterfly_nothing() -> None:
    butterfly = registry.get("reduce_scatter_block", "butterfly")
    for p in (2, 4, 8, 16):
        halving = registry.get("reduce_scatter_block", "recursive_halving").build(p)
        assert count(butterfly.build(p, commutative=False), 10.0) == count(halving, 10.0)
