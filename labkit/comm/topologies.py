"""Communicators whose ranks have neighbours: Cartesian grids."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from labkit.comm import names
from labkit.comm.communicator import Comm, Intracomm
from labkit.comm.exceptions import Exception as MPIException
from labkit.comm.grid import Grid
from labkit.comm.handles import MODULE_NAME
from labkit.comm.native import shared_calls
from labkit.comm.neighbors import NeighborCollectives

__all__ = ["Cartcomm", "Topocomm"]

_ERR_TOPOLOGY = 11


class Topocomm(NeighborCollectives, Intracomm):
    """A communicator whose ranks have neighbours.

    Attributes
    ----------
    inedges, outedges : list of int
        Ranks that this one receives from, and sends to, in the order of the neighbour collectives.
    """

    __module__ = MODULE_NAME
    _known = names.COMM | names.TOPOLOGY

    def __init__(self, comm: Comm | None = None) -> None:
        if self and not isinstance(self._topology(), Grid):
            raise TypeError("expecting a topology communicator")

    def _topology(self) -> Any:
        return shared_calls("topology").topologies.get(self._context)

    @property
    def inoutedges(self) -> tuple[list[int], list[int]]:
        """Ranks that this one receives from, and sends to."""
        around = self._grid().neighbors_of(self.rank)
        return around, list(around)

    inedges = property(lambda self: self.inoutedges[0], doc="Ranks that this one receives from.")
    outedges = property(lambda self: self.inoutedges[1], doc="Ranks that this one sends to.")
    degrees = property(
        lambda self: tuple(len(edges) for edges in self.inoutedges), doc="Numbers of neighbours."
    )
    indegree = property(lambda self: self.degrees[0], doc="How many ranks this one receives from.")
    outdegree = property(lambda self: self.degrees[1], doc="How many ranks this one sends to.")

    def _grid(self) -> Grid:
        grid = self._topology()
        if not isinstance(grid, Grid):
            raise MPIException(_ERR_TOPOLOGY, "this communicator is no grid; Create_cart makes one")
        return grid


class Cartcomm(Topocomm):
    """A grid of ranks, in row-major order.

    Attributes
    ----------
    dim : int
        Number of dimensions.
    dims, periods, coords : list
        Ranks in each dimension; whether it is a ring; this rank's place.
    """

    __module__ = MODULE_NAME

    def Get_dim(self) -> int:
        """Return the number of dimensions."""
        return len(self._grid().dims)

    dim = property(Get_dim, doc="Number of dimensions.")
    ndim = property(Get_dim, doc="Number of dimensions.")

    def Get_topo(self) -> tuple[list[int], list[int], list[int]]:
        """Dimensions, whether they are rings (1 or 0), and this rank's place."""
        grid = self._grid()
        return list(grid.dims), [int(ring) for ring in grid.periods], grid.coords_of(self.rank)

    topo = property(Get_topo, doc="Dimensions, whether they are rings, and this rank's place.")
    dims = property(lambda self: self.Get_topo()[0], doc="Ranks in each dimension.")
    periods = property(lambda self: self.Get_topo()[1], doc="Whether a dimension is a ring (1 or 0).")
    coords = property(lambda self: self.Get_topo()[2], doc="This rank's place.")

    def Get_cart_rank(self, coords: Sequence[int]) -> int:
        """Rank at a place; in a ring the place is taken modulo its length."""
        grid, places = self._grid(), [operator.index(coord) for coord in coords]
        if len(places) != len(grid.dims):
            raise ValueError(f"expecting {len(grid.dims)} items, got {len(places)}")
        return grid.rank_of(places)

    def Get_coords(self, rank: int) -> list[int]:
        """Place of a rank."""
        return self._grid().coords_of(operator.index(rank))

    def Shift(self, direction: int, disp: int) -> tuple[int, int]:
        """Ranks to receive from and to send to when all data moves by `disp`; PROC_NULL beyond an edge."""
        return self._grid().shifted(self.rank, operator.index(direction), operator.index(disp))

    def Sub(self, remain_dims: Sequence[bool]) -> Cartcomm:
        """Return the grid of the dimensions kept, of the ranks that differ from this one only in those."""
        grid, keeps = self._grid(), [bool(keep) for keep in remain_dims]
        if len(keeps) != len(grid.dims):
            raise ValueError(f"expecting {len(grid.dims)} items, got {len(keeps)}")
        mine = self._fixed(self.rank, keeps)
        world = self._world_ranks()
        made: Cartcomm = self._derive(
            "Sub",
            mine,
            lambda: [world[rank] for rank in range(self.size) if self._fixed(rank, keeps) == mine],
            Cartcomm,
            grid.kept(keeps),
            {"remain_dims": tuple(keeps)},
        )
        return made

    def _fixed(self, rank: int, keeps: list[bool]) -> tuple[int, ...]:
        """Return a rank's place in the dimensions that are not kept."""
        coords = self._grid().coords_of(rank)
        return tuple(coord for coord, keep in zip(coords, keeps, strict=True) if not keep)
