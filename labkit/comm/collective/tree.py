"""Reductions of Python objects over messages, with mpi4py's trees: rank order, any p.

Objects have no size that all ranks know, so no schedule of blocks can carry them. A communicator says by
``_pickle`` how they become bytes, by ``_private(name, root)`` where their messages travel, and is told by
``_leave(name)`` that they have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from labkit.comm.handles.operators import no_operator

__all__ = ["exscan", "reduce", "scan"]

_Op = Callable[[Any, Any], Any]


def _named(op: Any, ranks: int) -> str:
    """Name of an operator of MPI; what the program made itself may be another object at every rank."""
    if not callable(op) and ranks > 1:  # one rank has nothing to combine, and mpi4py does not look
        raise no_operator(op, ", or a function of two objects")
    return str(getattr(op, "_constant", None) or "a function")


def _copy(comm: Any, obj: Any) -> Any:
    return comm._pickle.loads(comm._pickle.dumps(obj))


def _send(pickle: Any, private: Any, obj: Any, peer: int, tag: int) -> None:
    """Send the size, then the bytes."""
    data = pickle.dumps(obj)
    private.Send(np.array([len(data)], np.int64), peer, tag)
    private.Send(data, peer, tag)


def _receive(pickle: Any, private: Any, peer: int, tag: int) -> Any:
    size = np.empty(1, np.int64)
    private.Recv(size, peer, tag)
    data = bytearray(int(size[0]))
    private.Recv(data, peer, tag)
    return pickle.loads(data)


def _exchange(pickle: Any, private: Any, obj: Any, peer: int, tag: int) -> Any:
    data = pickle.dumps(obj)
    size = np.empty(1, np.int64)
    private.Sendrecv(np.array([len(data)], np.int64), peer, tag, size, peer, tag)
    received = bytearray(int(size[0]))
    private.Sendrecv(data, peer, tag, received, peer, tag)
    return pickle.loads(received)


def reduce(comm: Any, sendobj: Any, op: _Op, root: int, name: str) -> Any:
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
    private, tag = comm._private(name, root, _named(op, comm.size))
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


def _prefixes(comm: Any, sendobj: Any, op: _Op, name: str, result: Any, is_inclusive: bool) -> Any:
    private, tag = comm._private(name, 0, _named(op, comm.size))
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


def scan(comm: Any, sendobj: Any, op: _Op, name: str) -> Any:
    """Combine the objects of ranks 0 to this one, by recursive doubling."""
    return _prefixes(comm, sendobj, op, name, None, True)


def exscan(comm: Any, sendobj: Any, op: _Op, name: str) -> Any:
    """Combine the objects of the ranks before this one; None at rank 0."""
    return _prefixes(comm, sendobj, op, name, None, False)
