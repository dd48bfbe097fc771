"""New communicators from old ones: Dup, Split, Create... and their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from labkit.comm.constants import UNDEFINED
from labkit.comm.exceptions import Exception as MPIException
from labkit.comm.native import arrive_shared, leave

__all__ = ["CommunicatorMaking"]

_IDENT, _CONGRUENT, _SIMILAR, _UNEQUAL = 0, 1, 2, 3


class CommunicatorMaking:
    """How communicators are made, compared and freed."""

    rank: int
    size: int
    allgather: Callable[[Any], list[Any]]
    Barrier: Callable[[], None]
    _world_ranks: Callable[[], list[int]]
    _become: Callable[..., None]

    def Dup(self, info: Any = None) -> Any:
        """Return a communicator of the same ranks, with messages of its own."""
        return self._derive("Dup", 0, self._world_ranks)

    def Clone(self) -> Any:
        """Return a duplicate."""
        return self._derive("Clone", 0, self._world_ranks)

    def Split(self, color: int = 0, key: int = 0) -> Any:
        """Return a communicator of the ranks with the same color, ordered by key, then by rank.

        With color UNDEFINED the result is COMM_NULL.
        """
        if color < 0 and color != UNDEFINED:
            raise MPIException(13, f"color={color} is not allowed: colors are 0 or more, or UNDEFINED")
        rows = self.allgather((int(color), int(key)))
        same = sorted((row[1], rank) for rank, row in enumerate(rows) if row[0] == color)
        world = self._world_ranks()
        return self._derive("Split", color, lambda: [world[rank] for _, rank in same])

    def _derive(self, name: str, color: int, members: Callable[[], list[int]]) -> Any:
        """Agree on a communicator: all ranks of one color share one, made by the first that comes."""
        from labkit.comm.communicator import COMM_NULL, Intracomm

        calls, shared = arrive_shared(self, name, {})
        made: dict[int, Any] = shared.made
        if color not in made:
            comm = Intracomm()
            comm._become("group", calls.hub.new_context(), members())
            made[color] = comm
        leave(name)
        if name != "Split":  # the ranks agree on a context; in Split the colors have done so
            self.Barrier()
        return Intracomm(COMM_NULL if color == UNDEFINED else made[color])  # type: ignore[call-arg]

    def Free(self) -> None:
        """Give a communicator back; the handle becomes COMM_NULL."""
        from labkit.comm.communicator import constant_of

        name = constant_of(self)
        if name is not None:
            raise MPIException(5, f"{name} cannot be freed")
        self.Barrier()
        self._become("null", 0)

    free = Free
    Disconnect = Free

    @classmethod
    def Compare(cls, comm1: Any, comm2: Any) -> int:
        """Compare two communicators: IDENT, CONGRUENT (same ranks), SIMILAR (other order) or UNEQUAL."""
        if comm1 == comm2:
            return _IDENT
        first, second = comm1._world_ranks(), comm2._world_ranks()
        if first == second:
            return _CONGRUENT
        return _SIMILAR if sorted(first) == sorted(second) else _UNEQUAL
