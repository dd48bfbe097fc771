"""Persistent collectives of a simulated run: what a start begins, and which starts of the ranks are one."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Persistent", "PersistentCollectives"]

#: from here down their numbers, among those of communicators
_FIRST = -(1 << 40)


class Persistent(NamedTuple):
    """A persistent collective of a rank.

    Attributes
    ----------
    name : str
        Of the collective, as in ``"Allreduce"``.
    comm : Comm
    root : int or None
        In the communicator.
    n_bytes : int
        What the rank gives.
    number : int
        The same for all ranks that made it together; their n-th starts are one collective.
    """

    name: str
    comm: Any
    root: int | None
    n_bytes: int
    number: int


class PersistentCollectives:
    """Those of all ranks."""

    def __init__(self) -> None:
        self._of: dict[Any, Persistent] = {}
        self._made: dict[tuple[int, int], int] = {}
        self._numbers: dict[tuple[int, int], int] = {}

    def described(
        self, rank: int, request: Any, name: str, comm: Any, root: int | None, n_bytes: int
    ) -> None:
        """Note one that a rank has made: all ranks make a communicator's in the same order."""
        context = int(comm._context)
        nth = self._made[rank, context] = self._made.get((rank, context), -1) + 1
        number = self._numbers.setdefault((context, nth), _FIRST - len(self._numbers))
        self._of[request._begin] = Persistent(name, comm, root, n_bytes, number)

    def of(self, request: Any) -> Persistent | None:
        """Return what was noted of a request; None where it is no collective's."""
        return self._of.get(getattr(request, "_begin", None))
