"""Cartesian grids of ranks: the arithmetic behind `Create_cart`, in row-major order as MPI wants it."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

from labkit.comm.handles.constants import CONSTANTS, PROC_NULL
from labkit.comm.handles.exceptions import Exception as MPIException

__all__ = ["Compute_dims", "Grid"]

_ERR_RANK, _ERR_DIMS, _ERR_ARG = 6, 12, 13


@dataclass(frozen=True)
class Grid:
    """The shape of a grid.

    Attributes
    ----------
    dims : tuple of int
        Ranks in each dimension; the last one changes fastest.
    periods : tuple of bool
        Whether a dimension is a ring.
    """

    dims: tuple[int, ...]
    periods: tuple[bool, ...]
    kind = CONSTANTS["CART"]

    @property
    def size(self) -> int:
        """Number of ranks."""
        return math.prod(self.dims)

    def rank_of(self, coords: Sequence[int]) -> int:
        """Return the rank at a place.

        Raises
        ------
        MPI.Exception
            ERR_ARG for a place outside, in a dimension that is no ring.
        """
        rank = 0
        for coord, dim, is_ring in zip(coords, self.dims, self.periods, strict=True):
            if not is_ring and not 0 <= coord < dim:
                raise MPIException(
                    _ERR_ARG,
                    f"coords={list(coords)} lie outside the grid {list(self.dims)}, which has an edge there",
                )
            rank = rank * dim + coord % dim
        return rank

    def coords_of(self, rank: int) -> list[int]:
        """Return the place of a rank.

        Raises
        ------
        MPI.Exception
            ERR_RANK for a rank that the grid does not have.
        """
        if not 0 <= rank < self.size:
            raise MPIException(
                _ERR_RANK,
                f"rank={rank} is not on the grid {list(self.dims)}, which has ranks 0 to {self.size - 1}",
            )
        coords = []
        for dim in reversed(self.dims):
            rank, coord = divmod(rank, dim)
            coords.append(coord)
        return coords[::-1]

    def shifted(self, rank: int, direction: int, disp: int) -> tuple[int, int]:
        """Return the ranks `disp` places before and after a rank; PROC_NULL beyond an edge.

        Raises
        ------
        MPI.Exception
            ERR_DIMS for a dimension that the grid does not have.
        """
        if not 0 <= direction < len(self.dims):
            raise MPIException(
                _ERR_DIMS,
                f"direction={direction} is not allowed: the grid has {len(self.dims)} dimensions, from 0 on",
            )
        coords = self.coords_of(rank)
        return self._beside(coords, direction, -disp), self._beside(coords, direction, disp)

    def _beside(self, coords: list[int], direction: int, step: int) -> int:
        place = coords[direction] + step
        if not self.periods[direction] and not 0 <= place < self.dims[direction]:
            return PROC_NULL
        return self.rank_of([*coords[:direction], place, *coords[direction + 1 :]])

    def neighbors_of(self, rank: int) -> list[int]:
        """Return the ranks beside a rank: in each dimension the one before, then the one after."""
        return [peer for direction in range(len(self.dims)) for peer in self.shifted(rank, direction, 1)]

    def around(self, rank: int) -> tuple[list[int], list[int]]:
        """Return the ranks that one receives from, and sends to."""
        return self.neighbors_of(rank), self.neighbors_of(rank)

    def kept(self, keeps: Sequence[bool]) -> Grid:
        """Return the grid of some of the dimensions."""
        pairs = [
            pair for pair, keep in zip(zip(self.dims, self.periods, strict=True), keeps, strict=True) if keep
        ]
        return Grid(tuple(dim for dim, _ in pairs), tuple(is_ring for _, is_ring in pairs))


def Compute_dims(nnodes: int, dims: int | Sequence[int]) -> list[int]:
    """Return a balanced grid of so many ranks.

    Notes
    -----
    Prime factors, the largest first, go to the dimension that is the smallest so far, as in Open MPI.

    Examples
    --------
    >>> Compute_dims(12, 2), Compute_dims(24, [0, 2, 0])
    ([4, 3], [4, 2, 3])
    """
    nodes = operator.index(nnodes)
    if isinstance(dims, int) and dims < 0:
        raise ValueError(f"dims={dims}: a grid has 0 dimensions or more")
    wanted = [0] * dims if isinstance(dims, int) else [operator.index(d) for d in dims]
    fixed = math.prod(dim for dim in wanted if dim)
    if nodes < 1 or not wanted or min(wanted) < 0 or nodes % fixed or (0 not in wanted and nodes != fixed):
        raise MPIException(
            _ERR_DIMS,
            f"{nodes} ranks cannot make a grid {wanted}: the dimensions that are not 0 must divide them",
        )
    found = [1] * wanted.count(0)
    for factor in _prime_factors(nodes // fixed):
        found[found.index(min(found))] *= factor
    rest = iter(sorted(found, reverse=True))
    return [dim or next(rest) for dim in wanted]


def _prime_factors(number: int) -> list[int]:
    """Return the prime factors, the largest first."""
    factors = []
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1
    if number > 1:
        factors.append(number)
    return factors[::-1]
