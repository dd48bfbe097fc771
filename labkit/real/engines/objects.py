"""Collectives on Python objects that an interrupt can end: sizes first, then the pickles themselves.

Pickled messages have sizes that the other ranks do not know, so each call is two nonblocking collectives.
Reductions are mpi4py's: trees of messages in a communicator of their own, so that results are the same as on
``on="mpi"`` to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI as MPI4PY

from labkit.real.engines.waits import finish, keep

__all__ = ["ObjectCollectives", "take_contexts"]

#: untyped: names of the module are replaced during a run, and classes mixed into its own
MPI: Any = MPI4PY

_Comm = MPI.Comm
_pickle = MPI.pickle

#: duplicates in which reductions exchange their messages, by the handle of the communicator
_contexts: dict[int, Any] = {}


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
        return _loads(buffer)  # as mpi4py: a copy on the root, too

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
        """Return the reduction over all ranks on the root: a binomial tree to rank 0, which sends it on."""
        result, context, mask = _copy(sendobj), _context(self), 1
        while mask < self.size:
            if self.rank & mask:
                _send(context, result, self.rank & ~mask)
                break
            if self.rank | mask < self.size:
                result = op(result, _receive(context, self.rank | mask))
            mask <<= 1
        if root != 0 and self.rank == 0:
            _send(context, result, root)
        elif root != 0 and self.rank == root:
            result = _receive(context, 0)
        return result if self.rank == root else None

    def allreduce(self, sendobj: Any, op: Callable[[Any, Any], Any] = MPI.SUM) -> Any:
        """Return the reduction over all ranks on every rank."""
        return self.bcast(self.reduce(sendobj, op))

    def scan(self, sendobj: Any, op: Callable[[Any, Any], Any] = MPI.SUM) -> Any:
        """Return the reduction over the ranks up to and with this one."""
        result = partial = _copy(sendobj)
        for other, received in self._exchanged(partial, op):
            if self.rank > other:
                result = op(received, result)
        return result

    def exscan(self, sendobj: Any, op: Callable[[Any, Any], Any] = MPI.SUM) -> Any:
        """Return the reduction over the ranks before this one; None on rank 0."""
        result: Any = None
        is_first = True
        for other, received in self._exchanged(_copy(sendobj), op):
            if self.rank > other:
                result, is_first = received if is_first else op(received, result), False
        return result

    def _exchanged(self, partial: Any, op: Callable[[Any, Any], Any]) -> Iterator[tuple[int, Any]]:
        """Exchange partial reductions by recursive doubling; say with whom, and what came."""
        context, mask = _context(self), 1
        while mask < self.size:
            other = self.rank ^ mask
            if other < self.size:
                received = _exchange(context, partial, other)
                yield other, received
                partial = op(received, partial) if self.rank > other else op(partial, received)
            mask <<= 1


def _context(comm: Any) -> Any:
    """Return the duplicate of a communicator for its reductions' messages; all ranks make it at once."""
    if comm.handle not in _contexts:
        made, request = _Comm.Idup(comm)
        finish(request)
        _contexts[comm.handle] = made
    return _contexts[comm.handle]


def take_contexts(comm: Any = None) -> list[Any]:
    """Return what reductions have made for a communicator, or for all, and forget it."""
    handles = list(_contexts) if comm is None else [comm.handle]
    return [_contexts.pop(handle) for handle in handles if handle in _contexts]


def _copy(thing: Any) -> Any:
    """Copy an object, as mpi4py does before it reduces."""
    return _loads(_dumps(thing))


def _send(context: Any, thing: Any, to: int) -> None:
    data = _dumps(thing)
    finish(_Comm.Isend(context, np.array([len(data)]), to))
    finish(_Comm.Isend(context, [data, MPI.BYTE], to))


def _receive(context: Any, source: int) -> Any:
    size = np.zeros(1, np.int64)
    finish(_Comm.Irecv(context, size, source))
    buffer = bytearray(int(size[0]))
    finish(_Comm.Irecv(context, [buffer, MPI.BYTE], source))
    return _loads(buffer)


def _exchange(context: Any, thing: Any, other: int) -> Any:
    """Send an object to a rank that sends one, too: the sizes at the same time, then the objects."""
    data, size = _dumps(thing), np.zeros(1, np.int64)
    _together(context, other, np.array([len(data)]), size)
    buffer = bytearray(int(size[0]))
    _together(context, other, [data, MPI.BYTE], [buffer, MPI.BYTE])
    return _loads(buffer)


def _together(context: Any, other: int, sent: Any, received: Any) -> None:
    request = _Comm.Isend(context, sent, other)
    try:
        finish(_Comm.Irecv(context, received, other))
    except BaseException:
        keep(request)
        raise
    finish(request)


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
    return _pickle.dumps(thing)  # type: ignore[no-any-return]


def _loads(data: Any) -> Any:
    return _pickle.loads(data)


def _checked(things: Sequence[Any] | None, wanted: int) -> Sequence[Any]:
    if things is None or len(things) != wanted:
        raise ValueError(f"expecting {wanted} items, got {'None' if things is None else len(things)}")
    return things
