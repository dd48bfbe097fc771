"""Every multiplication gives NumPy's product to the last bit and receives the words of its analysis."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import registry
from labkit.algorithms.matmul import summa_25d
from labkit.datasets import matrices
from labkit.errors import DataError, RankError
from tests.support.refusals import raises_code

NAMES = registry.names("matmul")
SHAPES = [(13, 7, 11), (16, 16, 16), (2, 3, 1), (0, 4, 4), (5, 0, 3)]
WIDTHS = [None, 1, 3]


def ways(name: str, ranks: int) -> list[dict[str, Any]]:
    """The options to try: every number of layers, and panels of any width."""
    if name in ("ring", "cannon"):
        return [{}]
    if name == "summa":
        return [{"width": width} for width in WIDTHS]
    layers = [c for c in range(1, ranks + 1) if ranks % c == 0]
    return [{"layers": c, "width": width} for c, width in product(layers, WIDTHS[:2])]


def cases(ranks: int) -> list[tuple[str, tuple[int, int, int], dict[str, Any]]]:
    return [
        (name, shape, how)
        for name in NAMES
        if registry.get("matmul", name).requirements.unmet(ranks) is None
        for how in ways(name, ranks)
        for shape in SHAPES
    ]


def multiply(comm: Any, name: str, shape: tuple[int, int, int], how: dict[str, Any]) -> Any:
    """This rank's grid and block of the product of two matrices."""
    from labkit import MPI

    m, k, n = shape
    owners = comm.size // how.get("layers", 1)
    grid = (owners, 1) if name == "ring" else tuple(MPI.Compute_dims(owners, 2))
    a = b = None
    if comm.rank < owners:
        a = matrices.block((m, k), grid, comm.rank)
        b = matrices.block((k, n), grid, comm.rank, seed=1)
        given = a.tobytes(), b.tobytes()
    c = registry.get("matmul", name).function(comm, a, b, **how)
    if comm.rank < owners:
        assert given == (a.tobytes(), b.tobytes()), "the input was changed"
    return grid, c


def multiply_all(comm: Any, cases: list[Any]) -> list[Any]:
    return [multiply(comm, *case) for case in cases]


def whole(blocks: list[Any], grid: tuple[int, int]) -> Any:
    rows, columns = grid
    return np.block([blocks[i * columns : (i + 1) * columns] for i in range(rows)])


def require_products(results: list[Any], tried: list[Any]) -> None:
    for number, (name, (m, k, n), how) in enumerate(tried):
        grid = results[0][number][0]
        owners = grid[0] * grid[1]
        found = whole([results[rank][number][1] for rank in range(owners)], grid)
        a, b = matrices.block((m, k), (1, 1), 0), matrices.block((k, n), (1, 1), 0, seed=1)
        assert np.array_equal(found, a @ b), (name, (m, k, n), how)
        assert all(results[rank][number][1] is None for rank in range(owners, len(results)))


@pytest.mark.parametrize("ranks", range(1, 18))
def test_the_product_is_numpys(ranks: int) -> None:
    tried = cases(ranks)
    require_products(lk.run(multiply_all, ranks, "star", args=(tried,)).results, tried)


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", range(1, 6))
def test_the_product_is_numpys_on_real_mpi(ranks: int) -> None:
    tried = cases(ranks)
    require_products(lk.run(multiply_all, ranks, "mpi", args=(tried,)).results, tried)


@pytest.mark.parametrize(
    ("name", "kinds", "wanted"),
    [(name, kinds, wanted) for name in NAMES for kinds, wanted in [("if", "f"), ("fc", "c"), ("ii", "i")]],
)
def test_types_are_those_of_numpy(name: str, kinds: str, wanted: str) -> None:
    def program(comm: Any) -> str:
        a, b = (np.ones((2, 2), {"i": int, "f": float, "c": complex}[kind]) for kind in kinds)
        return registry.get("matmul", name).function(comm, a, b).dtype.kind  # type: ignore[no-any-return]

    assert lk.run(program, 1, "star").results == [wanted]


def received_words(name: str, ranks: int, n: int, **how: Any) -> float:
    """The most numbers that a rank receives, blocks without content; the agreement on sizes not counted."""

    def program(comm: Any) -> None:
        from labkit import MPI

        owners = comm.size // how.get("layers", 1)
        grid = (owners, 1) if name == "ring" else tuple(MPI.Compute_dims(owners, 2))
        mine = matrices.block((n, n), grid, comm.rank, is_sized=True) if comm.rank < owners else None
        registry.get("matmul", name).function(comm, mine, mine, **how)

    counts = lk.run(program, ranks, "star", count=True).counts
    of_data = counts[~counts["phase"].isin(["", "agree"])]
    return float(of_data.groupby("rank")["received_bytes"].sum().max()) / 8


@pytest.mark.parametrize("q", [2, 4, 8])
def test_words_received_are_those_of_the_analysis(q: int) -> None:
    n, p = 32 * q, q * q
    assert received_words("ring", p, n) == n * n * (1 - 1 / p)
    assert received_words("cannon", p, n) == 2 * n * n / q
    assert received_words("summa", p, n) == 2 * n * n / q * (1 - 1 / q)


@pytest.mark.parametrize(("q", "layers"), [(2, 2), (4, 2), (4, 4), (8, 2), (8, 4)])
def test_layers_save_words_as_analyzed(q: int, layers: int) -> None:
    p, n = layers * q * q, 32 * q
    block = n * n / q**2
    most = 2 * n * n / (q * layers) + (2 + np.log2(layers)) * block
    assert received_words("summa_25d", p, n, layers=layers) <= most


def test_blocks_without_content_take_the_same_time() -> None:
    def program(comm: Any, name: str, is_sized: bool) -> None:
        grid = (comm.size, 1) if name == "ring" else (4, 4)
        mine = matrices.block((160, 160), grid, comm.rank, is_sized=is_sized)
        registry.get("matmul", name).function(comm, mine, mine)

    for name in ("ring", "cannon", "summa"):
        with_content, without = (
            lk.run(program, 16, "star", args=(name, it)).makespan_s for it in (False, True)
        )
        assert without == pytest.approx(with_content, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "ranks", "a", "b", "wanted"),
    [
        ("cannon", 6, (2, 2), (2, 2), ("count-mismatch", "cannon", "6")),
        ("ring", 2, (2, 3), (2, 2), ("count-mismatch", "3", "4")),
        ("summa", 4, (2, 3), (2, 2), ("count-mismatch", "6", "4")),
        ("cannon", 4, (2, 3), (2, 2), ("count-mismatch", "'s blocks and the heights of B'")),
        ("summa", 4, (4,), (2, 2), ("wrong-type", "4")),
        ("summa_25d", 1, (2, 3), (2, 2), ("count-mismatch", "3", "2")),
    ],
)
def test_blocks_that_do_not_fit_are_refused(
    name: str, ranks: int, a: Any, b: Any, wanted: tuple[str, ...]
) -> None:
    def program(comm: Any) -> None:
        registry.get("matmul", name).function(comm, np.ones(a), np.ones(b))

    with raises_code((DataError, RankError), *wanted):
        lk.run(program, ranks, "star")


@pytest.mark.parametrize(
    ("how", "wanted"), [({"layers": 3}, ("out-of-range",)), ({"width": 0}, ("out-of-range", "1", "0"))]
)
def test_options_that_make_no_sense_are_refused(how: dict[str, int], wanted: tuple[str, ...]) -> None:
    def program(comm: Any) -> None:
        registry.get("matmul", "summa_25d").function(comm, np.ones((2, 2)), np.ones((2, 2)), **how)

    with raises_code((DataError, RankError), *wanted):
        lk.run(program, 4, "star")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ranks", [4, 16, 64])
def test_the_predicted_volume_bounds_what_a_rank_receives(name: str, ranks: int) -> None:
    cost = registry.get("matmul", name).cost
    assert cost is not None
    n = 8 * ranks
    how = {"layers": summa_25d.best_layers(ranks)} if name == "summa_25d" else {}
    block = 8 * n * n * how.get("layers", 1) / ranks
    received = 8 * received_words(name, ranks, n, **how)
    assert 0 < received <= cost(ranks, block).volume_bytes <= 4 * received


@pytest.mark.parametrize("name", NAMES)
def test_one_rank_sends_nothing(name: str) -> None:
    assert received_words(name, 1, 10) == 0
    assert registry.get("matmul", name).cost(1, 800).seconds(1, 1) == 0  # type: ignore[misc]
