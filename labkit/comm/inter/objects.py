"""Collectives on Python objects between two groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce as folded
from typing import Any

from labkit.comm.handles.constants import PROC_NULL, ROOT
from labkit.comm.handles.operators import OPERATORS

__all__ = ["GroupObjects"]

_SUM = OPERATORS["SUM"]


class GroupObjects:
    """The lower-case collectives of an intercommunicator: messages from origin to destination."""

    remote_size: int
    _private: Callable[[str, int], tuple[Any, int]]
    _leave: Callable[[str], None]
    _side: Callable[[int], int]
    Barrier: Callable[[], None]

    def _objects(self, name: str, sent: list[tuple[Any, int]], sources: Sequence[int]) -> list[Any]:
        """Send objects to ranks of the other group; those received, in the order of their sources."""
        private, tag = self._private(name, 0)
        requests = [private.isend(item, peer, tag) for item, peer in sent]
        received = [private.recv(None, source, tag) for source in sources]
        for request in requests:
            request.wait()
        self._leave(name)
        return received

    def _to_root(self, name: str, sendobj: Any, root: int) -> list[Any] | None:
        if root == ROOT:
            return self._objects(name, [], range(self.remote_size))
        self._objects(name, [] if root == PROC_NULL else [(sendobj, self._side(root))], [])
        return None

    def barrier(self) -> None:
        """Wait until every rank of the other group is here."""
        self.Barrier()

    def bcast(self, obj: Any = None, root: int = 0) -> Any:
        """Send an object from the root to everybody in the other group."""
        if root == ROOT:
            self._objects("bcast", [(obj, peer) for peer in range(self.remote_size)], [])
            return None
        found = self._objects("bcast", [], [] if root == PROC_NULL else [self._side(root)])
        return found[0] if found else None

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        """Collect one object of every rank of the other group at the root."""
        return self._to_root("gather", sendobj, root)

    def scatter(self, sendobj: Sequence[Any] | None = None, root: int = 0) -> Any:
        """Send the i-th of the root's objects to rank i of the other group."""
        if root == ROOT:
            self._objects("scatter", self._each(sendobj), [])
            return None
        if root == PROC_NULL:
            self._objects("scatter", [], [])
            return None
        return self._objects("scatter", [], [self._side(root)])[0]

    def _each(self, sendobj: Sequence[Any] | None) -> list[tuple[Any, int]]:
        items = [None] * self.remote_size if sendobj is None else list(sendobj)
        if len(items) != self.remote_size:
            raise ValueError(f"expecting {self.remote_size} items, got {len(items)}")
        return list(zip(items, range(self.remote_size), strict=True))

    def allgather(self, sendobj: Any) -> list[Any]:
        """Collect one object of every rank of the other group at every rank."""
        everybody = range(self.remote_size)
        return self._objects("allgather", [(sendobj, peer) for peer in everybody], everybody)

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        """Send the i-th object to rank i of the other group; the objects received."""
        return self._objects("alltoall", self._each(sendobj), range(self.remote_size))

    def reduce(self, sendobj: Any, op: Any = _SUM, root: int = 0) -> Any:
        """Combine the other group's objects in rank order; the result at the root."""
        found = self._to_root("reduce", sendobj, root)
        return None if found is None else folded(op, found)

    def allreduce(self, sendobj: Any, op: Any = _SUM) -> Any:
        """Combine the other group's objects in rank order; the result at every rank."""
        everybody = range(self.remote_size)
        found = self._objects("allreduce", [(sendobj, peer) for peer in everybody], everybody)
        return folded(op, found)
