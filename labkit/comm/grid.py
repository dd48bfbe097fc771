"""Cartesian grids of ranks: the arithmetic behind `Create_cart`, in row-major order as MPI wants it."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from labkit.comm.handles.constants import CONSTANTS, PROC_NULL, Constant
from labkit.comm.handles.exceptions import Exception as MPIException

__all__ = [
    "SPECIAL_WEIGHTS",
    "Compute_dims",
    "DistGraph",
    "Graph",
    "Grid",
    "Node",
    "check_peers",
    "gathered_nodes",
    "grid_of",
    "integers_of",
    "weights_of",
]


_ERR_RANK, _ERR_DIMS, _ERR_ARG, _ERR_OTHER = 6, 12, 13, 16


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
        """Return the neighbors of a rank: in each dimension the one before, then the one after."""
        return list(_neighbors(self, rank))

    def around(self, rank: int) -> tuple[list[int], list[int]]:
        """Return the ranks that one receives from, and sends to."""
        return self.neighbors_of(rank), self.neighbors_of(rank)

    def kept(self, keeps: Sequence[bool]) -> Grid:
        """Return the grid of some of the dimensions."""
        pairs = [
            pair for pair, keep in zip(zip(self.dims, self.periods, strict=True), keeps, strict=True) if keep
        ]
        return Grid(tuple(dim for dim, _ in pairs), tuple(is_ring for _, is_ring in pairs))


@lru_cache(maxsize=1 << 16)  # each neighbor collective asks for them
def _neighbors(grid: Grid, rank: int) -> tuple[int, ...]:
    return tuple(peer for direction in range(len(grid.dims)) for peer in grid.shifted(rank, direction, 1))


def Compute_dims(nnodes: int, dims: int | Sequence[int]) -> list[int]:
    """Return a balanced grid of `nnodes` ranks.

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
    is_wrong = nodes < 1 or min(wanted, default=0) < 0
    if is_wrong or nodes % fixed or (0 not in wanted and nodes != fixed):
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


# Communicators whose ranks are the nodes of a graph: given whole, or by each rank for itself.


_ERR_TOPOLOGY = 11

UNWEIGHTED = Constant(2, "UNWEIGHTED")
WEIGHTS_EMPTY = Constant(3, "WEIGHTS_EMPTY")
SPECIAL_WEIGHTS: dict[str, object] = {"UNWEIGHTED": UNWEIGHTED, "WEIGHTS_EMPTY": WEIGHTS_EMPTY}


@dataclass(frozen=True)
class Graph:
    """A graph that all ranks know.

    Attributes
    ----------
    index : tuple of int
        Where the neighbors of each node end in `edges`.
    edges : tuple of int
        The neighbors, node after node.
    """

    index: tuple[int, ...]
    edges: tuple[int, ...]
    kind = CONSTANTS["GRAPH"]

    @classmethod
    def read(cls, index: Sequence[int], edges: Sequence[int]) -> Graph:
        """Read a graph as MPI wants it; mpi4py's form with a 0 in front of the index is taken, too.

        Raises
        ------
        MPI.Exception
            ERR_ARG where index and edges do not fit together.
        """
        ends, peers = integers_of(index), integers_of(edges)
        if ends and ends[0] == 0 and ends[-1] == len(peers):
            ends = ends[1:]
        is_growing = all(a <= b for a, b in zip((0, *ends), ends, strict=False))
        if not is_growing or (ends[-1] if ends else 0) != len(peers):
            raise MPIException(
                _ERR_ARG,
                f"index={list(ends)} does not fit {len(peers)} edges: it says where each node's edges end",
            )
        if any(not 0 <= peer < len(ends) for peer in peers):
            raise MPIException(_ERR_ARG, f"edges={list(peers)}: the graph has nodes 0 to {len(ends) - 1}")
        return cls(ends, peers)

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.index)

    def neighbors_of(self, node: int) -> list[int]:
        """Return the neighbors of a node.

        Raises
        ------
        MPI.Exception
            ERR_RANK for a node that the graph does not have.
        """
        if not 0 <= node < self.size:
            raise MPIException(
                _ERR_RANK, f"rank={node} is not in the graph, which has ranks 0 to {self.size - 1}"
            )
        return list(self.edges[self.index[node - 1] if node else 0 : self.index[node]])

    def around(self, rank: int) -> tuple[list[int], list[int]]:
        """Return the ranks that one receives from, and sends to."""
        return list(self.neighbors_of(rank)), list(self.neighbors_of(rank))


@dataclass(frozen=True)
class Node:
    """What one rank knows of a distributed graph: its neighbors, and the weights of the edges or None."""

    sources: tuple[int, ...]
    destinations: tuple[int, ...]
    weights: tuple[tuple[int, ...], tuple[int, ...]] | None


@dataclass
class DistGraph:
    """A graph of which each rank knows its own edges.

    Attributes
    ----------
    nodes : dict of int to Node
        By rank of the communicator.
    """

    nodes: dict[int, Node] = field(default_factory=dict)
    kind = CONSTANTS["DIST_GRAPH"]

    def around(self, rank: int) -> tuple[list[int], list[int]]:
        """Return the ranks that one receives from, and sends to."""
        node = self.nodes[rank]
        return list(node.sources), list(node.destinations)


def integers_of(values: Sequence[int] | None, count: int | None = None) -> tuple[int, ...]:
    """Read integers; as many as wanted, where it is said."""
    numbers = tuple(operator.index(value) for value in (values if values is not None else ()))
    if count is not None and len(numbers) != count:
        raise ValueError(f"expecting {count} items, got {len(numbers)}")
    return numbers


def weights_of(weights: Any, degree: int) -> tuple[int, ...] | None:
    """Read the weights of this many edges; None: unweighted."""
    if weights is None or _is_constant(weights, UNWEIGHTED):
        return None
    if _is_constant(weights, WEIGHTS_EMPTY):
        if degree:
            raise ValueError("empty weights but nonzero degree")
        return ()
    numbers = integers_of(weights, degree)
    if min(numbers, default=0) < 0:
        raise MPIException(_ERR_ARG, f"weights={list(numbers)}: they are 0 or more")
    return numbers


def _is_constant(value: object, constant: Constant) -> bool:
    return isinstance(value, int) and int(value) == int(constant)


def check_peers(peers: Sequence[int], size: int) -> None:
    """Refuse neighbors that the communicator does not have."""
    for peer in peers:
        if peer != PROC_NULL and not 0 <= peer < size:
            raise MPIException(
                _ERR_ARG,
                f"neighbor {peer} is not a rank of this communicator, which has ranks 0 to {size - 1}",
            )


def gathered_nodes(
    comm: Any,
    sources: tuple[int, ...],
    degrees: tuple[int, ...],
    targets: tuple[int, ...],
    weights: tuple[int, ...] | None,
) -> Node:
    """Find the calling rank's neighbors in a graph of which every rank gave some edges.

    The edges are gathered at every rank, in messages as real MPI's; a rank's neighbors are in the order of
    the ranks that gave the edges.
    """
    heads = np.repeat(np.array(sources, np.int32), np.array(degrees, np.int64))
    costs = np.array(weights if weights is not None else [1] * len(targets), np.int32)
    mine = np.stack([heads, np.array(targets, np.int32), costs], axis=1).reshape(-1)
    mine = np.ascontiguousarray(mine, np.int32)
    counts = np.empty((comm.size, 2), np.int64)
    comm.Allgather(np.array([mine.size, weights is not None], np.int64), counts)
    everything = np.empty(int(counts[:, 0].sum()), np.int32)
    sizes = np.ascontiguousarray(counts[:, 0])
    comm.Allgatherv(mine, [everything, (sizes, np.cumsum(sizes) - sizes)])
    edges = everything.reshape(-1, 3)
    into, out = edges[edges[:, 1] == comm.rank], edges[edges[:, 0] == comm.rank]
    is_weighted = bool(counts[:, 1].any())
    costs_of = (tuple(into[:, 2].tolist()), tuple(out[:, 2].tolist()))
    return Node(tuple(into[:, 0].tolist()), tuple(out[:, 1].tolist()), costs_of if is_weighted else None)


def grid_of(dims: Sequence[int], periods: Sequence[bool] | bool | None) -> Grid:
    """Read the shape of a grid."""
    sizes = tuple(operator.index(dim) for dim in dims)
    rings = (
        (bool(periods),) * len(sizes)
        if periods is None or isinstance(periods, bool)
        else tuple(bool(ring) for ring in periods)
    )
    if len(rings) != len(sizes):
        raise ValueError(f"expecting {len(sizes)} items, got {len(rings)}")
    if sizes and min(sizes) < 1:
        raise MPIException(_ERR_OTHER, f"dims={list(sizes)}: a dimension has at least 1 rank")
    return Grid(sizes, rings)
