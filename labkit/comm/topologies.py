"""Communicators whose ranks have neighbors: Cartesian grids, graphs, and graphs known by their nodes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from labkit.comm import surface
from labkit.comm.collective.native import shared_calls
from labkit.comm.collective.neighbors import NeighborCollectives
from labkit.comm.communicator import Comm
from labkit.comm.grid import DistGraph, Graph, Grid, Node
from labkit.comm.handles.base import KNOWN, MODULE_NAME
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.intracomm import Intracomm

__all__ = ["Cartcomm", "Distgraphcomm", "Graphcomm", "Topocomm"]

_ERR_TOPOLOGY = 11


class Topocomm(NeighborCollectives, Intracomm):
    """A communicator whose ranks have neighbors.

    Attributes
    ----------
    inedges, outedges : list of int
        Ranks that this one receives from, and sends to, in the order of the neighbor collectives.
    """

    __module__ = MODULE_NAME
    _known = surface.COMM | surface.TOPOLOGY
    _kinds: tuple[type, ...] = (Grid, Graph, DistGraph)
    _expected = "topology"

    def __init__(self, comm: Comm | None = None) -> None:
        if self and not isinstance(self._topology(), self._kinds):
            raise TypeError(f"expecting a {self._expected} communicator")

    def _topology(self) -> Any:
        self._check()
        return shared_calls("topology").topologies.get(self._context)

    @property
    def inoutedges(self) -> tuple[list[int], list[int]]:
        """Ranks that this one receives from, and sends to."""
        topology = self._topology()
        if topology is None:
            raise MPIException(_ERR_TOPOLOGY, "this communicator has no topology; Create_cart makes a grid")
        around: tuple[list[int], list[int]] = topology.around(self.rank)
        return around

    inedges = property(lambda self: self.inoutedges[0], doc="Ranks that this one receives from.")
    outedges = property(lambda self: self.inoutedges[1], doc="Ranks that this one sends to.")
    degrees = property(
        lambda self: tuple(len(edges) for edges in self.inoutedges), doc="Numbers of neighbors."
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
    _kinds = (Grid,)
    _expected = "Cartesian"

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


class Graphcomm(Topocomm):
    """Ranks that are the nodes of a graph which all of them know.

    Attributes
    ----------
    index, edges : list of int
        Where the neighbors of each rank end in `edges`; the neighbors.
    nnodes, nedges, nneighbors : int
    neighbors : list of int
        Of this rank.
    """

    __module__ = MODULE_NAME
    _kinds = (Graph,)
    _expected = "general graph"

    def _graph(self) -> Graph:
        graph = self._topology()
        if not isinstance(graph, Graph):
            raise MPIException(_ERR_TOPOLOGY, "this communicator is no graph; Create_graph makes one")
        return graph

    def Get_dims(self) -> tuple[int, int]:
        """Numbers of nodes and of edges."""
        return self._graph().size, len(self._graph().edges)

    dims = property(Get_dims, doc="Numbers of nodes and of edges.")
    nnodes = property(lambda self: self.Get_dims()[0], doc="Number of nodes.")
    nedges = property(lambda self: self.Get_dims()[1], doc="Number of edges.")

    def Get_topo(self) -> tuple[list[int], list[int]]:
        """Index and edges."""
        return list(self._graph().index), list(self._graph().edges)

    topo = property(Get_topo, doc="Index and edges.")
    index = property(lambda self: self.Get_topo()[0], doc="Where each rank's edges end.")
    edges = property(lambda self: self.Get_topo()[1], doc="The neighbors, rank after rank.")

    def Get_neighbors_count(self, rank: int) -> int:
        """Return the number of a rank's neighbors."""
        return len(self.Get_neighbors(rank))

    nneighbors = property(lambda self: self.Get_neighbors_count(self.rank), doc="Number of neighbors.")

    def Get_neighbors(self, rank: int) -> list[int]:
        """Return the neighbors of a rank."""
        return self._graph().neighbors_of(operator.index(rank))

    neighbors = property(lambda self: self.Get_neighbors(self.rank), doc="Neighbors of this rank.")


class Distgraphcomm(Topocomm):
    """Ranks that are the nodes of a graph of which each knows its own edges."""

    __module__ = MODULE_NAME
    _kinds = (DistGraph,)
    _expected = "distributed graph"

    def _node(self) -> Node:
        graph = self._topology()
        if not isinstance(graph, DistGraph):
            raise MPIException(
                _ERR_TOPOLOGY,
                "this communicator is no distributed graph; Create_dist_graph_adjacent makes one",
            )
        return graph.nodes[self.rank]

    def Get_dist_neighbors_count(self) -> tuple[int, int, bool]:
        """How many ranks this one receives from and sends to, and whether the edges have weights."""
        node = self._node()
        return len(node.sources), len(node.destinations), node.weights is not None

    def Get_dist_neighbors(self) -> tuple[list[int], list[int], tuple[list[int], list[int]] | None]:
        """Ranks that this one receives from and sends to, and the weights of both, or None."""
        node = self._node()
        weights = node.weights and (list(node.weights[0]), list(node.weights[1]))
        return list(node.sources), list(node.destinations), weights


KNOWN.update(Cartcomm=Cartcomm, Graphcomm=Graphcomm, Distgraphcomm=Distgraphcomm)
