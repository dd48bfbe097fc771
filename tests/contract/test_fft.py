"""The distributed transforms against NumPy's, for any number of ranks and shape, and their volumes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import registry
from labkit.datasets.matrices import offsets
from labkit.errors import DataError, RankError
from labkit.program.sized import sized
from tests.support.refusals import raises_code

NAMES = registry.names("fft")
SHAPES = [(8, 8, 8), (5, 7, 3), (1, 4, 9), (2, 1, 1), (17, 3, 5)]


def whole(shape: tuple[int, int, int]) -> Any:
    rng = np.random.default_rng(sum(shape))
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def part(array: Any, axis: int, parts: int, number: int) -> Any:
    return np.take(array, range(*offsets(array.shape[axis], parts)[number : number + 2]), axis)


def grid_of(name: str, ranks: int) -> tuple[int, int]:
    from labkit import MPI

    return (ranks, 1) if name == "slab" else tuple(MPI.Compute_dims(ranks, 2))


def block_of(array: Any, axes: tuple[int, int], grid: tuple[int, int], rank: int) -> Any:
    """A rank's block of an array: axes[0] is cut by the grid's rows, axes[1] by its columns."""
    i, j = divmod(rank, grid[1])
    return part(part(array, axes[0], grid[0], i), axes[1], grid[1], j)


def transform_all(comm: Any) -> list[float]:
    """How far this rank's blocks are from NumPy's, relative to the largest number."""
    far = []
    for name in NAMES:
        for shape in SHAPES:
            array, grid = whole(shape), grid_of(name, comm.size)
            given = block_of(array, (0, 1), grid, comm.rank)
            kept = given.copy()
            found = registry.get("fft", name).function(comm, given, shape)
            wanted = block_of(np.fft.fftn(array), (1, 2), grid, comm.rank)
            assert found.shape == wanted.shape, (name, shape, found.shape, wanted.shape)
            assert np.array_equal(given, kept)
            far.append(float(abs(found - wanted).max(initial=0) / abs(array).max()))
    return far


def require_right(results: list[list[float]]) -> None:
    for far in results:
        assert max(far) < 1e-11


@pytest.mark.parametrize("ranks", range(1, 18))
def test_transforms_are_numpys(ranks: int) -> None:
    require_right(lk.run(transform_all, ranks, "star").results)


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", range(1, 6))
def test_transforms_are_numpys_on_real_mpi(ranks: int) -> None:
    require_right(lk.run(transform_all, ranks, "mpi").results)


def transformed(comm: Any, name: str, n: int) -> None:
    """Transform numbers without content."""
    rows, columns = grid_of(name, comm.size)
    shape = n // rows, n // columns, n
    registry.get("fft", name).function(comm, sized(math.prod(shape), complex).reshape(shape), (n, n, n))


@pytest.mark.parametrize("ranks", [4, 16])
@pytest.mark.parametrize("name", NAMES)
def test_bytes_sent_are_those_of_the_cost(name: str, ranks: int) -> None:
    n = 32
    counts = lk.run(transformed, ranks, "star", args=(name, n), count=True).counts
    sent = counts[counts["phase"] == "transpose"]["bytes"]
    cost = registry.get("fft", name).cost
    assert cost is not None
    assert set(sent) == {cost(ranks, 16 * n**3 / ranks).volume_bytes}


def test_pencils_need_fewer_messages_and_twice_the_bytes() -> None:
    counts = {name: lk.run(transformed, 64, "star", args=(name, 64), count=True).counts for name in NAMES}
    most = {name: found[found["phase"] == "transpose"]["messages"].max() for name, found in counts.items()}
    assert most == {"slab": 63, "pencil": 14}
    times = {name: lk.run(transformed, 4, "star,bw=1MBps", args=(name, 64)).makespan_s for name in NAMES}
    # on four ranks a slab sends 3/4 of its numbers once, a pencil half of them twice
    assert times["pencil"] / times["slab"] == pytest.approx(4 / 3, rel=0.02)


@pytest.mark.parametrize("name", NAMES)
def test_another_shape_is_refused(name: str) -> None:
    def program(comm: Any) -> None:
        registry.get("fft", name).function(comm, np.ones((2, 2, 3)), (2, 2, 2))

    with raises_code((DataError, RankError), "count-mismatch", name, "(2, 2, 2)", "(2, 2, 3)"):
        lk.run(program, 1, "star")
