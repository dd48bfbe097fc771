"""Tree searches against serial oracles: every node once, the right end, balance, and nothing left over."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import registry
from labkit.datasets.trees import Knapsack, Queens, RandomTree
from labkit.errors import DataError, RankError
from tests.support.refusals import raises_code

NAMES = registry.names("search")
WAYS_OF_QUEENS = [1, 0, 0, 2, 10, 4, 40]  # OEIS A000170


def knapsack(count: int, seed: int = 0) -> Knapsack:
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 60, count).tolist()
    profits = [weight + int(more) for weight, more in zip(weights, rng.integers(0, 20, count), strict=True)]
    return Knapsack(weights, profits, sum(weights) // 3)


def most_profit(one: Knapsack) -> int:
    best = np.zeros(one.capacity + 1, int)
    for weight, profit in zip(one.weights, one.profits, strict=True):
        best[weight:] = np.maximum(best[weight:], best[: one.capacity + 1 - weight] + profit)
    return int(best[-1])


@cache
def nodes_of(tree: Any) -> int:
    count, stack = 0, [tree.root]
    while stack:
        count += 1
        stack += tree.expand(stack.pop(), 0)[1]
    return count


UNEVEN = RandomTree(40, 0.45, seed=3)
CASES = [
    (Queens(1), 1),
    (Queens(3), 0),
    (Queens(6), 4),
    (UNEVEN, nodes_of(UNEVEN)),
    (RandomTree(0, 0.2), 1),
    (knapsack(12), most_profit(knapsack(12))),
    (Knapsack((9,), (5,), 3), 0),
]


def search_all(comm: Any) -> None:
    for tree, wanted in CASES:
        for name in NAMES:
            for how in ({"chunk": 1}, {"seed": 7}) if name == "work_stealing" else ({"per_rank": 1}, {}):
                found = registry.get("search", name).function(comm, tree, **how)
                assert found.value == wanted, (name, tree, how, found)
                if not tree.is_maximum:
                    assert comm.allreduce(found.nodes) == nodes_of(tree)
                status = lk.MPI.Status()
                assert not comm.iprobe(lk.MPI.ANY_SOURCE, lk.MPI.ANY_TAG, status)
                comm.barrier()


def found(tree: Any, name: str, ranks: int = 8, on: str = "star", **how: Any) -> Any:
    return lk.run(registry.get("search", name).function, ranks, on, args=(tree,), kwargs=how, count=True)


@pytest.mark.parametrize("ranks", range(1, 18))
def test_results_are_those_of_the_serial_search(ranks: int) -> None:
    lk.run(search_all, ranks, "star")


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", range(1, 6))
def test_results_are_those_of_the_serial_search_on_real_mpi(ranks: int) -> None:
    lk.run(search_all, ranks, "mpi")


@pytest.mark.parametrize("on", ["star,lat=10ms", "star,lat=1us,bw=1MBps", "torus:3x3", "star,cores=4"])
@pytest.mark.parametrize("seed", range(3))
def test_stealing_ends_when_all_is_done(on: str, seed: int) -> None:
    """Nodes that are under way for long, while all ranks are idle, are waited for."""
    run = found(UNEVEN, "work_stealing", 9, on, seed=seed, chunk=1 + 5 * seed)
    assert {result.value for result in run.results} == {nodes_of(UNEVEN)}


def test_stealing_balances_what_static_parts_cannot() -> None:
    tree = RandomTree(100, 0.49, seed=1)
    shares = {}
    for name in ("static", "work_stealing"):
        nodes = np.array([result.nodes for result in found(tree, name).results])
        shares[name] = nodes.max() / nodes.mean()
    assert shares["work_stealing"] < 1.3 < 2 < shares["static"]


def test_idle_ranks_are_quiet() -> None:
    """One rank has all the work for long: fifteen others ask twice, hang on their lifelines, and wait."""

    class Chain:
        is_maximum, flops, root = False, 1e5, 0

        def expand(self, node: int, best: int) -> tuple[int, list[int]]:
            return 1, [node + 1] if node < 2000 else []

    run = found(Chain(), "work_stealing", 16)
    assert run.results[0].value == 2001
    assert run.counts is not None
    messages = run.counts.query("phase == 'steal'")["messages"].sum()
    assert messages <= 16 * (2 * 2 + 4) + 4 * 16 + 16


def test_a_bound_that_travels_saves_nodes() -> None:
    """With messages that carry the best value, ranks leave out what alone they would expand."""
    problem = knapsack(24, seed=5)
    nodes = {name: sum(result.nodes for result in found(problem, name).results) for name in NAMES}
    assert nodes["work_stealing"] < nodes["static"]


@pytest.mark.parametrize("n", range(1, 8))
def test_queens_are_counted(n: int) -> None:
    assert found(Queens(n), "static", 1).results[0].value == WAYS_OF_QUEENS[n - 1]


@pytest.mark.parametrize("seed", range(10))
def test_the_bound_of_the_knapsack_leaves_out_no_best_value(seed: int) -> None:
    problem = knapsack(14, seed)
    assert found(problem, "work_stealing", 3).results[0].value == most_profit(problem)


@pytest.mark.parametrize("name", NAMES)
def test_growth_is_as_expected(name: str) -> None:
    study = lk.sweep(
        registry.get("search", name).function, [2, 4, 8, 16, 32], "star", tree=[Queens(5)], progress=False
    )
    for phase, growth in registry.get("search", name).expectations.items():
        assert study.expect(growth, phase=phase).match != "none", phase


@pytest.mark.parametrize("name", ["static", "master_worker"])
def test_messages_are_within_the_cost(name: str) -> None:
    counts = found(Queens(7), name).counts.query("phase == ''")
    cost = registry.get("search", name).cost
    assert cost is not None
    bound = cost(8, 100)
    assert counts["messages"].max() <= bound.rounds
    assert counts["bytes"].max() <= bound.volume_bytes


@pytest.mark.parametrize(
    ("act", "code", "facts"),
    [
        (lambda: Queens(0), "out-of-range", ["n", "1", "0"]),
        (lambda: Knapsack((1, 2), (1,), 3), "count-mismatch", ["2", "1"]),
        (lambda: Knapsack((0,), (1,), 3), "out-of-range", ["weights"]),
        (lambda: RandomTree(3, 0.5), "out-of-range", ["q", "0.5"]),
        (lambda: found(Queens(3), "work_stealing", 2, chunk=0), "out-of-range", ["chunk"]),
        (lambda: found(Queens(3), "static", 2, per_rank=0), "out-of-range", ["per_rank"]),
        (lambda: found(Queens(3), "master_worker", 2, per_rank=-1), "out-of-range", ["per_rank", "-1"]),
    ],
)
def test_what_cannot_be_searched_is_refused(act: Any, code: str, facts: list[str]) -> None:
    with raises_code((DataError, RankError), code, *facts):
        act()
