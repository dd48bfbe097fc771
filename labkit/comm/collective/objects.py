"""Collectives on Python objects: pickled bytes, sizes first, as mpi4py moves them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.comm.arguments import check_root
from labkit.comm.handles.operators import OPERATORS, no_operator
from labkit.comm.pickling import pickle

if TYPE_CHECKING:
    from labkit.comm.pickling import Pickle

__all__ = ["ObjectCollectives", "name_of_operator"]


_SUM = OPERATORS["SUM"]


def _split(pickle: Pickle, data: NDArray[Any], counts: list[int]) -> list[object]:
    view, ends = data.data, itertools.accumulate(counts)
    return [_load(pickle, view[end - count : end]) for count, end in zip(counts, ends, strict=True)]


def _load(pickle: Pickle, data: Any) -> object:
    return pickle.loads(data) if len(data) else None


def _join(pickle: Pickle, objects: Sequence[object] | None, size: int) -> tuple[bytes, list[int]]:
    items = [None] * size if objects is None else list(objects)
    if len(items) != size:
        raise ValueError(f"expecting {size} items, got {len(items)}")
    parts = [pickle.dumps(item) for item in items]
    return b"".join(parts), [len(part) for part in parts]


class ObjectCollectives:
    """The lower-case collectives of a communicator, made of its upper-case ones; reductions are trees."""

    rank: int
    size: int
    #: how objects become bytes
    _pickle: Pickle = pickle
    Bcast: Callable[..., None]
    Gather: Callable[..., None]
    Gatherv: Callable[..., None]
    Scatter: Callable[..., None]
    Scatterv: Callable[..., None]
    Allgather: Callable[..., None]
    Allgatherv: Callable[..., None]
    Alltoall: Callable[..., None]
    Alltoallv: Callable[..., None]
    Barrier: Callable[[], None]

    def barrier(self) -> None:
        """Wait until every rank is here."""
        self.Barrier()

    def bcast(self, obj: object, root: int = 0) -> Any:
        """Send an object from the root to all ranks."""
        count = np.zeros(1, np.int64)
        data: object = b""
        if self.rank == root:
            data = np.frombuffer(self._pickle.dumps(obj), np.uint8)
            count[0] = data.size
        self.Bcast(count, root)
        if self.rank != root:
            data = np.empty(count[0], np.uint8)
        self.Bcast(data, root)
        return _load(self._pickle, data.data if isinstance(data, np.ndarray) else data)

    def gather(self, sendobj: object, root: int = 0) -> list[Any] | None:
        """Collect one object of every rank at the root, in rank order."""
        data = self._pickle.dumps(sendobj)
        is_root = self.rank == check_root(root, self.size)
        counts = np.zeros(self.size if is_root else 0, np.int64)
        self.Gather(np.array([len(data)], np.int64), counts if is_root else None, root)
        if not is_root:
            self.Gatherv(data, None, root)
            return None
        sizes = counts.tolist()
        everything = np.empty(sum(sizes), np.uint8)
        self.Gatherv(data, [everything, sizes], root)
        return _split(self._pickle, everything, sizes)

    def scatter(self, sendobj: Sequence[object] | None, root: int = 0) -> Any:
        """Send the i-th of the root's objects to rank i."""
        is_root = self.rank == check_root(root, self.size)
        data, sizes = _join(self._pickle, sendobj, self.size) if is_root else (b"", [])
        count = np.zeros(1, np.int64)
        self.Scatter(np.array(sizes, np.int64) if is_root else None, count, root)
        mine = np.empty(count[0], np.uint8)
        self.Scatterv([data, sizes] if is_root else None, mine, root)
        return _load(self._pickle, mine.data)

    def allgather(self, sendobj: object) -> list[Any]:
        """Collect one object of every rank at every rank, in rank order."""
        data = self._pickle.dumps(sendobj)
        counts = np.zeros(self.size, np.int64)
        self.Allgather(np.array([len(data)], np.int64), counts)
        sizes = counts.tolist()
        everything = np.empty(sum(sizes), np.uint8)
        self.Allgatherv(data, [everything, sizes])
        return _split(self._pickle, everything, sizes)

    def alltoall(self, sendobj: Sequence[object]) -> list[Any]:
        """Send the i-th object to rank i; the objects received, in rank order."""
        data, sent = _join(self._pickle, sendobj, self.size)
        counts = np.zeros(self.size, np.int64)
        self.Alltoall(np.array(sent, np.int64), counts)
        received = counts.tolist()
        everything = np.empty(sum(received), np.uint8)
        self.Alltoallv([data, sent], [everything, received])
        return _split(self._pickle, everything, received)

    def reduce(self, sendobj: object, op: Any = _SUM, root: int = 0) -> Any:
        """Combine the objects in rank order; the result at the root, None elsewhere."""
        return reduce(self, sendobj, op, check_root(root, self.size), "reduce")

    def allreduce(self, sendobj: object, op: Any = _SUM) -> Any:
        """Combine the objects in rank order; the result at every rank."""
        return self.bcast(reduce(self, sendobj, op, 0, "allreduce"), 0)

    def scan(self, sendobj: object, op: Any = _SUM) -> Any:
        """Combine the objects of the ranks up to and including this one."""
        return scan(self, sendobj, op, "scan")

    def exscan(self, sendobj: object, op: Any = _SUM) -> Any:
        """Combine the objects of the ranks before this one; None at rank 0."""
        return exscan(self, sendobj, op, "exscan")


for _name, _method in vars(ObjectCollectives).items():
    if callable(_method):  # errors name the method as mpi4py does
        _method.__qualname__ = f"Comm.{_name}"
del _name, _method


# Reductions of Python objects over messages, with mpi4py's trees: rank order, any p.


_Op = Callable[[Any, Any], Any]


def name_of_operator(op: object, ranks: int) -> str:
    """Return the name of an operator of MPI; a function may be another object at every rank."""
    if not callable(op) and ranks > 1:  # one rank has nothing to combine, and mpi4py does not look
        raise no_operator(op, ", or a function of two objects")
    return str(getattr(op, "_constant", None) or "a function")


def _copy(comm: Any, obj: object) -> object:
    return comm._pickle.loads(comm._pickle.dumps(obj))


def _send(pickle: Pickle, private: Any, obj: object, peer: int, tag: int) -> None:
    """Send the size, then the bytes."""
    data = pickle.dumps(obj)
    private.Send(np.array([len(data)], np.int64), peer, tag)
    private.Send(data, peer, tag)


def _receive(pickle: Pickle, private: Any, peer: int, tag: int) -> Any:
    size = np.empty(1, np.int64)
    private.Recv(size, peer, tag)
    data = bytearray(int(size[0]))
    private.Recv(data, peer, tag)
    return pickle.loads(data)


def _exchange(pickle: Pickle, private: Any, obj: object, peer: int, tag: int) -> object:
    data = pickle.dumps(obj)
    size = np.empty(1, np.int64)
    private.Sendrecv(np.array([len(data)], np.int64), peer, tag, size, peer, tag)
    received = bytearray(int(size[0]))
    private.Sendrecv(data, peer, tag, received, peer, tag)
    return pickle.loads(received)


def reduce(comm: Any, sendobj: object, op: _Op, root: int, name: str) -> Any:
    """Reduce over a binomial tree to rank 0, then send to the root.

    Parameters
    ----------
    comm : Intracomm
    sendobj : object
    op : callable
        ``op(left, right)``.
    root : int
    name : str
        The collective, for reports.
    """
    private, tag = comm._private(name, root, name_of_operator(op, comm.size))
    rank, size = comm.rank, comm.size
    result = _copy(comm, sendobj)
    mask = 1
    while mask < size:
        if rank & mask:
            _send(comm._pickle, private, result, rank & ~mask, tag)
            break
        if rank | mask < size:
            result = op(result, _receive(comm._pickle, private, rank | mask, tag))
        mask <<= 1
    if root != 0:
        if rank == 0:
            _send(comm._pickle, private, result, root, tag)
        elif rank == root:
            result = _receive(comm._pickle, private, 0, tag)
    comm._leave(name)
    return result if rank == root else None


def _prefixes(comm: Any, sendobj: object, op: _Op, name: str, result: object, is_inclusive: bool) -> object:
    private, tag = comm._private(name, 0, name_of_operator(op, comm.size))
    rank, size = comm.rank, comm.size
    partial = _copy(comm, sendobj)
    is_empty = not is_inclusive
    if is_inclusive:
        result = partial
    mask = 1
    while mask < size:
        peer = rank ^ mask
        if peer < size:
            other = _exchange(comm._pickle, private, partial, peer, tag)
            if rank > peer:
                partial = op(other, partial)
                result = other if is_empty else op(other, result)
                is_empty = False
            else:
                partial = op(partial, other)
        mask <<= 1
    comm._leave(name)
    return result


def scan(comm: Any, sendobj: object, op: _Op, name: str) -> Any:
    """Combine the objects of ranks 0 to this one, by recursive doubling."""
    return _prefixes(comm, sendobj, op, name, None, True)


def exscan(comm: Any, sendobj: object, op: _Op, name: str) -> Any:
    """Combine the objects of the ranks before this one; None at rank 0."""
    return _prefixes(comm, sendobj, op, name, None, False)
