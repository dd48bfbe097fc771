"""Cartesian communicators of a submission: the grid's arithmetic here, its messages the grader's to count."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from labkit.comm.collective.neighbors import NeighborCollectives
from labkit.comm.topology.grid import Grid
from labkit.comm.topology.topologies import Cartcomm, Topocomm
from labkit.errors import UnsupportedError
from labkit.grading.sandbox.remote_comm import REFUSED, RemoteComm

__all__ = ["RemoteCart"]


class RemoteCart(NeighborCollectives, RemoteComm):
    """A communicator of ranks on a grid.

    What a grid is (coordinates, neighbours, edges) is computed as on a simulated machine, by the same
    functions; neighbour collectives are made of messages, as there.
    """

    def _grid(self) -> Grid:
        assert self._shape is not None
        return self._shape

    _topology = _grid

    def _begin(self, name: str, sent: Any, received: Any, homes: Any, given: Any) -> Any:
        raise UnsupportedError(REFUSED.format(name))

    def _neighbor_init(self, name: str, build: Any) -> Any:
        raise UnsupportedError(REFUSED.format(name))

    inoutedges = Topocomm.inoutedges
    inedges, outedges = Topocomm.inedges, Topocomm.outedges
    degrees, indegree, outdegree = Topocomm.degrees, Topocomm.indegree, Topocomm.outdegree

    Get_dim, dim, ndim = Cartcomm.Get_dim, Cartcomm.dim, Cartcomm.ndim
    Get_topo, topo = Cartcomm.Get_topo, Cartcomm.topo
    dims, periods, coords = Cartcomm.dims, Cartcomm.periods, Cartcomm.coords
    Get_cart_rank, Get_coords, Shift = Cartcomm.Get_cart_rank, Cartcomm.Get_coords, Cartcomm.Shift

    def Sub(self, remain_dims: Sequence[bool]) -> Any:
        """Return the grid of the dimensions kept, of the ranks that differ from this one only in those."""
        keeps = [int(bool(operator.index(keep))) for keep in remain_dims]
        if len(keeps) != len(self._grid().dims):
            raise ValueError(f"expecting {len(self._grid().dims)} items, got {len(keeps)}")
        return self._make("Sub", keeps, shape=self._grid().kept([bool(keep) for keep in keeps]))


RemoteComm.grid_class = RemoteCart
