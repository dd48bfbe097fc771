"""Communicators: the compiled point-to-point half, completed with the collectives."""

from __future__ import annotations

from typing import Any, NoReturn

from labkit import _kernels, context
from labkit.comm import names
from labkit.comm.attributes import Attributes
from labkit.comm.buffering import Buffering
from labkit.comm.collective.collectives import BufferCollectives
from labkit.comm.collective.native import arrive, leave
from labkit.comm.collective.objects import ObjectCollectives
from labkit.comm.collective.persistent import PersistentMessages
from labkit.comm.create import CommunicatorMaking
from labkit.comm.environment import abort
from labkit.comm.faults import FaultTolerance
from labkit.comm.handles.base import MODULE_NAME, Handle
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.inter.ports import Joining, Meeting
from labkit.comm.inter.spawning import Spawning, parent
from labkit.comm.known import KNOWN, constant_of
from labkit.comm.pairs import BundledMessages
from labkit.comm.partitioned import PartitionedMessages

__all__ = ["COMM_NULL", "COMM_SELF", "COMM_WORLD", "Comm", "Intracomm"]


_ERR_COMM = 5


class Comm(
    Attributes,
    PersistentMessages,
    PartitionedMessages,
    BundledMessages,
    Buffering,
    FaultTolerance,
    Joining,
    Handle,
    _kernels.CommBase,
):
    """A group of ranks that communicate; the running rank is found when a method is called.

    Attributes
    ----------
    rank, size : int
    """

    __module__ = MODULE_NAME
    __hash__ = None  # type: ignore[assignment]
    _known = names.COMM

    def __repr__(self) -> str:
        constant = constant_of(self)
        return (
            f"labkit.MPI.{constant}"
            if constant
            else f"<labkit.MPI.{type(self).__name__} of {self.size} ranks>"
        )

    def __reduce__(self) -> Any:
        constant = constant_of(self)
        if constant is None:
            raise ValueError("cannot pickle a communicator that the program made itself")
        original = KNOWN[constant]
        return constant if self is original else (type(self), (original,))

    def _identity(self) -> Any:
        running = context.simulated()
        return bool(self), self._context, None if running is None else running.calls.hub.rank

    def Is_inter(self) -> bool:
        """Whether it joins two groups."""
        self._check()
        return self._remote_ranks() is not None

    def Is_intra(self) -> bool:
        """Whether it is one group."""
        return not self.Is_inter()

    def Get_remote_group(self) -> Any:
        """Refuse: there is one group only."""
        raise MPIException(_ERR_COMM, "this communicator has one group; an intercommunicator has two")

    def Get_remote_size(self) -> int:
        """Refuse: there is one group only."""
        raise MPIException(_ERR_COMM, "this communicator has one group; an intercommunicator has two")

    remote_group = property(Get_remote_group, doc="The other group, of an intercommunicator.")
    remote_size = property(Get_remote_size, doc="Ranks in the other group, of an intercommunicator.")

    is_inter = property(Is_inter, doc="Whether it joins two groups.")
    is_intra = property(Is_intra, doc="Whether it is one group.")

    @classmethod
    def Get_parent(cls) -> Any:
        """Return the communicator to the ranks that have spawned this one; COMM_NULL where nobody has."""
        return parent()

    def Abort(self, errorcode: int = 0) -> NoReturn:
        """End the whole run."""
        abort(errorcode)


class Intracomm(
    BufferCollectives,
    ObjectCollectives,
    CommunicatorMaking,
    Meeting,
    Spawning,
    Comm,
):
    """A communicator of one group."""

    __module__ = MODULE_NAME

    def __init__(self, comm: Comm | None = None) -> None:
        if self._remote_ranks() is not None:
            raise TypeError("expecting an intracommunicator")

    def _private(self, name: str, root: int, op: str = "") -> tuple[Comm, int]:
        """Return the communicator and tag of a collective that is made of messages of its own."""
        number = arrive(self, name, {"root": root, "op": op} if op else {"root": root})
        private = Comm(self)  # type: ignore[call-arg]
        private._use_private_context()
        return private, number & 0x3FFFFFFF | 0x40000000

    def _leave(self, name: str) -> None:
        """Note that this rank is through such a collective."""
        leave(name)


def _make(kind: str, context: int, cls: type[Comm] = Intracomm) -> Any:
    comm = cls()
    comm._become(kind, context)
    return comm


COMM_NULL = _make("null", 0, Comm)
COMM_WORLD: Intracomm = _make("world", 0)
COMM_SELF: Intracomm = _make("self", 2)
KNOWN.update(Comm=Comm, Intracomm=Intracomm, COMM_NULL=COMM_NULL, COMM_WORLD=COMM_WORLD, COMM_SELF=COMM_SELF)
