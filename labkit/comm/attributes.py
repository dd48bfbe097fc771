"""Attributes of a communicator: its group, its name, its topology, MPI's own attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit import context
from labkit.comm.handles.constants import UNDEFINED, attribute_values
from labkit.comm.handles.errhandlers import Errhandler, ErrorHandling
from labkit.comm.handles.errorcodes import codes_in_use
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.groups import Group
from labkit.comm.handles.info import Info
from labkit.comm.handles.keyvals import Keyed
from labkit.comm.known import constant_of

__all__ = ["Attributes"]

_ERR_COMM = 5
_IDENT, _CONGRUENT, _SIMILAR, _UNEQUAL = 0, 1, 2, 3


class Attributes(Keyed, ErrorHandling):
    """Group, name and attributes of a communicator, as each rank sees them."""

    _attribute_kind = "Comm"
    _context: int
    _world_ranks: Callable[[], list[int]]

    def _own(self) -> dict[Any, Any]:
        """Return what this rank has noted on the communicator."""
        running = context.simulated()
        if running is None:
            return {}
        calls = running.calls
        own: dict[Any, Any] = calls.attributes.setdefault((self._context, calls.hub.rank), {})
        return own

    def _check(self) -> None:
        """Refuse a null handle."""
        if not self:
            raise MPIException(_ERR_COMM, "this is COMM_NULL, or a communicator that has been freed")

    def Get_errhandler(self) -> Errhandler:
        """Return the handler; at first ERRORS_RETURN, which mpi4py sets: errors are raised."""
        self._check()
        return super().Get_errhandler()

    def Set_errhandler(self, errhandler: Errhandler) -> None:
        """Set the handler. Errors are raised in any case."""
        self._check()
        super().Set_errhandler(errhandler)

    def Get_name(self) -> str:
        """Name of the communicator: MPI's own have one, others until given have an empty one."""
        constant = constant_of(self)
        name: str = self._own().get("name", f"MPI_{constant}" if constant else "")
        return name

    def Set_name(self, name: str) -> None:
        """Give it a name; every rank names for itself."""
        self._own()["name"] = str(name)

    name = property(Get_name, Set_name, doc="Name of the communicator.")

    def Get_info(self) -> Info:
        """Return a copy of the hints that this rank has set."""
        return Info.Create(dict(self._own().get("info", {})))

    def Set_info(self, info: Info) -> None:
        """Keep hints; nothing looks at them."""
        self._own()["info"] = dict(info.items())

    info = property(Get_info, Set_info, doc="Hints that this rank has set.")

    def Get_topology(self) -> int:
        """Kind of its topology: CART, GRAPH, DIST_GRAPH, or UNDEFINED for none."""
        self._check()
        running = context.simulated()
        topology = None if running is None else running.calls.topologies.get(self._context)
        return UNDEFINED if topology is None else int(topology.kind)

    topology = property(Get_topology, doc="Kind of its topology: CART, GRAPH, DIST_GRAPH, or UNDEFINED.")
    is_topo = property(lambda self: self.Get_topology() != UNDEFINED, doc="Whether it has a topology.")

    def Get_attr(self, keyval: int) -> Any:
        """Value under a key, a predefined one (TAG_UB, IO...) or of the program's own; None: there is none.

        Raises
        ------
        MPI.Exception
            ERR_KEYVAL for a key that there is not.
        """
        self._check()
        running = context.simulated()
        values = attribute_values(1 if running is None else running.size, codes_in_use().last)
        return values[keyval] if keyval in values else super().Get_attr(keyval)

    def _kept(self) -> dict[int, Any]:
        """Return the attributes that the program has set."""
        self._check()
        kept: dict[int, Any] = self._own().setdefault("attributes", {})
        return kept

    def Get_group(self) -> Group:
        """Return the group of its ranks."""
        return Group._of(tuple(self._world_ranks()))

    group = property(Get_group, doc="The group of its ranks.")

    def Compare(self, comm: Any) -> int:
        """Compare with another: IDENT, CONGRUENT (same ranks), SIMILAR (other order) or UNEQUAL."""
        self._check()
        comm._check()
        if self == comm:
            return _IDENT
        first, second = self._world_ranks(), comm._world_ranks()
        if first == second:
            return _CONGRUENT
        return _SIMILAR if sorted(first) == sorted(second) else _UNEQUAL
