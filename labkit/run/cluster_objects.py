"""Collectives on Python objects that an interrupt can end: sizes first, then the pickles themselves.

Pickled messages have sizes that the other ranks do not know, so each call is two nonblocking collectives.
Reductions are computed in rank order on one rank, so that all ranks get the same value.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI as MPI4PY

from labkit.run.cluster_waits import finish

__all__ = ["ObjectCollectives"]

#: untyped: names of the module are replaced during a run, and classes mixed into its own
MPI: Any = MPI4PY

_Comm = MPI.Comm


class ObjectCollectives:
    """The lower-case collectives of an intracommunicator."""

    rank: int
    size: int

    def barrier(self) -> None:
        """Wait for all ranks."""
        finish(_Comm.Ibarrier(self))

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """Return the root's object on every rank."""
        data = _dumps(obj) if self.rank == root else b""
        size = np.array([len(data)])
        finish(_Comm.Ibcast(self, size, root))
        buffer = bytearray(data) if self.rank == root else bytearray(int(size[0]))
        finish(_Comm.Ibcast(self, [buffer, MPI.BYTE], root))
        return obj if self.rank == root else _loads(buffer)

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        """Return the objects of all ranks on the root."""
        data = _dumps(sendobj)
        is_root = self.rank == root
        sizes = np.zeros(self.size, dtype=np.int64) if is_root else None
        finish(_Comm.Igather(self, np.array([len(data)]), sizes, root))
        if sizes is None:
            finish(_Comm.Igatherv(self, [data, MPI.BYTE], None, root))
            return None
        parts = _Parts(sizes)
        finish(_Comm.Igatherv(self, [data, MPI.BYTE], parts.spec(), root))
        return parts.objects()

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        """Return the root's object number r on rank r."""
        size = np.zeros(1, dtype=np.int64)
        parts = None
        if self.rank == root:
            parts = _Parts.of(_checked(sendobj, self.size))
        finish(_Comm.Iscatter(self, parts.sizes if parts else None, size, root))
        buffer = bytearray(int(size[0]))
        finish(_Comm.Iscatterv(self, parts.spec() if parts else None, [buffer, MPI.BYTE], root))
        return _loads(buffer)

    def allgather(self, sendobj: Any) -> list[Any]:
        """Return the objects of all ranks on every rank."""
        data = _dumps(sendobj)
        parts = _Parts(np.zeros(self.size, dtype=np.int64), fill=False)
        finish(_Comm.Iallgather(self, np.array([len(data)]), parts.sizes))
        parts.fill()
        finish(_Comm.Iallgatherv(self, [data, MPI.BYTE], parts.spec()))
        return parts.objects()

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        """Send object number r to rank r, and return what each rank has sent."""
        send = _Parts.of(_checked(sendobj, self.size))
        receive = _Parts(np.zeros(self.size, dtype=np.int64), fill=False)
        finish(_Comm.Ialltoall(self, send.sizes, receive.sizes))
        receive.fill()
        finish(_Comm.Ialltoallv(self, send.spec(), receive.spec()))
        return receive.objects()

    # -- reductions ---------------------------------------------------------------------------------------

    def reduce(self, sendobj: Any, op: Callable[[Any, Any], Any] = MPI.SUM, root: int = 0) -> Any:
        """Return the reduction over all ranks on the root."""
        things = self.gather(sendobj, root)
        return None if things is None else functools.reduce(op, things)

    def allreduce(self, sendobj: Any, op: Callable[[Any, Any], Any] = MPI.SUM) -> Any:
        """Return the reduction over all ranks on every rank."""
        return self.bcast(self.reduce(sendobj, op))

    def scan(self, sendobj: Any, op: Callable[[Any, Any], Any] = MPI.SUM) -> Any:
        """Return the reduction over the ranks up to and with this one."""
        things = self.gather(sendobj)
        return self.scatter(None if things is None else list(itertools.accumulate(things, op)))

    def exscan(self, sendobj: Any, op: Callable[[Any, Any], Any] = MPI.SUM) -> Any:
        """Return the reduction over the ranks before this one; None on rank 0."""
        things = self.gather(sendobj)
        before = None if things is None else [None, *itertools.accumulate(things[:-1], op)]
        return self.scatter(before)


class _Parts:
    """Pickles one behind the other in one buffer."""

    def __init__(self, sizes: np.ndarray[Any, Any], fill: bool = True) -> None:
        self.sizes = sizes
        self.data = bytearray()
        self.begins = np.zeros(len(sizes), dtype=np.int64)
        if fill:
            self.fill()

    @classmethod
    def of(cls, things: Sequence[Any]) -> _Parts:
        """Pickle objects."""
        pickles = [_dumps(thing) for thing in things]
        parts = cls(np.array([len(one) for one in pickles], dtype=np.int64))
        parts.data = bytearray(b"".join(pickles))
        return parts

    def fill(self) -> None:
        """Make room for what the sizes say."""
        ends = np.cumsum(self.sizes)
        self.begins = ends - self.sizes
        self.data = bytearray(int(ends[-1]) if len(ends) else 0)

    def spec(self) -> list[Any]:
        """Return the buffer as mpi4py takes it."""
        return [self.data, (self.sizes.tolist(), self.begins.tolist()), MPI.BYTE]

    def objects(self) -> list[Any]:
        """Unpickle."""
        view = memoryview(self.data)
        pairs = zip(self.begins.tolist(), self.sizes.tolist(), strict=True)
        return [_loads(view[begin : begin + size]) for begin, size in pairs]


def _dumps(thing: Any) -> bytes:
    return MPI.pickle.dumps(thing)  # type: ignore[no-any-return]


def _loads(data: Any) -> Any:
    return MPI.pickle.loads(data)


def _checked(things: Sequence[Any] | None, wanted: int) -> Sequence[Any]:
    if things is None or len(things) != wanted:
        raise ValueError(f"expecting {wanted} items, got {'None' if things is None else len(things)}")
    return things
