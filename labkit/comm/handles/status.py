"""Status, Request and Message: the compiled halves completed to mpi4py's interface."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from labkit import _kernels
from labkit.comm import surface
from labkit.comm.collective.native import shared_calls
from labkit.comm.handles.base import MODULE_NAME, Handle, foreign_memory_at
from labkit.comm.handles.constants import UNDEFINED
from labkit.comm.handles.datatypes import DATATYPES, Datatype, lookup
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.typebody import TypeBody, count_of

__all__ = ["F_STATUS", "REQUEST_NULL", "Grequest", "Message", "Prequest", "Request", "Status"]


# A status as numbers in memory: as C and Fortran programs see one.


#: where a status has what, as an array of Fortran's integers
F_STATUS = {"F_SOURCE": 0, "F_TAG": 1, "F_ERROR": 2, "F_STATUS_SIZE": 6}
_HALF = 1 << 32


# Elements of a datatype in a number of bytes, counted.


def whole_elements(body: TypeBody, received: int) -> int:
    """Return the number of elements; UNDEFINED where the bytes are no multiple of one."""
    size = body.map.size
    if size == 0:
        return 0 if received == 0 else UNDEFINED
    return received // size if received % size == 0 else UNDEFINED


def basic_elements(body: TypeBody, received: int) -> int:
    """Return the number of basic elements; UNDEFINED where the last one came in part."""
    size, parts = body.map.size, _parts(body)
    if size == 0:
        return 0 if received == 0 else UNDEFINED
    found, rest = received // size * sum(count for _, count in parts), received % size
    for part, count in parts:
        whole = min(count, rest // part)
        found, rest = found + whole, rest - whole * part
        if whole < count:
            break
    return found if rest == 0 else UNDEFINED


def bytes_of_basic(body: TypeBody, count: int) -> int:
    """Return the bytes of a number of basic elements."""
    parts = _parts(body)
    in_one = sum(many for _, many in parts)
    if in_one == 0:
        return 0
    wholes, rest = divmod(count, in_one)
    n_bytes = wholes * body.map.size
    for part, many in parts:
        n_bytes, rest = n_bytes + part * min(rest, many), rest - min(rest, many)
    return n_bytes


def _parts(body: TypeBody) -> list[tuple[int, int]]:
    """Return the sizes of the basic elements in an element, and how many there are in a row."""
    return [(kind.map.size, times) for kind, times in body.basics()]


_BYTE = DATATYPES["BYTE"]
#: indices and objects; None when there was nothing to wait for
_Some = tuple[list[int] | None, list[Any] | None]


class Status(Handle, _kernels.StatusBase):
    """What a receive or probe learnt about its message.

    Attributes
    ----------
    source, tag, error : int
    """

    __module__ = MODULE_NAME

    _known = surface.STATUS

    def Get_source(self) -> int:
        """Rank the message came from."""
        return int(self.source)

    def Get_tag(self) -> int:
        """Tag of the message."""
        return int(self.tag)

    def Get_error(self) -> int:
        """Error class."""
        return int(self.error)

    def Set_source(self, source: int) -> None:
        """Set the source."""
        self.source = source

    def Set_tag(self, tag: int) -> None:
        """Set the tag."""
        self.tag = tag

    def Set_error(self, error: int) -> None:
        """Set the error class."""
        self.error = error

    def Get_count(self, datatype: Datatype | str = _BYTE) -> int:
        """Whole elements received, UNDEFINED when the bytes are no multiple of an element."""
        return whole_elements(lookup(datatype)._valid(), int(self._bytes))

    def Get_elements(self, datatype: Datatype) -> int:
        """Basic elements received, also of an element that came in part; UNDEFINED for a part of one."""
        return basic_elements(lookup(datatype)._valid(), int(self._bytes))

    def Set_elements(self, datatype: Datatype, count: int) -> None:
        """Set the number of basic elements received."""
        self._bytes = bytes_of_basic(lookup(datatype)._valid(), count_of(count, "count"))

    def Is_cancelled(self) -> bool:
        """Whether the request was cancelled."""
        return bool(self._is_cancelled)

    def Set_cancelled(self, flag: bool) -> None:
        """Report whether the request was cancelled."""
        self._is_cancelled = bool(flag)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Status):
            return NotImplemented
        return bool(self.__reduce__() == other.__reduce__())

    __hash__ = None  # type: ignore[assignment]

    count = property(Get_count, lambda self, value: self.Set_elements(_BYTE, value), doc="Bytes received.")
    cancelled = property(Is_cancelled, Set_cancelled, doc="Whether the request was cancelled.")

    def __reduce__(self) -> str | tuple[object, ...]:
        state = (self.source, self.tag, self.error, int(self._bytes), bool(self._is_cancelled))
        return type(self), (), state

    def __setstate__(self, state: tuple[int, int, int, int, bool]) -> None:
        self.source, self.tag, self.error, self._bytes, self._is_cancelled = state

    # What a status is in memory.

    def tomemory(self) -> memoryview:
        """Return the memory of source, tag and error, as integers."""
        return foreign_memory_at(self._address, 3, np.int32, self).data

    def py2f(self) -> list[int]:
        """Return it as Fortran's array of integers: MPI.F_SOURCE, F_TAG and F_ERROR say where is what."""
        low, high = int(self._bytes) % _HALF, int(self._bytes) // _HALF
        return [self.source, self.tag, self.error, low, high, int(self._is_cancelled)]

    @classmethod
    def f2py(cls, arg: Sequence[int]) -> Any:
        """Return a status of Fortran's array of integers."""
        source, tag, error, low, high, is_cancelled = arg
        made = cls()
        made.source, made.tag, made.error = source, tag, error
        made._bytes, made._is_cancelled = low + high * _HALF, bool(is_cancelled)
        return made


class Request(Handle, _kernels.RequestBase):
    """A communication under way; ``wait`` and ``test`` give objects, ``Wait`` and ``Test`` flags."""

    __slots__ = ("__weakref__",)
    __module__ = MODULE_NAME
    __hash__ = None  # type: ignore[assignment]

    _known = surface.REQUEST

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Request):
            return NotImplemented
        return self._original() is other._original() or (not self and not other)

    def _identity(self) -> object:
        return id(self._original()) if self else None

    def __reduce__(self) -> str | tuple[object, ...]:
        if self is REQUEST_NULL or not self:
            return "REQUEST_NULL" if self is REQUEST_NULL else (type(self), ())
        raise ValueError("a request cannot be pickled: wait for it first")

    def Get_status(self, status: Status | None = None) -> bool:
        """Whether it is over, without giving the request back."""
        self._look("Get_status")
        is_over = self._is_over()
        if is_over is not False:
            self._peek(status)
        return is_over is not False

    get_status = Get_status

    @classmethod
    def Get_status_all(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> bool:
        """Whether all are over, without giving them back."""
        cls._look("Get_status_all")
        is_over = all(request._is_over() is not False for request in requests)
        for request, place in zip(requests, _place(statuses, len(requests)), strict=False):
            if is_over:
                _peeked(request, place)
        return is_over

    @classmethod
    def Get_status_any(cls, requests: Sequence[Request], status: Status | None = None) -> tuple[int, bool]:
        """Index of one that is over, and whether there is one, without giving it back."""
        cls._look("Get_status_any")
        states = [request._is_over() for request in requests]
        if True in states:
            _peeked(requests[states.index(True)], status)
            return states.index(True), True
        if False not in states:
            _peeked(REQUEST_NULL, status)
        return UNDEFINED, False not in states

    @classmethod
    def Get_status_some(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> list[int] | None:
        """Return the indices of all that are over, without giving them back; None of no active ones."""
        cls._look("Get_status_some")
        states = [request._is_over() for request in requests]
        if all(state is None for state in states):
            return None
        found = [index for index, state in enumerate(states) if state]
        for index, place in zip(found, _place(statuses, len(found)), strict=False):
            _peeked(requests[index], place)
        return found

    @classmethod
    def get_status_all(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> bool:
        """Do as `Get_status_all`."""
        return cls.Get_status_all(requests, statuses)

    @classmethod
    def get_status_any(cls, requests: Sequence[Request], status: Status | None = None) -> tuple[int, bool]:
        """Do as `Get_status_any`."""
        return cls.Get_status_any(requests, status)

    @classmethod
    def get_status_some(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> list[int] | None:
        """Do as `Get_status_some`."""
        return cls.Get_status_some(requests, statuses)

    def free(self) -> None:
        """Give it back unless it is null."""
        if self:
            self.Free()

    # --- all --------------------------------------------------------------------------------------

    @classmethod
    def Waitall(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> bool:
        """Wait for all."""
        cls._wait_list(requests, False, "Waitall")
        _finish_all(requests, statuses, True)
        return True

    @classmethod
    def waitall(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> list[Any]:
        """Wait for all; the objects received (None for sends)."""
        cls._wait_list(requests, False, "waitall")
        return _finish_all(requests, statuses, True)

    @classmethod
    def Testall(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> bool:
        """Whether all are over."""
        return cls._test_all(requests, statuses, "Testall") is not None

    @classmethod
    def testall(
        cls, requests: Sequence[Request], statuses: list[Status] | None = None
    ) -> tuple[bool, list[Any] | None]:
        """Whether all are over, and then the objects."""
        objects = cls._test_all(requests, statuses, "testall")
        return objects is not None, objects

    @classmethod
    def _test_all(
        cls, requests: Sequence[Request], statuses: list[Status] | None, name: str
    ) -> list[object] | None:
        cls._look(name)
        if any(request._is_over() is False for request in requests):
            return None
        return _finish_all(requests, statuses, False)

    # --- any --------------------------------------------------------------------------------------

    @classmethod
    def Waitany(cls, requests: Sequence[Request], status: Status | None = None) -> int:
        """Wait for one; its index."""
        return cls._wait_any(requests, status, "Waitany")[0]

    @classmethod
    def waitany(cls, requests: Sequence[Request], status: Status | None = None) -> tuple[int, Any]:
        """Wait for one; its index and object."""
        return cls._wait_any(requests, status, "waitany")

    @classmethod
    def _wait_any(cls, requests: Sequence[Request], status: Status | None, name: str) -> tuple[int, Any]:
        over = next((i for i, request in enumerate(requests) if request._is_over()), None)
        if over is not None:  # in the list's order, whatever is over already
            cls._wait_list([requests[over]], False, name)
            return over, requests[over]._finish(status, True)
        index = cls._wait_list(requests, True, name)
        if index < 0:
            _empty(status)
            return UNDEFINED, None
        return index, requests[index]._finish(status, True)

    @classmethod
    def Testany(cls, requests: Sequence[Request], status: Status | None = None) -> tuple[int, bool]:
        """Index of one that is over, and whether there is one."""
        index, flag, _ = cls._test_any(requests, status, "Testany")
        return index, flag

    @classmethod
    def testany(cls, requests: Sequence[Request], status: Status | None = None) -> tuple[int, bool, Any]:
        """Index of one that is over, whether there is one, and its object."""
        return cls._test_any(requests, status, "testany")

    @classmethod
    def _test_any(
        cls, requests: Sequence[Request], status: Status | None, name: str
    ) -> tuple[int, bool, Any]:
        cls._look(name)
        states = [request._is_over() for request in requests]
        if True in states:
            index = states.index(True)
            return index, True, requests[index]._finish(status, False)
        if False in states:
            return UNDEFINED, False, None
        _empty(status)
        return UNDEFINED, True, None

    # --- some -------------------------------------------------------------------------------------

    @classmethod
    def Waitsome(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> list[int] | None:
        """Wait for at least one; the indices of all that are over."""
        return cls._wait_some(requests, statuses, "Waitsome")[0]

    @classmethod
    def waitsome(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> _Some:
        """Wait for at least one; the indices of all that are over, and their objects."""
        return cls._wait_some(requests, statuses, "waitsome")

    @classmethod
    def _wait_some(cls, requests: Sequence[Request], statuses: list[Status] | None, name: str) -> _Some:
        if any(request._is_over() for request in requests):
            cls._look(name)
            return _finish_some(requests, statuses, -1)
        first = cls._wait_list(requests, True, name)
        if first < 0:
            return None, None
        return _finish_some(requests, statuses, first)

    @classmethod
    def Testsome(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> list[int] | None:
        """Return the indices of all that are over."""
        return cls._test_some(requests, statuses, "Testsome")[0]

    @classmethod
    def testsome(cls, requests: Sequence[Request], statuses: list[Status] | None = None) -> _Some:
        """Return the indices of all that are over, and their objects."""
        return cls._test_some(requests, statuses, "testsome")

    @classmethod
    def _test_some(cls, requests: Sequence[Request], statuses: list[Status] | None, name: str) -> _Some:
        cls._look(name)
        if all(request._is_over() is None for request in requests):
            return None, None
        return _finish_some(requests, statuses, -1)


def _peeked(request: Request, status: Status | None) -> None:
    """Fill a status without giving the request back; calls for several requests write the error, too."""
    request._peek(status)
    if status is not None:
        status.error = 0


def _empty(status: Status | None) -> None:
    if status is not None:
        Status.__setstate__(status, (-1, -1, status.error, 0, False))


def _place(statuses: list[Status] | None, count: int) -> list[Any]:
    """Return the statuses to fill: the caller's list made long enough, as mpi4py does."""
    if statuses is None:
        return [None] * count
    if isinstance(statuses, list):
        statuses += [Status() for _ in range(count - len(statuses))]
    return [*statuses, *[None] * (count - len(statuses))]


def _collect(
    requests: Sequence[Request], chosen: list[int], statuses: list[Any], charged: set[int]
) -> list[Any]:
    """Finish the chosen requests; all of them, even when one of them failed."""
    objects: list[object] = []
    failures = []
    for place, index in enumerate(chosen):
        try:
            objects.append(requests[index]._finish(statuses[place], index in charged))
            found = 0
        except MPIException as error:
            failures.append((index, error))
            objects.append(None)
            found = error.Get_error_class()
        if statuses[place] is not None:  # calls for one request leave it unchanged
            statuses[place].error = found
    if failures:
        index, first = failures[0]
        raise MPIException(18, f"request {index} of the list: {first}") from first
    return objects


def _finish_all(requests: Sequence[Request], statuses: list[Status] | None, is_charged: bool) -> list[Any]:
    everything = list(range(len(requests)))
    places = _place(statuses, len(requests))
    return _collect(requests, everything, places, set(everything) if is_charged else set())


def _finish_some(
    requests: Sequence[Request], statuses: list[Status] | None, first: int
) -> tuple[list[int], list[Any]]:
    chosen = [i for i, request in enumerate(requests) if i == first or request._is_over()]
    places = _place(statuses, len(chosen))
    return chosen, _collect(requests, chosen, places, {first})


REQUEST_NULL = Request()


# The persistent request, which `labkit.comm.communicator` makes.


class Prequest(Request):
    """A persistent request: it describes a message or a collective, and `Start` begins it, again and again.

    Between a completion and the next start it is inactive: waits and tests return immediately, with an empty
    status. Only `Free` makes it null.
    """

    __slots__ = ("_begin",)
    __module__ = MODULE_NAME
    _begin: Callable[[], Request]

    def __init__(self, request: Request | None = None) -> None:
        if request and not isinstance(request, Prequest):
            raise TypeError(f"request: expected a Prequest, got {type(request).__name__}")
        if request:
            self._begin = request._begin

    @classmethod
    def _of(cls, begin: Callable[[], Request]) -> Prequest:
        """Make an inactive request whose starts are calls of `begin`."""
        self = cls()
        self._make_persistent()
        self._begin = begin
        return self

    def Start(self) -> None:
        """Begin the communication.

        Raises
        ------
        MPI.Exception
            ERR_REQUEST if it is under way already, or null.
        """
        if not self or self._is_over() is not None:
            raise MPIException(7, "a request is started once, then waited for" if self else "null request")
        self._take(self._begin())

    @classmethod
    def Startall(cls, requests: Sequence[Prequest]) -> None:
        """Begin all of them, in the list's order."""
        for request in requests:
            request.Start()

    def Pready(self, partition: int) -> None:
        """Say that a part of a partitioned send is filled."""
        raise MPIException(7, "Pready belongs to the request of a partitioned send")

    def Pready_range(self, partition_low: int, partition_high: int) -> None:
        """Say that parts are filled, from the first to the last, it included."""
        for partition in range(int(partition_low), int(partition_high) + 1):
            self.Pready(partition)

    def Pready_list(self, partitions: Sequence[int]) -> None:
        """Say that these parts are filled."""
        for partition in partitions:
            self.Pready(partition)

    def Parrived(self, partition: int) -> bool:
        """Return whether a part of a partitioned receive has arrived."""
        raise MPIException(7, "Parrived belongs to the request of a partitioned receive")


# Generalized requests: operations that the program carries on and completes itself.


_ERR_REQUEST, _ERR_OTHER = 7, 16


class Grequest(Request):
    """A request that is over when the program calls `Complete`; its callbacks say what it came to."""

    __slots__ = ("_cancel", "_free", "_object", "_query")
    __module__ = MODULE_NAME
    _query: Callable[[Status], object]
    _free: Callable[[], object]
    _cancel: Callable[[bool], object]
    _object: Any

    def __init__(self, request: Request | None = None) -> None:
        if request and not isinstance(request, Grequest):
            raise TypeError(f"request: expected a Grequest, got {type(request).__name__}")
        if request:
            self._cancel = request._cancel

    @classmethod
    def Start(
        cls,
        query_fn: Callable[..., None] | None = None,
        free_fn: Callable[..., None] | None = None,
        cancel_fn: Callable[..., None] | None = None,
        args: tuple[object, ...] | None = None,
        kwargs: Mapping[str, object] | None = None,
    ) -> Grequest:
        """Begin an operation.

        Parameters
        ----------
        query_fn : callable, optional
            ``query_fn(status, *args, **kwargs)`` fills the status of the operation that is over.
        free_fn : callable, optional
            ``free_fn(*args, **kwargs)``, after that.
        cancel_fn : callable, optional
            ``cancel_fn(completed, *args, **kwargs)``, where `Cancel` is called.
        args, kwargs : tuple, dict, optional
        """
        rest, named = tuple(args or ()), dict(kwargs or {})
        self = cls()
        self._query = lambda status: query_fn and query_fn(status, *rest, **named)
        self._free = lambda: free_fn and free_fn(*rest, **named)
        self._cancel = lambda is_over: cancel_fn and cancel_fn(is_over, *rest, **named)
        self._object = None
        self._take(shared_calls("Grequest.Start").hub.start_general("a generalized request"))
        self._after(self._ended)
        return self

    def _ended(self, status: Status | None) -> Any:
        """Let the program say what it came to; what `wait` returns."""
        try:
            _called(self._query, Status() if status is None else status)
        finally:
            _called(self._free)
        result, self._object = self._object, None
        return result

    def Complete(self) -> None:
        """Mark the operation as complete."""
        if self._is_over() is not False:
            raise MPIException(_ERR_REQUEST, "this generalized request is complete already, or null")
        self._complete()

    def complete(self, obj: object = None) -> None:
        """Mark it as complete; `wait` returns the object."""
        self.Complete()
        self._object = obj

    def Cancel(self) -> None:
        """Ask the operation to end."""
        is_over = self._is_over()
        if is_over is None:
            raise MPIException(_ERR_REQUEST, "cannot cancel REQUEST_NULL")
        _called(self._cancel, is_over)

    cancel = Cancel


def _called(function: Callable[..., object], *arguments: object) -> None:
    """Call a callback; its errors are MPI's."""
    try:
        function(*arguments)
    except MPIException as error:
        traceback.print_exc(file=sys.stderr)
        raise MPIException(error.Get_error_code()) from error
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        raise MPIException(_ERR_OTHER, f"a callback raised {type(error).__name__}: {error}") from error


# Messages that matched probes took out of the queue.


class Message(Handle, _kernels.MessageBase):
    """A message that a matched probe took out of the queue."""

    __module__ = MODULE_NAME
    __hash__ = None  # type: ignore[assignment]
    #: the engine's own
    _is_taken: bool
    _is_no_proc: bool
    _number: int

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        if self is other or (self._is_taken and other._is_taken):
            return True
        if self._is_taken or other._is_taken or self._is_no_proc or other._is_no_proc:
            return bool(self._is_no_proc and other._is_no_proc and self._is_taken == other._is_taken)
        return bool(self._number == other._number)

    def _identity(self) -> object:
        return None if self == MESSAGE_NULL else "no process" if self == MESSAGE_NO_PROC else id(self)

    def free(self) -> None:
        """Let go of it: a handle becomes MESSAGE_NULL, MPI's own stay unchanged."""
        if self is not MESSAGE_NO_PROC:
            self._is_taken = True

    def __reduce__(self) -> str | tuple[object, ...]:
        for constant, name in ((MESSAGE_NULL, "MESSAGE_NULL"), (MESSAGE_NO_PROC, "MESSAGE_NO_PROC")):
            if self == constant:
                return name if self is constant else (type(self), (constant,))
        raise ValueError("a message cannot be pickled: receive it first")

    @classmethod
    def Probe(
        cls, comm: _kernels.CommBase, source: int = -1, tag: int = -1, status: Status | None = None
    ) -> Message:
        """Wait for a message and take it out of the queue."""
        found: Message = comm.Mprobe(source, tag, status)
        return found

    @classmethod
    def Iprobe(
        cls, comm: _kernels.CommBase, source: int = -1, tag: int = -1, status: Status | None = None
    ) -> Message | None:
        """Take a message out of the queue if there is one."""
        found: Message | None = comm.Improbe(source, tag, status)
        return found

    probe = Probe
    iprobe = Iprobe


MESSAGE_NULL = Message()
MESSAGE_NO_PROC = Message()
MESSAGE_NO_PROC._is_no_proc = True
MESSAGE_NO_PROC._is_taken = False
