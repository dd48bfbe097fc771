"""Cholesky factorization and conjugate gradients against NumPy's solutions, on both machines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import registry
from labkit.algorithms.solvers.cholesky import cyclic
from labkit.datasets.matrices import Laplacian, offsets
from labkit.errors import DataError, RankError
from tests.support.refusals import raises_code

GRADIENTS = ("cg", "one_sum_cg", "pipelined_cg")
SIZES = ((1, 1), (7, 3), (16, 2), (23, 30), (24, 5))
SIDE = 17


def dense(n: int) -> Any:
    """A positive definite matrix."""
    given = np.random.default_rng(n).standard_normal((n, n))
    return given @ given.T + n * np.eye(n)


def grid_of(ranks: int) -> tuple[int, int]:
    from labkit import MPI

    return tuple(MPI.Compute_dims(ranks, 2))


def right_side() -> Any:
    return np.random.default_rng(1).standard_normal(SIDE * SIDE)


def laplacian() -> Any:
    line = 2 * np.eye(SIDE) - np.eye(SIDE, k=1) - np.eye(SIDE, k=-1)
    return np.kron(line, np.eye(SIDE)) + np.kron(np.eye(SIDE), line)


def solve(comm: Any) -> tuple[list[Any], list[Any]]:
    factors = []
    for n, width in SIZES:
        places = np.ix_(*cyclic(n, width, grid_of(comm.size), comm.rank))
        given = dense(n)[places]
        kept = given.copy()
        factors.append(registry.get("solvers", "cholesky").function(comm, given, n, width))
        assert np.array_equal(given, kept)
    rows = offsets(SIDE, comm.size)[comm.rank : comm.rank + 2] * SIDE
    b = right_side()[rows[0] : rows[1]]
    solved = [
        registry.get("solvers", name).function(comm, Laplacian(comm, SIDE), b, tolerance=1e-9)
        for name in GRADIENTS
    ]
    return factors, solved


def require_right(results: list[Any]) -> None:
    ranks = len(results)
    for number, (n, width) in enumerate(SIZES):
        whole = np.full((n, n), np.nan)
        for rank, (factors, _) in enumerate(results):
            whole[np.ix_(*cyclic(n, width, grid_of(ranks), rank))] = factors[number]
        assert np.allclose(whole, np.linalg.cholesky(dense(n)), rtol=1e-12, atol=1e-12), (n, width)
    wanted = np.linalg.solve(laplacian(), right_side())
    steps = set()
    for number in range(len(GRADIENTS)):
        parts = [solved[number] for _, solved in results]
        assert np.allclose(np.concatenate([part.x for part in parts]), wanted, atol=1e-6)
        assert len({(part.steps, *part.residuals) for part in parts}) == 1
        assert parts[0].residuals[-1] <= 1e-9 * parts[0].residuals[0] < parts[0].residuals[-2]
        steps.add(parts[0].steps)
    assert max(steps) - min(steps) <= 1


@pytest.mark.parametrize("ranks", range(1, 18))
def test_solutions_are_numpys(ranks: int) -> None:
    require_right(lk.run(solve, ranks, "star").results)


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", range(1, 6))
def test_solutions_are_numpys_on_real_mpi(ranks: int) -> None:
    require_right(lk.run(solve, ranks, "mpi").results)


def iterated(comm: Any, name: str, side: int, steps: int = 4) -> None:
    b = np.ones(Laplacian(comm, side).rows * side) + comm.rank
    registry.get("solvers", name).function(comm, Laplacian(comm, side), b, most_steps=steps)


def test_allreduces_are_two_or_one_in_a_step() -> None:
    def calls(name: str, steps: int) -> int:
        run = lk.run(iterated, 4, "star", args=(name, 16, steps), trace=True)
        return int(run.profile().query("phase == 'sums'")["messages"].sum())

    for name, wanted in (("cg", 2), ("one_sum_cg", 1), ("pipelined_cg", 1)):
        assert calls(name, 9) - calls(name, 4) == 5 * wanted * 4 * 2, name  # 4 ranks, 2 messages each


def test_a_hidden_sum_takes_no_time_while_the_product_takes_longer() -> None:
    slow = "star,speed=10Mf"
    times = {name: lk.run(iterated, 16, slow, args=(name, 64, 20)).phase_table() for name in GRADIENTS}
    sums = {name: table.set_index("phase")["max_s"]["sums"] for name, table in times.items()}
    assert sums["one_sum_cg"] < 0.6 * sums["cg"]
    assert sums["pipelined_cg"] < 0.1 * sums["one_sum_cg"]  # the processor's part of starting it is left


@pytest.mark.parametrize("name", GRADIENTS)
def test_growth_is_as_expected(name: str) -> None:
    def program(comm: Any) -> None:
        rows = 4
        b = np.ones(rows * 64) + comm.rank
        registry.get("solvers", name).function(comm, lambda v: 2.0 * v, b, most_steps=3)

    study = lk.sweep(program, [2, 4, 8, 16, 32, 64], "star", progress=False)
    expected = registry.get("solvers", name).expectations
    for phase in ("vectors", "sums"):
        assert study.expect(expected[phase], phase=phase).match in ("exact", "approximate"), phase


@pytest.mark.parametrize("ranks", [4, 16])
def test_bytes_of_cholesky_are_within_the_cost(ranks: int) -> None:
    def program(comm: Any) -> None:
        rows, columns = cyclic(64, 8, grid_of(comm.size), comm.rank)
        given = np.minimum.outer(rows, columns) + 1.0
        assert set(registry.get("solvers", "cholesky").function(comm, given, 64, 8).ravel()) <= {0.0, 1.0}

    counts = lk.run(program, ranks, "star", count=True).counts.query("phase == 'broadcast'")
    cost = registry.get("solvers", "cholesky").cost
    assert cost is not None
    assert counts["messages"].max() <= cost(ranks, 8 * 64 * 64 / ranks).rounds
    assert counts["bytes"].max() <= cost(ranks, 8 * 64 * 64 / ranks).volume_bytes


@pytest.mark.parametrize(
    ("name", "given", "code", "facts"),
    [
        ("cholesky", (np.ones((2, 3)), 2, 1), "count-mismatch", ["(2, 2)", "(2, 3)"]),
        ("cholesky", (np.ones((2, 2)), 2, 0), "out-of-range", ["width", "0"]),
        ("cholesky", (-np.ones((1, 1)), 1, 1), "unsupported", ["1"]),
        ("cg", (None, [[1.0]]), "not-finite", ["b", "(1, 1)"]),
        ("pipelined_cg", (None, [np.nan]), "not-finite", ["b"]),
    ],
)
def test_what_cannot_be_solved_is_refused(name: str, given: Any, code: str, facts: list[str]) -> None:
    def program(comm: Any) -> None:
        registry.get("solvers", name).function(comm, *given)

    with raises_code((DataError, RankError), code, *facts):
        lk.run(program, 1, "star")


def test_limits_are_checked_and_zero_is_solved_without_a_step() -> None:
    def program(comm: Any, **limits: float) -> Any:
        return registry.get("solvers", "cg").function(comm, lambda v: v, np.zeros(3), **limits)

    for limits in ({"tolerance": 0}, {"most_steps": 0}):
        with raises_code((DataError, RankError), "out-of-range"):
            lk.run(program, 1, "star", kwargs=limits)
    found = lk.run(program, 2, "star").results[0]
    assert found.steps == 0
    assert not found.x.any()
