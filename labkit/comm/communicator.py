"""Communicators: the compiled point-to-point half, completed with the collectives."""

from __future__ import annotations

from typing import Any, NoReturn

from labkit import _kernels
from labkit.comm import names
from labkit.comm.attributes import Attributes
from labkit.comm.collective.collectives import BufferCollectives
from labkit.comm.collective.native import arrive, leave
from labkit.comm.collective.objects import ObjectCollectives
from labkit.comm.collective.persistent import PersistentMessages
from labkit.comm.create import CommunicatorMaking
from labkit.comm.environment import abort
from labkit.comm.handles.base import MODULE_NAME, Handle
from labkit.comm.handles.errhandlers import ErrorHandling
from labkit.comm.known import KNOWN, constant_of
from labkit.comm.pairs import BundledMessages

__all__ = ["COMM_NULL", "COMM_SELF", "COMM_WORLD", "Comm", "Intracomm"]


class Comm(Attributes, ErrorHandling, PersistentMessages, BundledMessages, Handle, _kernels.CommBase):
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

    def Is_inter(self) -> bool:
        """Whether it joins two groups: never, so far."""
        return False

    def Is_intra(self) -> bool:
        """Whether it is one group."""
        return True

    is_inter = property(Is_inter, doc="Whether it joins two groups.")
    is_intra = property(Is_intra, doc="Whether it is one group.")

    def Abort(self, errorcode: int = 0) -> NoReturn:
        """End the whole run."""
        abort(errorcode)


class Intracomm(
    BufferCollectives,
    ObjectCollectives,
    CommunicatorMaking,
    Comm,
):
    """A communicator of one group."""

    __module__ = MODULE_NAME

    def _private(self, name: str, root: int) -> tuple[Comm, int]:
        """Return the communicator and tag of a collective that is made of messages of its own."""
        number = arrive(self, name, {"root": root})
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
KNOWN.update(Intracomm=Intracomm, COMM_NULL=COMM_NULL, COMM_WORLD=COMM_WORLD, COMM_SELF=COMM_SELF)
