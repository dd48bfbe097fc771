"""Reads and writes of files: their methods are made from the table of mpi4py's surface."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np

from labkit.comm.buffers import Simple, parse_simple
from labkit.comm.collective.makers import maker_of
from labkit.comm.collective.native import Call, call_under_way, perform
from labkit.comm.files.state import FileState, Joint, Own, error_of
from labkit.comm.files.view import View
from labkit.comm.handles.constants import CONSTANTS
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.status import Status
from labkit.comm.surface import FILES, NAMED, Method, add_methods
from labkit.comm.typed import is_phantom, packed, unpack
from labkit.schedule.problem import PROBLEMS

__all__ = ["Now", "Transfers"]

_ERR_ARG, _ERR_FILE, _ERR_OTHER, _ERR_UNSUPPORTED = 13, 30, 16, 52
_NULL = _ERR_FILE, "FILE_NULL, or a file that has been closed"


class Now(NamedTuple):
    """A call of the running rank's."""

    name: str
    hub: Any
    state: FileState
    me: int  #: among the file's ranks
    own: Own


class Transfers:
    """How calls on files begin, and how bytes are moved."""

    __slots__ = ("_comm", "_state")
    _state: FileState | None
    _comm: Any  #: the file's ranks, with messages of its own

    def _now(self, name: str) -> Now:
        """Return the call under way; see `call_under_way`."""
        calls, state, me = call_under_way(self, "File", name, _NULL)
        return Now(name, calls.hub, state, me, state.owns[me])

    def _together(self, now: Now, **facts: Any) -> None:
        """Wait for all ranks; facts are what they must give alike."""
        perform(self._comm, Call("barrier", f"File.{now.name}", facts=facts))

    @staticmethod
    def _begin_request(now: Now, n_bytes: int, latencies: int = 1) -> int:
        """Make a request to the file server: its handle."""
        now.hub.catch_up(now.name)
        handle = int(now.hub.gate())
        now.hub.open_gate(handle, now.state.server.end_of(now.hub.now(), n_bytes, latencies))
        return handle

    @staticmethod
    def _await(now: Now, handle: int) -> None:
        now.hub.wait_for([handle], now.name)
        now.hub.release_handles([handle])

    def _request(self, now: Now, n_bytes: int, latencies: int = 1) -> None:
        """Make a request and wait for it."""
        self._await(now, self._begin_request(now, n_bytes, latencies))

    # --- what is allowed ------------------------------------------------------------------------------

    @staticmethod
    def _check_writable(now: Now) -> None:
        if now.state.mode & CONSTANTS["MODE_RDONLY"]:
            raise MPIException(
                CONSTANTS["ERR_READ_ONLY"], f"{now.name}: the file was opened with MODE_RDONLY"
            )

    @staticmethod
    def _check_random_access(now: Now) -> None:
        if now.state.mode & CONSTANTS["MODE_SEQUENTIAL"]:
            raise MPIException(
                _ERR_UNSUPPORTED,
                f"{now.name}: a file of MODE_SEQUENTIAL is read and written with the shared pointer only",
            )

    @staticmethod
    def _check_split(now: Now) -> None:
        if now.own.split is not None:
            raise MPIException(
                _ERR_OTHER, f"{now.name} while {now.own.split[0]} is under way: call its end first"
            )

    # --- reads and writes -----------------------------------------------------------------------------

    def _transfer(self, method: Method, offset: int | None, buf: Any, status: Any) -> Any:
        """Do what a row of the table says."""
        now = self._now(method.name)
        is_write, where = method.base.startswith("Write"), method.kind
        if method.form == "end":
            return self._end(now, method, buf, status)
        if is_write:
            self._check_writable(now)
        elif now.state.mode & CONSTANTS["MODE_WRONLY"]:
            raise MPIException(CONSTANTS["ERR_ACCESS"], f"{now.name}: the file was opened with MODE_WRONLY")
        if where in ("at", "own"):
            self._check_random_access(now)
        is_collective = where == "ordered" or "_all" in method.name
        if is_collective:
            self._check_split(now)
        place = parse_simple(buf, not is_write)
        view = now.own.view
        n_bytes = view.file_bytes(place.datatype, place.count, place.bytes)
        position = self._position(now, where, offset, n_bytes)
        if is_collective and method.form != "nonblocking":
            handle = self._begin_joint(now, n_bytes)
        else:
            handle = self._begin_request(now, n_bytes, 1 + (where == "shared"))
        done = self._move(now, view, position * view.unit, place, is_write)
        if where == "own":
            now.own.position = position + -(-done // view.unit)
        done = view.memory_bytes(place.datatype, done)
        if method.form == "blocking":
            self._await(now, handle)
            _fill(status, done)
            return None
        if method.form == "nonblocking":
            return now.hub.handle_request(self._comm, handle, done)
        now.own.split = (method.name, buf, handle, done)
        return None

    def _end(self, now: Now, method: Method, buf: Any, status: Any) -> None:
        begin = method.name.replace("_end", "_begin")
        if now.own.split is None or now.own.split[0] != begin:
            under_way = now.own.split[0] if now.own.split else "nothing"
            raise MPIException(_ERR_OTHER, f"{now.name} without {begin}: {under_way} is under way")
        _, _, handle, done = now.own.split
        now.own.split = None
        self._await(now, handle)
        _fill(status, done)

    def _position(self, now: Now, where: str, offset: int | None, n_bytes: int) -> int:
        """Return where a transfer begins, in etypes; shared pointers go on."""
        state, unit = now.state, now.own.view.unit
        units = -(-n_bytes // unit)
        if where == "at":
            place = operator.index(offset)  # type: ignore[arg-type]
            if place < 0:
                raise MPIException(_ERR_ARG, f"{now.name}: offset={offset} is not allowed: at least 0")
            return place
        if where == "own":
            return now.own.position
        if where == "shared":
            now.hub.catch_up(now.name)
            place = state.shared
            state.shared += units
            return place
        everybody = np.zeros(self._comm.size, np.int64)
        make = maker_of(NAMED["Allgather"])
        mine = np.array([n_bytes], np.int64)
        perform(self._comm, make(self._comm, PROBLEMS["allgather"], f"File.{now.name}", mine, everybody))
        joint, before = self._joint(now), -(-everybody // unit)
        if joint.total is None:  # this rank is the first that knows of all
            joint.total, joint.begin = int(everybody.sum()), state.shared
            state.shared += int(before.sum())
        return joint.begin + int(before[: now.me].sum())

    @staticmethod
    def _joint(now: Now) -> Joint:
        """Return what the ranks share about this rank's next collective transfer."""
        return now.state.joints.setdefault(now.own.calls, Joint())

    def _begin_joint(self, now: Now, n_bytes: int) -> int:
        """Make the request of a collective transfer, together with all others: this rank's handle."""
        joint, number = self._joint(now), now.own.calls
        if joint.total is None:  # the ranks have not met yet
            joint.sizes[now.me] = n_bytes
            self._together(now)
            joint.total = sum(joint.sizes.values())
        now.hub.catch_up(now.name)
        if joint.end_s is None:
            joint.end_s = now.state.server.end_of(now.hub.now(), joint.total)
        handle = int(now.hub.gate())
        now.hub.open_gate(handle, joint.end_s)
        now.own.calls += 1
        joint.left += 1
        if joint.left == len(now.state.world):
            del now.state.joints[number]
        return handle

    @staticmethod
    def _move(now: Now, view: View, position: int, place: Simple, is_write: bool) -> int:
        """Read or write now; how many bytes."""
        if is_phantom(place):
            raise TypeError(f"{now.name}: a phantom buffer (labkit.sized) has no bytes for a file")
        try:
            if is_write:
                data = view.to_file(place.datatype, packed(place))
                now.state.write(view, position, data)
                return len(data)
            asked = view.file_bytes(place.datatype, place.count, place.bytes)
            data = now.state.read(view, position, asked)
        except OSError as error:
            raise error_of(error, f"{now.name} of {now.state.path!r}") from None
        unpack(place, view.from_file(place.datatype, data))
        return len(data)


def _fill(status: Any, n_bytes: int) -> None:
    if status is not None:
        Status.__setstate__(status, (-1, -1, 0, n_bytes, False))


def _expression(method: Method) -> str:
    given = method.arguments.split(", ")
    return "self._transfer(method, {}, buf, {})".format(
        *("offset" if "offset" in given else None, "status" if "status" in given else None)
    )


add_methods(Transfers, FILES, _expression, {"__name__": __name__})
