"""Requests of a submission's communicator: the grader holds the real ones, by number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit.comm.handles.constants import UNDEFINED
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.status import Status
from labkit.comm.pickling import pickle
from labkit.comm.surface import ANSWERS, REQUESTS, Method, add_methods

if TYPE_CHECKING:
    from labkit.grading.sandbox.caller import Caller

__all__ = ["RemotePrequest", "RemoteRequest", "deliver", "fill_status"]

_ERR_REQUEST, _ERR_TRUNCATE = 7, 15
#: what to type where an object is too long, as in runs that are not graded
MORE_ROOM = "; give the receive more room, as its first argument: irecv(bytearray(1 << 20), ...)"
#: positions and objects
_Over = tuple[list[int], list[Any]]


def fill_status(status: Status | None, row: Sequence[int] | None) -> None:
    """Write source, tag and bytes into a status."""
    if status is not None and row is not None:
        status.__setstate__((row[0], row[1], 0, row[2], False))


def deliver(target: Any, data: Any, row: Sequence[int], room: int | None = None) -> Any:
    """Return the object in a message, or copy the message into a buffer.

    `target`: The buffer; None for an object.
    `data`: The part of the message that has arrived, as far as there is room.
    `row`: Its source, tag and bytes.
    `room`: Of an object: the most bytes.
    Raises MPI.Exception: The buffer is too short.
    """
    room = room if target is None else len(target)
    if room is not None and row[2] > room:
        more = MORE_ROOM if target is None else ""
        raise MPIException(
            _ERR_TRUNCATE,
            f"{row[2]} bytes from rank {row[0]} (tag {row[1]}) do not fit into {room} bytes{more}",
        )
    if target is None:
        return pickle.loads(data) if len(data) else None
    target[: len(data)] = np.frombuffer(data, np.uint8)
    return None


class RemoteRequest:
    """A communication under way.

    `number`: By which the grader identifies it.
    `target`: Where a buffer receive puts its message.
    `room`: Of a receive of an object: the most bytes.
    """

    def __init__(self, caller: Caller, number: int, target: object, room: int | None = None) -> None:
        self._caller, self._target, self._room = caller, target, room
        self._number: int | None = number

    def __bool__(self) -> bool:
        return self._number is not None

    def _finish(self, data: object, row: Sequence[int]) -> object:
        self._number = None
        if self._target is None and self._room is None:
            return None
        return deliver(self._target, data, row, self._room)

    @staticmethod
    def _ask(
        mode: str, requests: Sequence[RemoteRequest], statuses: Any
    ) -> tuple[list[int], list[object]] | None:
        """Wait for or test requests; positions and objects of those that are over, None if not enough are."""
        active = [(i, request) for i, request in enumerate(requests) if request._number is not None]
        if not active:
            if mode.startswith("test") and requests:  # a look at nothing takes its time, too
                requests[0]._caller.ask({"op": "requests", "mode": mode, "numbers": []})
            return [], []
        header = {"op": "requests", "mode": mode, "numbers": [request._number for _, request in active]}
        answer, parts = active[0][1]._caller.ask(header)
        if answer["over"] is None:
            return None
        places: list[int] = []
        objects: list[object] = []
        failed: list[MPIException] = []
        for nth, (position, row, data) in enumerate(
            zip(answer["over"], answer["statuses"], parts, strict=True)
        ):
            place, request = active[position]
            if statuses is not None:
                while len(statuses) <= nth:
                    statuses.append(Status())
                fill_status(statuses[nth], row)
            places.append(place)
            try:
                objects.append(request._finish(data, row))
            except MPIException as error:  # the others are over as well
                failed.append(error)
        if failed:
            raise failed[0]
        return places, objects

    def wait(self, status: Status | None = None) -> Any:
        """Wait; the object received, None for a send."""
        found = self._ask("waitall", [self], None if status is None else [status])
        return found[1][0] if found and found[1] else None

    def test(self, status: Status | None = None) -> tuple[bool, Any]:
        """Whether it is over, and the object received."""
        found = self._ask("testall", [self], None if status is None else [status])
        if found is None:
            return False, None
        return True, found[1][0] if found[1] else None

    @classmethod
    def waitall(cls, requests: Sequence[RemoteRequest], statuses: object = None) -> list[Any]:
        """Wait for all; the objects received."""
        found = cls._ask("waitall", requests, statuses) or ([], [])
        by_place = dict(zip(*found, strict=True))
        return [by_place.get(i) for i in range(len(requests))]

    @classmethod
    def waitany(cls, requests: Sequence[RemoteRequest], status: Status | None = None) -> tuple[int, Any]:
        """Wait for one; its index and object."""
        found = cls._ask("waitany", requests, None if status is None else [status])
        return (found[0][0], found[1][0]) if found and found[0] else (UNDEFINED, None)

    @classmethod
    def waitsome(cls, requests: Sequence[RemoteRequest], statuses: object = None) -> tuple[Any, Any]:
        """Wait for at least one; indices and objects of all that are over."""
        found = cls._ask("waitsome", requests, statuses)
        return found if found and found[0] else (None, None)

    @classmethod
    def testany(
        cls, requests: Sequence[RemoteRequest], status: Status | None = None
    ) -> tuple[int, bool, Any]:
        """Index of one that is over, whether there is one, and its object."""
        found = cls._ask("testany", requests, None if status is None else [status])
        if found is None:
            return UNDEFINED, False, None
        return (found[0][0], True, found[1][0]) if found[0] else (UNDEFINED, True, None)

    @classmethod
    def testsome(cls, requests: Sequence[RemoteRequest], statuses: object = None) -> tuple[Any, Any]:
        """Return the indices of all that are over, and their objects; None when there is nothing to test."""
        found = cls._ask("testsome", requests, statuses)
        if found is None:
            return [], []
        return found if found[0] else (None, None)

    @classmethod
    def testall(cls, requests: Sequence[RemoteRequest], statuses: object = None) -> tuple[bool, Any]:
        """Whether all are over, and then the objects."""
        found = cls._ask("testall", requests, statuses)
        return (False, None) if found is None else (True, found[1])


def _upper(row: Method) -> str | None:
    """What a wait or test without objects returns: a part of what the other spelling does."""
    if not row.is_buffer:
        return None
    call = f"{'self' if row.kind == 'one' else 'cls'}.{row.name.lower()}({row.arguments})"
    return call + ANSWERS[row.name] if ANSWERS[row.name] else f"({call}, True)[1]"


add_methods(
    RemoteRequest, REQUESTS, _upper, {}, lambda row, call: call if row.kind == "one" else classmethod(call)
)


class RemotePrequest(RemoteRequest):
    """A persistent request: `Start` begins what the nonblocking call would begin then.

    `begin`: That call.
    """

    def __init__(self, caller: Caller, begin: Callable[[], RemoteRequest]) -> None:
        self._caller, self._target, self._room = caller, None, None
        self._begin: Callable[[], RemoteRequest] | None = begin
        self._number = None

    def __bool__(self) -> bool:
        return self._begin is not None

    def Start(self) -> None:
        """Begin the communication.

        Raises MPI.Exception: It is under way already, or null.
        """
        if self._begin is None or self._number is not None:
            raise MPIException(_ERR_REQUEST, "a request is started once, then waited for")
        begun = self._begin()
        self._number, self._target = begun._number, begun._target

    def Free(self) -> None:
        """Make it null."""
        self._begin = None

    @classmethod
    def Startall(cls, requests: Sequence[RemotePrequest]) -> None:
        """Begin all of them, in the list's order."""
        for request in requests:
            request.Start()
