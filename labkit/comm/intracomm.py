"""Intracommunicators: how they are made and freed, and their collectives.

Collectives on buffers, blocking, nonblocking and persistent: each is one run of a schedule by the engine.
Every rank enters when it gets there; the first one chooses the algorithm, the others must agree with it in
what MPI wants to be the same everywhere. All ranks start the same collectives in the same order on a
communicator, blocking and nonblocking ones together; they may be over in any order. Buffers must stay as they
are until the request is complete.

What is assumed about progress of nonblocking collectives. Each rank's part is carried on by an agent of the
engine's, as a network adapter or a thread on its own core would: its messages are posted and matched
while the rank computes, share the network with all others, and cost the rank's processor nothing
(asynchronous progress). The call itself posts what it can right away and pays for that; everything after
the first wait is the agent's, the overheads of its messages included. A real MPI without asynchronous
progress goes on only inside calls: there a rank that computes for long has to `Test` now and then, and
overlaps less than here.

A nonblocking collective runs the schedule that its blocking twin would run (``coll=`` chooses for both). So
``Iallreduce(...).Wait()`` takes as long as ``Allreduce(...)``, and never less.

A start of a persistent collective does what the nonblocking call would do then. Each request has messages of
its own: they may be started in any order, also in another one at another rank (MPI 4, section 6.13); `info`
is not looked at.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from labkit import _kernels
from labkit.comm.buffers import parse_simple
from labkit.comm.collective.makers import Maker, counts_of, maker_of
from labkit.comm.collective.native import (
    Call,
    arrive,
    arrive_shared,
    leave,
    perform,
    refuse_in_recordings,
    shared_calls,
    start,
)
from labkit.comm.collective.objects import ObjectCollectives
from labkit.comm.communicator import Comm
from labkit.comm.grid import (
    DistGraph,
    Graph,
    Node,
    check_peers,
    gathered_nodes,
    grid_of,
    integers_of,
    weights_of,
)
from labkit.comm.handles.base import KNOWN, MODULE_NAME, constant_of, is_in_place
from labkit.comm.handles.constants import CONSTANTS, UNDEFINED
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.groups import GROUP_NULL, Group
from labkit.comm.handles.info import copied, deleted
from labkit.comm.handles.operators import OPERATORS
from labkit.comm.handles.status import Prequest, Request
from labkit.comm.spawning import accept, all_wanted, connect, one_wanted, spawn
from labkit.comm.surface import METHODS, Method, made
from labkit.schedule.problem import PROBLEMS, Problem

if TYPE_CHECKING:
    from labkit.comm.collective.calls import CollectiveCalls

__all__ = ["COMM_NULL", "COMM_SELF", "COMM_WORLD", "Intracomm"]

_ERR_TAG, _ERR_COMM, _ERR_GROUP, _ERR_ARG = 4, 5, 9, 13


# Collective methods with a short way past Python, for calls of a form that has been seen before.


_Method = TypeVar("_Method", bound=Callable[..., object])
_Made = TypeVar("_Made", bound="Intracomm")


def quick(
    method: _Method,
    keeps_own_block: bool = False,
    tables: int = 0,
    starts: bool = False,
    forgets: bool = False,
) -> _Method:
    """Let a method's plain calls go straight to the engine once one of their form has been carried out.

    What a form is and what is plain, kernels/bindings/hub/quick_calls.hpp says. The method may have the
    parameters `op`, `root`, `recvcounts`, and one or two buffers. All that it does must follow from its
    arguments, the communicator and whether the rank is the root; it ends in
    `labkit.comm.collective.native.perform`, or in `start`.

    `keeps_own_block`: With IN_PLACE it sends the rank's own block, not the whole buffer.
    `tables`: Which of the buffers are blocks of any sizes: 1 the first, 2 the second, 3 both.
    `starts`: It is nonblocking.
    `forgets`: mpi4py's request keeps no reference to its buffers.
    """
    make: Any = _kernels.QuickMethod
    made: Any = make(method, keeps_own_block, tables, starts, forgets)
    functools.update_wrapper(made, method)
    return made  # type: ignore[no-any-return]


class Intracomm(ObjectCollectives, Comm):
    """A communicator of one group."""

    __module__ = MODULE_NAME

    def __init__(self, comm: Comm | None = None) -> None:
        if self._remote_ranks() is not None:
            raise TypeError("expecting an intracommunicator")

    def _private(self, name: str, root: int, op: str = "") -> tuple[Comm, int]:
        """Return the communicator and tag of a collective that is made of its own messages."""
        number = arrive(self, name, {"root": root, "op": op} if op else {"root": root})
        private = Comm(self)  # type: ignore[call-arg]
        private._use_private_context()
        return (
            private,
            number & 1 | 0x40000000,
        )  # a neighbor's differs, and loops send the same again and again

    def _leave(self, name: str) -> None:
        """Note that this rank is through such a collective."""
        leave(name)

    # --- made from this one ------------------------------------------------------------------------

    def Dup(self, info: object = None) -> Self:
        """Return a communicator of the same ranks and topology, with its own messages."""
        return self._duplicate("Dup")

    def Clone(self) -> Self:
        """Return a duplicate."""
        return self._duplicate("Clone")

    def Dup_with_info(self, info: object) -> Self:
        """Return a duplicate; hints are not kept."""
        return self._duplicate("Dup_with_info")

    def Idup(self, info: object = None) -> tuple[Self, Request]:
        """Begin to duplicate: the new communicator, for use once the request is complete, and the request."""
        return self._begin_duplicate("Idup")

    def Idup_with_info(self, info: object) -> tuple[Self, Request]:
        """Begin to duplicate; hints are not kept."""
        return self._begin_duplicate("Idup_with_info")

    def _begin_duplicate(self, name: str) -> tuple[Self, Request]:
        refuse_in_recordings(shared_calls(name), name)
        return self._duplicate(name, waits=False), start(self, Call("barrier", name))

    def _duplicate(self, name: str, waits: bool = True) -> Self:
        topology = shared_calls(name).topologies.get(self._context)
        made = self._derive(name, 0, self._world_ranks, type(self), topology, waits=waits)
        copied(self, made)
        own = self._own()
        if constant_of(self) == "COMM_WORLD" or own.get("is of the world"):
            made._own()["is of the world"] = True
        return made

    def Split(self, color: int = 0, key: int = 0) -> Intracomm:
        """Return a communicator of the ranks with the same color, ordered by key, then by rank.

        With color UNDEFINED the result is COMM_NULL.
        """
        if color < 0 and color != UNDEFINED:
            raise MPIException(_ERR_ARG, f"color={color} is not allowed: colors are 0 or more, or UNDEFINED")
        return self._split("Split", int(color), int(key))

    def Split_type(self, split_type: int, key: int = 0, info: Any = None) -> Intracomm:
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

    def _split(self, name: str, color: int, key: int) -> Intracomm:
        # two numbers a rank, as real MPI exchanges them: the trace of a run can say so without knowing them
        rows = np.empty((self.size, 2), np.int32)
        self.Allgather(np.array([color, key], np.int32), rows)
        same = sorted((row[1], rank) for rank, row in enumerate(rows.tolist()) if row[0] == color)
        world = self._world_ranks()
        # the colors have been exchanged: nobody need wait for the others again
        return self._derive(name, color, lambda: [world[rank] for _, rank in same], Intracomm, waits=False)

    def Create(self, group: Group) -> Intracomm:
        """Return a communicator of a group's ranks; COMM_NULL for the others.

        All ranks call it; those of one group give the same group.
        """
        members = self._members_of(group)
        is_member = self._world_ranks()[self.rank] in members
        color = members if is_member else UNDEFINED
        return self._derive("Create", color, lambda: list(members), Intracomm)

    def Create_group(self, group: Group, tag: int = 0) -> Intracomm:
        """Return a communicator of a group's ranks; only these need to call it, others get COMM_NULL."""
        if tag < 0:
            raise MPIException(_ERR_TAG, f"tag={tag}: it is 0 or more")
        if group == GROUP_NULL:  # as in Open MPI; Create refuses it
            return Intracomm(KNOWN["COMM_NULL"])
        return self._of_group(group, tag)

    def _of_group(self, group: Group, tag: int | str) -> Intracomm:
        members = self._members_of(group)
        calls = shared_calls("Create_group")
        me = calls.hub.rank
        if me not in members:
            return Intracomm(KNOWN["COMM_NULL"])
        numbers = calls.attributes.setdefault((self._context, me), {})
        number = numbers[members, tag] = numbers.get((members, tag), 0) + 1
        key = (self._context, members, tag, number)
        if key not in calls.private:
            calls.private[key] = _new(calls, list(members))
        made = Intracomm(calls.private[key])
        made.Barrier()
        return made

    def _without(self, rank: int) -> Intracomm:
        """Return a communicator of all other ranks, which share what the first of them has made."""
        members = [member for place, member in enumerate(self._world_ranks()) if place != rank]
        return _new(shared_calls("Create_group"), members)

    @classmethod
    def Create_from_group(
        cls, group: Group, stringtag: str = "org.mpi4py", info: object = None, errhandler: object = None
    ) -> Intracomm:
        """Return a communicator of a group's ranks, without one that has them all; only these call it."""
        return COMM_WORLD._of_group(group, stringtag)

    def Create_intercomm(self, local_leader: int, peer_comm: object, remote_leader: int, tag: int = 0) -> Any:
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
            Distinguishes calls that go on at the same time.
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
            ERR_ARG if there are too few ranks, ERR_OTHER for a dimension below 1, as in Open MPI.
        """
        ranks = math.prod(integers_of(dims))
        if ranks > self.size:
            raise MPIException(
                _ERR_ARG, f"a grid {list(dims)} needs {ranks} ranks, this communicator has {self.size}"
            )
        grid = grid_of(dims, periods)
        color = 0 if self.rank < grid.size else UNDEFINED
        facts = {"dims": grid.dims, "periods": grid.periods}
        members = lambda: self._world_ranks()[: grid.size]  # noqa: E731
        return self._derive("Create_cart", color, members, KNOWN["Cartcomm"], grid, facts)

    def Cart_map(self, dims: Sequence[int], periods: Sequence[bool] | bool | None = None) -> int:
        """Return the rank that this one would have on a grid; UNDEFINED if it would be left over."""
        return self.rank if self.rank < grid_of(dims, periods).size else UNDEFINED

    # --- graphs -----------------------------------------------------------------------------------

    def Create_graph(self, index: Sequence[int], edges: Sequence[int], reorder: bool = False) -> Any:
        """Return a communicator of ranks that are the nodes of a graph; COMM_NULL for ranks left over.

        Parameters
        ----------
        index : sequence of int
            Where the neighbors of each node end in `edges`.
        edges : sequence of int
            The neighbors, node after node.
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
        sourceweights: object = None,
        destweights: object = None,
        info: object = None,
        reorder: bool = False,
    ) -> Any:
        """Return a communicator of ranks that know whom they receive from and whom they send to."""
        into, out = integers_of(sources), integers_of(destinations)
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
        weights: object = None,
        info: object = None,
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
        heads = integers_of(sources)
        numbers = integers_of(degrees, len(heads))
        targets = integers_of(destinations, sum(numbers))
        check_peers((*heads, *targets), self.size)
        node = gathered_nodes(self, heads, numbers, targets, weights_of(weights, len(targets)))
        return self._derive_node("Create_dist_graph", node)

    def _derive_node(self, name: str, node: Node) -> Any:
        return self._derive(name, 0, self._world_ranks, KNOWN["Distgraphcomm"], DistGraph(), {}, True, node)

    # --- how all of them are made -----------------------------------------------------------------

    def _derive(
        self,
        name: str,
        color: object,
        members: Callable[[], list[int]],
        cls: type[_Made],
        topology: object = None,
        facts: dict[str, Any] | None = None,
        waits: bool = True,
        node: Node | None = None,
    ) -> _Made:
        """Agree on a communicator: all ranks of one color share one, made by the first that comes."""
        calls, shared = arrive_shared(self, name, facts or {})
        if color != UNDEFINED and color not in shared.made:
            shared.made[color] = _new(calls, members(), topology)
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
        """Give it back; a handle of one of MPI's own becomes null, the module's stay unchanged."""
        name = constant_of(self)
        if name is None:
            self.Free()
        elif self is not KNOWN[name]:
            self._become("null", 0)

    # --- ranks of other groups ---------------------------------------------------------------------

    def Accept(self, port_name: str, info: object = None, root: int = 0) -> Any:
        """Wait at the root's port for a group; the communicator with it."""
        return accept(self, port_name, root)

    def Connect(self, port_name: str, info: object = None, root: int = 0) -> Any:
        """Go to a port where a group waits, or will; the communicator with it."""
        return connect(self, port_name, root)

    def Spawn(
        self,
        command: str,
        args: Sequence[str] | str | None = None,
        maxprocs: int = 1,
        info: object = None,
        root: int = 0,
        errcodes: list[int] | None = None,
    ) -> Any:
        """Start ranks of a Python program; the intercommunicator to them.

        Parameters
        ----------
        command : str
            ``sys.executable``, with a script among `args`, or a script. Looked at by the root only, as are
            `args`, `maxprocs` and `info` (hints are not heeded).
        args : str or sequence of str, optional
        maxprocs : int
            How many.
        root : int
        errcodes : list, optional
            Filled with a 0 for each.
        """
        made, counts = spawn(self, "Spawn", root, lambda: [one_wanted(command, args, maxprocs)])
        if errcodes is not None:
            errcodes[:] = [0] * counts[0]
        return made

    def Spawn_multiple(
        self,
        command: Sequence[str],
        args: Sequence[object] | None = None,
        maxprocs: Sequence[int] | int | None = None,
        info: object = None,
        root: int = 0,
        errcodes: list[list[int]] | None = None,
    ) -> Any:
        """Start ranks of several programs, which have one world; the intercommunicator to them.

        Parameters
        ----------
        command : sequence of str
        args : sequence of (str or sequence of str or None), optional
            Of each command.
        maxprocs : int or sequence of int, optional
            Of each; default: 1.
        root : int
        errcodes : list, optional
            Filled with a list for each command.
        """
        wanted = (command, args, maxprocs, info)
        made, counts = spawn(self, "Spawn_multiple", root, lambda: all_wanted(*wanted))
        if errcodes is not None:
            errcodes[:] = [[0] * count for count in counts]
        return made

    # --- persistent collectives --------------------------------------------------------------------

    def _collective_init(self, make: Maker, problem: Problem, name: str, *arguments: object) -> Prequest:
        """Agree on their own messages for the starts; what is wrong with the call is said now."""
        *given, _ = arguments  # info
        if name == "Reduce_scatter_init" and given[2] is None and not is_in_place(given[0]):
            # the ranks exchange this once, not at every start
            given[2] = counts_of(self, None, parse_simple(given[1], True).count, True)
        private = self._own_context(name, make(self, problem, name, *given).facts)
        return Prequest._of(lambda: start(private, make(self, problem, name, *given)))

    def _own_context(self, name: str, facts: dict[str, object]) -> Self:
        """Return a handle of the communicator with a context that the ranks' calls of this one share."""
        calls, shared = arrive_shared(self, name, facts)
        if "context" not in shared.made:
            shared.made["context"] = calls.hub.new_context()
        leave(name)
        private = type(self)(self)
        private._use_context(shared.made["context"])
        return private


def _new(calls: CollectiveCalls, members: list[int], topology: object = None) -> Intracomm:
    """Return a communicator with its own messages."""
    context = calls.hub.new_context()
    if topology is not None:
        calls.topologies[context] = topology
    comm = Intracomm()
    comm._become("group", context, members)
    return comm


_EXPRESSIONS = {
    "blocking": "perform(self, make(self, problem, {name!r}{rest}))",
    "nonblocking": "start(self, make(self, problem, {name!r}{rest}))",
    "persistent": "self._collective_init(make, problem, {name!r}{rest})",
}


#: nonblocking forms of these keep no reference to their buffers in mpi4py 4.1: a temporary one is freed early
_FORGETFUL = frozenset(
    ("Allgatherv", "Reduce", "Allreduce", "Reduce_scatter_block", "Reduce_scatter", "Scan", "Exscan")
)


def _method(method: Method) -> Callable[..., object]:
    problem = PROBLEMS[method.problem]
    rest = f", {method.arguments}" if method.arguments else ""
    space = {
        "perform": perform,
        "start": start,
        "make": maker_of(method),
        "problem": problem,
        "SUM": OPERATORS["SUM"],
        "__name__": __name__,
    }
    expression = _EXPRESSIONS[method.form].format(name=method.name, rest=rest)
    function = made(method, expression, space, "Intracomm")
    if method.form == "persistent" or method.base == "Alltoallw":
        return function
    shapes, starts = (problem.shapes.get("send"), problem.shapes.get("recv")), method.form == "nonblocking"
    forgets = starts and method.base in _FORGETFUL
    if problem.layout == "table":
        return quick(
            function, tables=(shapes[0] == "all") + 2 * (shapes[1] == "all"), starts=starts, forgets=forgets
        )
    return quick(function, keeps_own_block=shapes == ("one", "all"), starts=starts, forgets=forgets)


for _row in METHODS:
    if _row.problem:
        setattr(Intracomm, _row.name, _method(_row))


def _make(kind: str, context: int, cls: type[Comm] = Intracomm) -> Any:
    comm = cls()
    comm._become(kind, context)
    return comm


COMM_NULL = _make("null", 0, Comm)
COMM_WORLD: Intracomm = _make("world", 0)
COMM_SELF: Intracomm = _make("self", 2)
KNOWN.update(Comm=Comm, Intracomm=Intracomm, COMM_NULL=COMM_NULL, COMM_WORLD=COMM_WORLD, COMM_SELF=COMM_SELF)
