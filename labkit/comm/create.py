"""New communicators from old ones: Dup, Split, Create, Create_cart... and their end."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from labkit.comm.collective.native import (
    Call,
    arrive_shared,
    leave,
    refuse_in_recordings,
    shared_calls,
    start,
)
from labkit.comm.handles.base import KNOWN, constant_of
from labkit.comm.handles.constants import CONSTANTS, UNDEFINED
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.groups import Group
from labkit.comm.handles.keyvals import copied, deleted
from labkit.comm.topology.grid import (
    DistGraph,
    Graph,
    Grid,
    Node,
    check_peers,
    gathered_nodes,
    numbers_of,
    weights_of,
)

__all__ = ["CommunicatorMaking"]

_ERR_COMM, _ERR_GROUP, _ERR_DIMS, _ERR_ARG = 5, 9, 12, 13


class CommunicatorMaking:
    """How communicators are made, compared and freed."""

    rank: int
    size: int
    Allgather: Callable[[Any, Any], None]
    Barrier: Callable[[], None]
    _context: int
    _world_ranks: Callable[[], list[int]]
    _become: Callable[..., None]

    def Dup(self, info: Any = None) -> Any:
        """Return a communicator of the same ranks and topology, with messages of its own."""
        return self._duplicate("Dup")

    def Clone(self) -> Any:
        """Return a duplicate."""
        return self._duplicate("Clone")

    def Dup_with_info(self, info: Any) -> Any:
        """Return a duplicate; hints are not kept."""
        return self._duplicate("Dup_with_info")

    def Idup(self, info: Any = None) -> tuple[Any, Any]:
        """Begin to duplicate: the new communicator, for use once the request is complete, and the request."""
        return self._begin_duplicate("Idup")

    def Idup_with_info(self, info: Any) -> tuple[Any, Any]:
        """Begin to duplicate; hints are not kept."""
        return self._begin_duplicate("Idup_with_info")

    def _begin_duplicate(self, name: str) -> tuple[Any, Any]:
        refuse_in_recordings(shared_calls(name), name)
        return self._duplicate(name, waits=False), start(self, Call("barrier", name))

    def _duplicate(self, name: str, waits: bool = True) -> Any:
        topology = shared_calls(name).topologies.get(self._context)
        made = self._derive(name, 0, self._world_ranks, type(self), topology, waits=waits)
        copied(self, made)
        return made

    def Split(self, color: int = 0, key: int = 0) -> Any:
        """Return a communicator of the ranks with the same color, ordered by key, then by rank.

        With color UNDEFINED the result is COMM_NULL.
        """
        if color < 0 and color != UNDEFINED:
            raise MPIException(_ERR_ARG, f"color={color} is not allowed: colors are 0 or more, or UNDEFINED")
        return self._split("Split", int(color), int(key))

    def Split_type(self, split_type: int, key: int = 0, info: Any = None) -> Any:
        """Return a communicator of the ranks that share a host (COMM_TYPE_SHARED), ordered by key.

        With UNDEFINED, or a hardware type that the simulated machine does not know, it is COMM_NULL; of those
        that `info` names it knows ``mpi_hw_resource_type = mpi_shared_memory``.
        """
        known = [CONSTANTS[f"COMM_TYPE_{name}"] for name in ("HW_GUIDED", "HW_UNGUIDED", "RESOURCE_GUIDED")]
        if split_type not in (CONSTANTS["COMM_TYPE_SHARED"], UNDEFINED, *known):
            raise MPIException(_ERR_ARG, f"split_type={split_type} is not one of MPI's: use COMM_TYPE_SHARED")
        hub = shared_calls("Split_type").hub
        guided = (CONSTANTS["COMM_TYPE_HW_GUIDED"], CONSTANTS["COMM_TYPE_RESOURCE_GUIDED"])
        wanted = info.get("mpi_hw_resource_type") if info is not None and split_type in guided else None
        is_shared = split_type == CONSTANTS["COMM_TYPE_SHARED"] or wanted == "mpi_shared_memory"
        return self._split("Split_type", hub.host(hub.rank) if is_shared else UNDEFINED, int(key))

    def _split(self, name: str, color: int, key: int) -> Any:
        # two numbers a rank, as real MPI exchanges them: the trace of a run can say so without knowing them
        rows = np.empty((self.size, 2), np.int32)
        self.Allgather(np.array([color, key], np.int32), rows)
        same = sorted((row[1], rank) for rank, row in enumerate(rows.tolist()) if row[0] == color)
        world = self._world_ranks()
        # the colors have been exchanged: nobody need wait for the others again
        return self._derive(name, color, lambda: [world[rank] for _, rank in same], waits=False)

    def Create(self, group: Group) -> Any:
        """Return a communicator of a group's ranks; COMM_NULL for the others.

        All ranks call it; those of one group give the same group.
        """
        members = self._members_of(group)
        is_member = self._world_ranks()[self.rank] in members
        return self._derive("Create", members if is_member else UNDEFINED, lambda: list(members))

    def Create_group(self, group: Group, tag: int = 0) -> Any:
        """Return a communicator of a group's ranks; only these call it."""
        return self._of_group(group, tag)

    def _of_group(self, group: Group, tag: int | str) -> Any:
        members = self._members_of(group)
        calls = shared_calls("Create_group")
        me = calls.hub.rank
        if me not in members:
            raise MPIException(_ERR_GROUP, f"rank {self.rank} calls Create_group, but is not in the group")
        numbers = calls.attributes.setdefault((self._context, me), {})
        number = numbers[members, tag] = numbers.get((members, tag), 0) + 1
        key = (self._context, members, tag, number)
        if key not in calls.private:
            calls.private[key] = _new(calls, list(members), KNOWN["Intracomm"])
        made = KNOWN["Intracomm"](calls.private[key])
        made.Barrier()
        return made

    def _without(self, rank: int) -> Any:
        """Return a communicator of all other ranks, which share what the first of them has made."""
        members = [member for place, member in enumerate(self._world_ranks()) if place != rank]
        return _new(shared_calls("Create_group"), members, KNOWN["Intracomm"])

    @classmethod
    def Create_from_group(
        cls, group: Group, stringtag: str = "org.mpi4py", info: Any = None, errhandler: Any = None
    ) -> Any:
        """Return a communicator of a group's ranks, without one that has them all; only these call it."""
        return KNOWN["COMM_WORLD"]._of_group(group, stringtag)

    def Create_intercomm(self, local_leader: int, peer_comm: Any, remote_leader: int, tag: int = 0) -> Any:
        """Return a communicator of this group and another one, whose ranks have none in common.

        Parameters
        ----------
        local_leader : int
            Of this communicator; it talks to the other leader.
        peer_comm : Comm
            Has both leaders; only these look at it.
        remote_leader : int
            Rank of the other leader in `peer_comm`.
        tag : int
            Tells apart calls that go on at the same time.
        """
        return KNOWN["Intercomm"]._between(self, int(local_leader), peer_comm, int(remote_leader), int(tag))

    def _members_of(self, group: Group) -> tuple[int, ...]:
        if not isinstance(group, Group):
            raise TypeError(f"group: expected a Group, got {type(group).__name__}")
        members = group._members()
        strangers = set(members) - set(self._world_ranks())
        if strangers:
            raise MPIException(
                _ERR_GROUP, f"the group has {len(strangers)} ranks that this communicator lacks"
            )
        return members

    # --- grids ------------------------------------------------------------------------------------

    def Create_cart(
        self, dims: Sequence[int], periods: Sequence[bool] | bool | None = None, reorder: bool = False
    ) -> Any:
        """Return a communicator of ranks on a grid, in row-major order; COMM_NULL for ranks left over.

        Parameters
        ----------
        dims : sequence of int
            Ranks in each dimension (see `Compute_dims`).
        periods : bool or sequence of bool, optional
            Which dimensions are rings; default: none.
        reorder : bool
            Whether ranks may be renumbered; they are not.

        Raises
        ------
        MPI.Exception
            ERR_ARG or ERR_DIMS if there are too few ranks, or a dimension is below 1.
        """
        grid = _grid(dims, periods)
        if grid.size > self.size:
            raise MPIException(
                _ERR_ARG,
                f"a grid {list(grid.dims)} needs {grid.size} ranks, this communicator has {self.size}",
            )
        color = 0 if self.rank < grid.size else UNDEFINED
        facts = {"dims": grid.dims, "periods": grid.periods}
        members = lambda: self._world_ranks()[: grid.size]  # noqa: E731
        return self._derive("Create_cart", color, members, KNOWN["Cartcomm"], grid, facts)

    def Cart_map(self, dims: Sequence[int], periods: Sequence[bool] | bool | None = None) -> int:
        """Return the rank that this one would have on a grid; UNDEFINED if it would be left over."""
        return self.rank if self.rank < _grid(dims, periods).size else UNDEFINED

    # --- graphs -----------------------------------------------------------------------------------

    def Create_graph(self, index: Sequence[int], edges: Sequence[int], reorder: bool = False) -> Any:
        """Return a communicator of ranks that are the nodes of a graph; COMM_NULL for ranks left over.

        Parameters
        ----------
        index : sequence of int
            Where the neighbours of each node end in `edges`.
        edges : sequence of int
            The neighbours, node after node.
        reorder : bool
            Whether ranks may be renumbered; they are not.
        """
        graph = Graph.read(index, edges)
        if graph.size > self.size:
            raise MPIException(
                _ERR_ARG, f"a graph of {graph.size} nodes needs as many ranks, here are {self.size}"
            )
        color = 0 if self.rank < graph.size else UNDEFINED
        facts = {"index": graph.index, "edges": graph.edges}
        members = lambda: self._world_ranks()[: graph.size]  # noqa: E731
        return self._derive("Create_graph", color, members, KNOWN["Graphcomm"], graph, facts)

    def Graph_map(self, index: Sequence[int], edges: Sequence[int]) -> int:
        """Return the rank that this one would have in a graph; UNDEFINED if it would be left over."""
        return self.rank if self.rank < Graph.read(index, edges).size else UNDEFINED

    def Create_dist_graph_adjacent(
        self,
        sources: Sequence[int] | None,
        destinations: Sequence[int] | None,
        sourceweights: Any = None,
        destweights: Any = None,
        info: Any = None,
        reorder: bool = False,
    ) -> Any:
        """Return a communicator of ranks that know whom they receive from and whom they send to."""
        into, out = numbers_of(sources), numbers_of(destinations)
        check_peers((*into, *out), self.size)
        costs = weights_of(sourceweights, len(into)), weights_of(destweights, len(out))
        # a side without edges may be called unweighted
        is_weighted = any(cost is not None for cost in costs)
        weights = (costs[0] or (), costs[1] or ()) if is_weighted else None
        return self._derive_node("Create_dist_graph_adjacent", Node(into, out, weights))

    def Create_dist_graph(
        self,
        sources: Sequence[int],
        degrees: Sequence[int],
        destinations: Sequence[int],
        weights: Any = None,
        info: Any = None,
        reorder: bool = False,
    ) -> Any:
        """Return a communicator of ranks in a graph to which each rank gives some edges, of any ranks.

        Parameters
        ----------
        sources, degrees : sequence of int
            Ranks, and how many edges of each are given.
        destinations : sequence of int
            Where the edges go to, source after source.
        weights : sequence of int, optional
        info, reorder : object, bool
            Not looked at.
        """
        heads = numbers_of(sources)
        numbers = numbers_of(degrees, len(heads))
        targets = numbers_of(destinations, sum(numbers))
        check_peers((*heads, *targets), self.size)
        node = gathered_nodes(self, heads, numbers, targets, weights_of(weights, len(targets)))
        return self._derive_node("Create_dist_graph", node)

    def _derive_node(self, name: str, node: Node) -> Any:
        return self._derive(name, 0, self._world_ranks, KNOWN["Distgraphcomm"], DistGraph(), {}, True, node)

    # --- how all of them are made -----------------------------------------------------------------

    def _derive(
        self,
        name: str,
        color: Any,
        members: Callable[[], list[int]],
        cls: Any = None,
        topology: Any = None,
        facts: dict[str, Any] | None = None,
        waits: bool = True,
        node: Node | None = None,
    ) -> Any:
        """Agree on a communicator: all ranks of one color share one, made by the first that comes."""
        cls = cls or KNOWN["Intracomm"]
        calls, shared = arrive_shared(self, name, facts or {})
        if color != UNDEFINED and color not in shared.made:
            shared.made[color] = _new(calls, members(), cls, topology)
        if node is not None:
            calls.topologies[shared.made[color]._context].nodes[self.rank] = node
        leave(name)
        if waits:  # the ranks agree on a context
            self.Barrier()
        return cls(KNOWN["COMM_NULL"] if color == UNDEFINED else shared.made[color])

    def Free(self) -> None:
        """Give a communicator back; the handle becomes COMM_NULL."""
        name = constant_of(self)
        if name is not None:
            raise MPIException(_ERR_COMM, f"{name} cannot be freed")
        self.Barrier()
        deleted(self)
        self._become("null", 0)

    Disconnect = Free

    def free(self) -> None:
        """Give it back; a handle of one of MPI's own becomes null, the module's stay as they are."""
        name = constant_of(self)
        if name is None:
            self.Free()
        elif self is not KNOWN[name]:
            self._become("null", 0)


def _new(calls: Any, members: list[int], cls: Any, topology: Any = None) -> Any:
    """Return a communicator with messages of its own."""
    context = calls.hub.new_context()
    if topology is not None:
        calls.topologies[context] = topology
    comm = KNOWN["Intracomm"]()
    comm._become("group", context, members)
    return comm


def _grid(dims: Sequence[int], periods: Sequence[bool] | bool | None) -> Grid:
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
        raise MPIException(_ERR_DIMS, f"dims={list(sizes)}: a dimension has at least 1 rank")
    return Grid(sizes, rings)
