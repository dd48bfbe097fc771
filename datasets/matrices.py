"""Dense matrices in blocks: each rank makes its own, and sums of products are exact.

An entry depends on its row, its column and the seed alone, so that the matrix is the same however it is
distributed. Entries are whole numbers from -4 to 4: with fewer than 2^49 terms every sum of products is exact
in double precision, and two algorithms that add in different orders agree to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.program.context import compute
from labkit.program.sized import sized

__all__ = ["Laplacian", "block", "mixed", "offsets"]


def offsets(n: int, parts: int) -> NDArray[np.int64]:
    """Return where each of `parts` nearly equal parts of n begins, and n at the end: shape ``(parts + 1,)``.

    Examples
    --------
    >>> offsets(10, 4).tolist()
    [0, 2, 5, 7, 10]
    """
    return np.arange(parts + 1) * n // parts


def block(
    shape: tuple[int, int], grid: tuple[int, int], rank: int, *, seed: int = 0, is_sized: bool = False
) -> NDArray[np.float64]:
    """Return the block of a matrix that belongs to one rank of a grid.

    Parameters
    ----------
    shape : tuple of int
        Rows and columns of the whole matrix.
    grid : tuple of int
        Rows and columns of the grid of ranks; rank r has row ``r // grid[1]`` and column ``r % grid[1]``.
    rank : int
    seed : int
        Chooses the matrix.
    is_sized : bool
        Return a block with a size and no content (`labkit.sized`): simulated runs can send it, and it
        takes no memory.

    Returns
    -------
    ndarray of float64
        Rows ``i m // grid[0]`` to ``(i + 1) m // grid[0]`` of m, and columns in the same way.

    Raises
    ------
    DataError
        If the rank is outside the grid.

    Examples
    --------
    >>> block((4, 6), (2, 2), rank=3).shape
    (2, 3)
    """
    (m, n), (grid_rows, grid_columns) = shape, grid
    if not 0 <= rank < grid_rows * grid_columns:
        raise DataError(
            f"rank must be 0 to {grid_rows * grid_columns - 1} in a grid of {grid_rows} x {grid_columns}, "
            f"got {rank}",
            code="out-of-range",
        )
    i, j = divmod(rank, grid_columns)
    rows = np.arange(*offsets(m, grid_rows)[i : i + 2])
    columns = np.arange(*offsets(n, grid_columns)[j : j + 2])
    if is_sized:
        return sized(len(rows) * len(columns), np.float64).reshape(len(rows), len(columns))
    places = rows.astype(np.uint64)[:, None] * np.uint64(n) + columns.astype(np.uint64)
    words = mixed(places + np.uint64(seed) * np.uint64(0xD1B54A32D192ED03))
    return (words % np.uint64(9)).astype(np.float64) - 4


def mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits of each number: the finalizer of splitmix64."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


class Laplacian:
    """The five-point Laplacian of n x n points in slabs of rows: symmetric, positive definite, sparse.

    Each point has four times its value less those of its neighbors; outside the grid is zero. Rank r of p has
    the rows ``r n // p`` to ``(r + 1) n // p`` and exchanges one row with each neighbor.

    Parameters
    ----------
    comm : communicator
    n : int
        Rows and columns of points; at least as many as ranks.

    Attributes
    ----------
    rows : int
        Of this rank.

    Raises
    ------
    DataError
        If a rank would have no row.

    Examples
    --------
    >>> import labkit as lk
    >>> def program(comm):
    ...     return Laplacian(comm, 2)(np.arange(4.0)[2 * comm.rank : 2 * comm.rank + 2]).tolist()
    >>> lk.run(program, 2, on="star:2").results
    [[-3.0, 1.0], [5.0, 9.0]]
    """

    def __init__(self, comm: Any, n: int) -> None:
        if n < comm.size:
            raise DataError(
                f"n must be at least the number of ranks, {comm.size}, got {n}", code="wrong-type"
            )
        self.comm, self.n = comm, n
        self.rows = int(np.diff(offsets(n, comm.size))[comm.rank])

    def __call__(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the Laplacian of this rank's values, shape ``(rows * n,)``; the ranks exchange rows."""
        from labkit import MPI

        comm, field = self.comm, np.zeros((self.rows + 2, self.n + 2))
        field[1:-1, 1:-1] = values.reshape(self.rows, self.n)
        above = comm.rank - 1 if comm.rank else MPI.PROC_NULL
        below = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
        for leaving, to, entering, source in ((1, above, -1, below), (-2, below, 0, above)):
            row = field[entering].copy()
            comm.Sendrecv(field[leaving].copy(), to, recvbuf=row, source=source)
            field[entering] = row
        compute(flops=5.0 * self.rows * self.n)
        inner = field[1:-1, 1:-1]
        around = field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:]
        result: NDArray[np.float64] = (4 * inner - around).ravel()
        return result
