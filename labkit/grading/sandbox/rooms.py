"""The rooms that a rank's receives have: what does not fit is an error there, and has brought nothing."""

from __future__ import annotations

from typing import Any

from labkit.grading.sandbox.asked import whole
from labkit.grading.sandbox.budget import Budget
from labkit.grading.sandbox.wire import MOST_PAYLOAD_BYTES

__all__ = ["Rooms"]


class Rooms:
    """Of one rank. The grader receives whole messages, and hands the rank what it has room for.

    Parameters
    ----------
    rank : int
    budget : Budget
        Counts the rooms of open receives.

    Attributes
    ----------
    cut : list of tuple
        The messages that did not fit: source, destination, tag, bytes.
    """

    def __init__(self, rank: int, budget: Budget) -> None:
        self.rank, self.budget = rank, budget
        self.cut: list[tuple[int, int, int, int]] = []
        self._open: dict[int, tuple[int, Any]] = {}

    def set_aside(self, room: Any) -> int:
        """Return the room of a receive that is about to be posted.

        Raises
        ------
        ValueError, TypeError
            It is none.
        SubmissionFailure
            There are too many.
        """
        if not 0 <= whole(room) <= MOST_PAYLOAD_BYTES:
            raise ValueError(f"a receive of {room} bytes")
        self.budget.set_aside(self.rank, room)
        return int(room)

    def open(self, number: int, room: int, comm: Any) -> None:
        """Note the room of a request."""
        self._open[number] = room, comm

    def close(self, number: int, data: Any, status: Any) -> Any:
        """Return what of its message a request that is over has room for; of another one what there is."""
        if number not in self._open:
            return data or b""
        room, comm = self._open.pop(number)
        self.budget.room_bytes -= room
        return self.fitting(data, room, comm, status)

    def fitting(self, data: Any, room: Any, comm: Any, status: Any) -> Any:
        """Return what of a message there is room for; None: for all of it."""
        data = data or b""
        if room is None or len(data) <= whole(room):
            return data
        self.cut.append((comm._world_ranks()[status.source], self.rank, int(status.tag), len(data)))
        return data[: max(room, 0)]
