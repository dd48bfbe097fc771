"""The grader's side of a submission's rank: its requests become calls of a simulated rank, which is trusted.

One proxy is the program of one simulated rank. It waits for its process to ask for something, does it on
the simulated communicator, and answers; so every message, byte and second is counted by the engine here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit.comm.collective.native import leave
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.module import simulated_module
from labkit.errors import UnsupportedError
from labkit.grading.counts import packed_bytes
from labkit.grading.sandbox.budget import Budget, SleepWatch, SubmissionFailure
from labkit.grading.sandbox.notes import noted
from labkit.grading.sandbox.outcome import Work
from labkit.grading.sandbox.wire import (
    COLLECTIVES,
    MOST_COMPUTED,
    MOST_PAYLOAD_BYTES,
    OF_MESSAGES,
    OF_OBJECTS,
    REDUCED,
    Closed,
    Frames,
    Idle,
    TooLate,
    WireError,
    decode,
    encode,
    is_amount,
)
from labkit.program import context

if TYPE_CHECKING:
    from labkit.comm.handles.status import Request, Status
    from labkit.comm.intracomm import Intracomm

__all__ = ["RankProxy", "argument", "made_from", "text", "whole_number"]


# Reads what a rank of a submission asks for: nothing of it is believed.


#: most dimensions of a grid
_MOST_DIMS = 32


def argument(
    kind: str,
    value: Any,
    arrays: Iterator[object],
    written: list[Any],
    own: Callable[[int, bool], object],
) -> Any:
    """Rebuild one argument of a collective, as mpi4py takes it.

    `kind`: As in `labkit.grading.sandbox.wire.COLLECTIVES`.
    `value`: What the rank says of it.
    `arrays`: The bytes that came with it.
    `written`: Gets those that the collective writes.
    `own`: ``own(number, commutes)``: an operator of the submission's own, which only its rank can apply.
    """
    if kind == "root":
        return whole_number(value)
    if kind == "op" and isinstance(value, dict):
        return own(whole_number(value.get("own")), value.get("commutes") is True)
    if kind == "op":
        found = vars(mpi()).get(value) if isinstance(value, str) else None
        if not isinstance(found, mpi().Op):
            raise TypeError("op: expected an mpi().Op")
        return found
    if kind == "counts":
        return None if value is None else [whole_number(count) for count in value]
    if value == "none":
        return None
    if value == "in place":
        return mpi().IN_PLACE
    name, counts, displacements = value
    datatype = vars(mpi()).get(name) if isinstance(name, str) else None
    if not isinstance(datatype, mpi().Datatype):
        raise TypeError("datatype: expected a Datatype")
    array = next(arrays)
    if kind == "write":
        written.append(array)
    if counts is None and displacements is None:
        return [array, datatype]
    if isinstance(counts, list) and len(counts) == 2 and isinstance(counts[0], list):
        return [array, tuple(counts), datatype]
    return [array, counts, displacements, datatype]


def described(error: BaseException) -> list[object]:
    """Describe an error of a call, so that the rank can raise it."""
    if isinstance(error, MPIException):
        return ["mpi", error.Get_error_code(), error._detail]
    if isinstance(error, UnsupportedError):
        return ["", 0, str(error)]
    return [type(error).__name__, 0, str(error.args[0]) if error.args else ""]


def made_from(name: str, values: object) -> list[object]:
    """Return the arguments of a call that makes a communicator: numbers, of a grid lists of them."""
    if not isinstance(values, list):
        raise TypeError("a list of arguments is needed")
    if name not in ("Create_cart", "Sub"):
        return [whole_number(value) for value in values]
    if not all(isinstance(value, list) and len(value) <= _MOST_DIMS for value in values):
        raise ValueError(f"a grid has at most {_MOST_DIMS} dimensions")
    dims, *flags = [[whole_number(number) for number in value] for value in values]
    if name == "Sub":
        return [[bool(keep) for keep in dims]]
    return [dims, *([bool(ring) for ring in rings] for rings in flags)]


def mpi() -> Any:
    """Return the simulated module."""
    return simulated_module()


def new_status() -> Status:
    """Return an empty status."""
    status: Status = mpi().Status()
    return status


def status_row(status: Status) -> list[int]:
    """Return source, tag and bytes."""
    return [int(status.source), int(status.tag), int(status._bytes)]


def whole_number(value: object) -> int:
    """Return a value that must be a whole number."""
    if type(value) is not int or abs(value) >= 1 << 62:
        raise TypeError("a whole number is needed")
    return value


def text(value: object, most: int) -> str:
    """Return a text, cut; an empty one for anything else."""
    return value[-most:] if isinstance(value, str) else ""


# Waits and tests of a submission's requests, carried out on the grader's own requests.


#: positions of those that are over (None: too few are), what they received, their statuses
_Over = tuple[list[int] | None, list[Any], "list[Status]"]
_Call = Callable[[Any, Any], Any]


def _statuses(open_: Sequence[object]) -> list[Status]:
    return [new_status() for _ in open_]


def _wait_all(call: _Call, kind: type[Request], open_: Sequence[object]) -> _Over:
    statuses = _statuses(open_)
    data = call(kind.waitall, (open_, statuses))
    return list(range(len(open_))), data, statuses


def _test_all(call: _Call, kind: type[Request], open_: Sequence[object]) -> _Over:
    statuses = _statuses(open_)
    flag, data = call(kind.testall, (open_, statuses))
    return (list(range(len(open_))), data, statuses) if flag else (None, [], [])


def _wait_any(call: _Call, kind: type[Request], open_: Sequence[object]) -> _Over:
    status = new_status()
    index, data = call(kind.waitany, (open_, status))
    return [index], [data], [status]


def _test_any(call: _Call, kind: type[Request], open_: Sequence[object]) -> _Over:
    status = new_status()
    index, flag, data = call(kind.testany, (open_, status))
    return ([index], [data], [status]) if flag and index >= 0 else (None, [], [])


def _wait_some(call: _Call, kind: type[Request], open_: Sequence[object]) -> _Over:
    statuses = _statuses(open_)
    over, data = call(kind.waitsome, (open_, statuses))
    return list(over), data, statuses[: len(over)]


def _test_some(call: _Call, kind: type[Request], open_: Sequence[object]) -> _Over:
    statuses = _statuses(open_)
    over, data = call(kind.testsome, (open_, statuses))
    return (list(over), data, statuses[: len(over)]) if over else (None, [], [])


#: ``mode(call, Request, requests)``; `call` makes a call that reports name the submission's line of
MODES: dict[str, Callable[[_Call, type[Request], Sequence[object]], _Over]] = {
    "waitall": _wait_all,
    "testall": _test_all,
    "waitany": _wait_any,
    "testany": _test_any,
    "waitsome": _wait_some,
    "testsome": _test_some,
}


# The rooms that a rank's receives have: what does not fit is an error there, and has brought nothing.


class Rooms:
    """Of one rank. The grader receives whole messages, and hands the rank what it has room for.

    `budget`: Counts the rooms of open receives.
    `cut`: The messages that did not fit: source, destination, tag, bytes.
    """

    def __init__(self, rank: int, budget: Budget) -> None:
        self.rank, self.budget = rank, budget
        self.cut: list[tuple[int, int, int, int]] = []
        self._open: dict[int, tuple[int, Intracomm]] = {}

    def set_aside(self, room: Any) -> int:
        """Return the room of a receive that is about to be posted.

        Raises ValueError, TypeError: It is none.
        Raises SubmissionFailure: There are too many.
        """
        if not 0 <= whole_number(room) <= MOST_PAYLOAD_BYTES:
            raise ValueError(f"a receive of {room} bytes")
        self.budget.set_aside(self.rank, room)
        return int(room)

    def open(self, number: int, room: int, comm: Intracomm) -> None:
        """Note the room of a request."""
        self._open[number] = room, comm

    def close(self, number: int, data: object, status: object) -> Any:
        """Return what of its message a request that is over has room for; of another one what there is."""
        if number not in self._open:
            return data or b""
        room, comm = self._open.pop(number)
        self.budget.room_bytes -= room
        return self.fitting(data, room, comm, status)

    def fitting(self, data: Any, room: Any, comm: Intracomm, status: Any) -> Any:
        """Return what of a message there is room for; None: for all of it."""
        data = data or b""
        if room is None or len(data) <= whole_number(room):
            return data
        self.cut.append((comm._world_ranks()[status.source], self.rank, int(status.tag), len(data)))
        return data[: max(room, 0)]


# Calls that stand on a line of the submission, so that the engine's reports name it.


_template = lambda call, arguments: call(*arguments)  # noqa: E731 - its code object is copied below


@lru_cache(maxsize=4096)
def caller_at(line: int, function: str) -> Callable[[Any, Any], Any]:
    """Return a function that calls from a line of the submission, so that the engine's reports name it."""
    code = _template.__code__.replace(
        co_filename="submission.py", co_name=function, co_qualname=function, co_firstlineno=line
    )
    return FunctionType(code, {})


#: what a request says, as the process wrote it: each value is checked where it is used
_Header = dict[str, Any]
#: of an answer: what it says, and the data
_Answer = tuple[dict[str, object], list[Any]]

_ENDS = ("error", "time", "memory")
_ANSWERED = (
    MPIException,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    OverflowError,
    BufferError,
    StopIteration,
    UnsupportedError,
)
_POSTS = ("send", "ssend", "isend", "issend")
_CHARGES = ("begin", "end", "compute")
_MAKES = ("Dup", "Split", "Create_cart", "Sub", "Free")
_MOST_OUTPUT = 21_000
_MOST_HANDLES = 10_000
_MOST_NESTED = 10
_TRACED_LINES = 100_000


class RankProxy:
    """One simulated rank, driven by the process of a submission.

    `line`: The connection to its process, which does not block.
    `pid`: That process.
    `only_messages`: Refuse collectives: the task is to write one.
    `charges`: Whether time passes for what it charges.
    `work`: The tasks that it may have done.
    `talks_early`: Whether it may communicate before its function is called, while it is loaded.
    `packs`: Whether what calls bring it is counted, packed.
    """

    def __init__(
        self,
        rank: int,
        line: Frames,
        pid: int,
        budget: Budget,
        only_messages: bool,
        charges: bool = True,
        work: Work | None = None,
        talks_early: bool = True,
        packs: bool = False,
    ) -> None:
        self.rank, self.line, self.pid, self.budget = rank, line, pid, budget
        self.only_messages, self.charges, self.work = only_messages, charges, work
        self.talks_early, self.packs, self.told_bytes = talks_early, packs, 0
        self.output = ""
        self.tasks: list[int] = []
        self.attempts: list[str] = []
        self.rooms = Rooms(rank, budget)
        self.failure: SubmissionFailure | None = None  # in its own operator: the engine called it
        self._comms: dict[int, object] = {}
        self._requests: dict[int, object] = {}
        self._written: dict[int, object] = {}  # by collectives under way
        self._handles = self._vain_polls = self._nested = 0
        self._has_begun = False
        self._call: _Call = caller_at(1, "submission")
        self._place = "submission.py"

    def main(self, comm: Intracomm) -> Any:
        """Serve until the process hands its result over; that result.

        Raises SubmissionFailure.
        """
        self._comms = {0: comm, -1: mpi().COMM_SELF}
        if self._read()[0].get("op") != "begins":
            raise self._failure("protocol", "a message that is not of the protocol")
        self._has_begun = True
        while True:
            header, parts = self._read()
            if header.get("op") == "result":
                return self._result(header, parts)
            self._carry_out(header, parts)

    def _carry_out(self, header: _Header, parts: list[memoryview]) -> None:
        """Do what the process asks for, and answer, unless it has gone on."""
        operation, is_loading = header.get("op"), header.get("loading") is True
        if operation in _ENDS:
            raise self._failure(str(operation), text(header.get("text"), 6000), is_loading)
        self._note_place(header.get("at"))
        if is_loading and not self.talks_early and operation not in _CHARGES:
            raise self._failure("forbidden", f"{self._place} communicates while it is loaded", True)
        is_posted = "number" in header
        try:
            answer, out = self._serve(operation, header, parts)
        except _ANSWERED as error:
            if is_posted:
                message = f"{self._place}: {type(error).__name__}: {error}"
                raise self._failure("error", message, is_loading) from None
            answer, out = {"error": described(error)}, []
        if not is_posted:  # objects of all ranks come as one buffer of bytes
            self._write(answer, out, [b"".join(out)] if operation == "objects" else None)

    # --- the line to the process ------------------------------------------------------------------

    def _failure(self, kind: str, message: str, is_loading: bool = False) -> SubmissionFailure:
        return self.failure or SubmissionFailure(kind, self.rank, message, is_loading)  # the first says why

    def _alive(self) -> Callable[[int], bool]:
        """Return a check whether the process still works; a new one for each wait."""
        return partial(self.budget.goes_on, SleepWatch(self.pid, self.budget.limits.idle_s))

    def _read(self) -> tuple[_Header, list[memoryview]]:
        try:
            header, parts = self.line.read(self.budget.deadline_s, self._alive())
        except TooLate:
            raise self._failure(
                "time",
                f"{self.budget.late_words}: rank {self.rank} made no call after {self._place}",
            ) from None
        except Idle:
            raise self._failure(
                "time", f"rank {self.rank} sleeps, and makes no call after {self._place}"
            ) from None
        except Closed:
            if not self._has_begun:
                raise self._failure("machine", "its process ended before it began") from None
            raise self._failure("ended", f"its process ended without a result, after {self._place}") from None
        except WireError as error:
            raise self._failure("protocol", str(error)) from None
        if not isinstance(header, dict):
            raise self._failure("protocol", "a message that is not of the protocol")
        printed = header.get("out")
        if isinstance(printed, str) and printed:
            self.output = (self.output + printed)[:_MOST_OUTPUT]
        self.attempts = noted(self.attempts, header.get("asked"))
        self.budget.spend(self.rank, sum(len(part) for part in parts))
        return header, parts

    def _write(
        self, answer: dict[str, object], parts: Sequence[object], news: Sequence[object] | None = None
    ) -> None:
        if self.packs:
            self.told_bytes += sum(map(packed_bytes, parts if news is None else news))
        try:
            self.line.write(answer, parts, self.budget.deadline_s, self._alive())
        except (TooLate, Idle):
            raise self._failure("time", "it does not take the answers to its calls") from None
        except Closed:
            raise self._failure("ended", f"its process ended without a result, after {self._place}") from None
        except WireError as error:  # two operands of its own operator
            raise self._failure("budget", f"{error}, in a call at {self._place}") from None

    def _result(self, header: _Header, parts: list[memoryview]) -> object:
        try:
            return decode(header.get("value"), parts)
        except WireError as error:
            raise self._failure("protocol", str(error)) from None

    def _note_place(self, at: object) -> None:
        if isinstance(at, list) and len(at) == 2 and type(at[0]) is int and 0 < at[0] < _TRACED_LINES:
            name = text(at[1], 60)
            function = name if name.isidentifier() or name in ("<module>", "<lambda>") else "submission"
            self._call = caller_at(at[0], function)
            self._place = f"submission.py:{at[0]} in {function}"

    # --- what a rank may ask for ------------------------------------------------------------------

    def _serve(self, operation: object, header: _Header, parts: Sequence[memoryview]) -> _Answer:
        serve = _SERVICES.get(operation) if isinstance(operation, str) else None
        if serve is None:
            raise self._failure("protocol", "a request that does not exist")
        return serve(self, header, parts)

    def _comm(self, header: _Header) -> Any:
        found = self._comms.get(whole_number(header.get("comm")))
        if found is None:
            raise ValueError("this communicator does not exist (any more)")
        return found

    def _keep(self, table: dict[int, object], thing: object, number: int | None = None) -> int:
        self._handles += 1
        number = self._handles if number is None else whole_number(number)
        if number in table:
            raise self._failure("protocol", "two requests of the same number")
        if len(table) > _MOST_HANDLES:
            raise self._failure("budget", f"more than {_MOST_HANDLES} requests are open at the same time")
        table[number] = thing
        return number

    def post(self, header: _Header, parts: Sequence[memoryview]) -> _Answer:
        """Send, or post a send."""
        method = getattr(self._comm(header), header["op"])
        data = bytes(parts[0])
        request = self._call(method, (data, whole_number(header["dest"]), whole_number(header["tag"])))
        if request is None:
            return {}, []
        return {"request": self._keep(self._requests, request, header.get("number"))}, []

    def receive(self, header: _Header, parts: Sequence[memoryview]) -> _Answer:
        """Receive."""
        status, comm = new_status(), self._comm(header)
        data = self._call(
            comm.recv, (None, whole_number(header["source"]), whole_number(header["tag"]), status)
        )
        return {"status": status_row(status)}, [self.rooms.fitting(data, header.get("room"), comm, status)]

    def post_receive(self, header: _Header, parts: Sequence[memoryview]) -> _Answer:
        """Post a receive."""
        room, comm = self.rooms.set_aside(header["room"]), self._comm(header)
        arguments = (MOST_PAYLOAD_BYTES, whole_number(header["source"]), whole_number(header["tag"]))
        number = self._keep(self._requests, self._call(comm.irecv, arguments), header.get("number"))
        self.rooms.open(number, room, comm)
        return {"request": number}, []

    def exchange(self, header: _Header, parts: Sequence[memoryview]) -> _Answer:
        """Send and receive concurrently."""
        status, comm = new_status(), self._comm(header)
        sent = (bytes(parts[0]), whole_number(header["dest"]), whole_number(header["tag"]))
        arguments = (*sent, None, whole_number(header["source"]), whole_number(header["recvtag"]), status)
        data = self._call(comm.sendrecv, arguments)
        return {"status": status_row(status)}, [self.rooms.fitting(data, header.get("room"), comm, status)]

    def probe(self, header: _Header, parts: Sequence[memoryview]) -> _Answer:
        """Look for a message."""
        status = new_status()
        method = getattr(self._comm(header), header["op"])
        flag = self._call(method, (whole_number(header["source"]), whole_number(header["tag"]), status))
        self._count_poll(bool(flag))
        return {"flag": bool(flag), "status": status_row(status) if flag else None}, []

    def _count_poll(self, has_found: bool) -> None:
        self._vain_polls = 0 if has_found else self._vain_polls + 1
        if self._vain_polls > self.budget.limits.vain_polls:
            raise self._failure("budget", f"{self._vain_polls} polls in a row find nothing, at {self._place}")

    def requests(self, header: _Header, parts: Sequence[memoryview]) -> _Answer:
        """Wait for requests, or test them."""
        mode, numbers = header["mode"], [whole_number(number) for number in header["numbers"]]
        if mode not in MODES:
            raise self._failure("protocol", "a way of waiting that does not exist")
        if len(set(numbers)) != len(numbers) or any(number not in self._requests for number in numbers):
            raise ValueError("a request that does not exist (any more), or one twice")
        open_ = [self._requests[number] for number in numbers]
        over, data, statuses = MODES[mode](self._call, mpi().Request, open_)
        self._count_poll(over is not None)
        rows = [status_row(status) for status in statuses]
        out = [item or b"" for item in data]
        for nth, position in enumerate(over or ()):
            number = numbers[position]
            del self._requests[number]
            found = self.rooms.close(number, out[nth], statuses[nth])
            out[nth] = self._written.pop(number, found)
        return {"over": over, "statuses": rows}, out

    def collective(self, header: _Header, parts: Sequence[memoryview]) -> _Answer:
        """Carry out an upper-case collective, or begin one."""
        name = header["name"]
        if name not in COLLECTIVES:
            raise self._failure("protocol", "a collective that does not exist")
        self._refuse_collective(name)
        kinds, values = COLLECTIVES[name], header["args"]
        arrays = iter([np.frombuffer(bytearray(part), np.uint8) for part in parts])
        written: list[object] = []
        pairs = zip(kinds, values, strict=True)
        arguments = [argument(*pair, arrays, written, self._own_operator) for pair in pairs]
        request = self._call(getattr(self._comm(header), name), arguments)
        if request is None:
            return {}, written
        number = self._keep(self._requests, request)
        self._written.update((number, array) for array in written)
        return {"request": number}, []

    def _own_operator(self, number: int, commutes: bool) -> object:
        """Return an operator that this rank's process applies: only its own operands are shown to it."""
        return mpi().Op.Create(partial(self._combine, number), commutes)

    def _combine(self, number: int, left: memoryview, right: memoryview, datatype: Any) -> None:
        """Have the process, which waits in a call, apply its operator: ``right = left op right``."""
        if self.failure is not None:  # its process is past answering
            raise self.failure
        try:
            self._write({"combine": number, "type": datatype._constant}, [bytes(left), bytes(right)])
            header, parts = self._read()
            if header.get("op") in _ENDS:
                raise self._failure(str(header["op"]), text(header.get("text"), 6000))
            if header.get("op") != "combined" or [len(part) for part in parts] != [len(right)]:
                raise self._failure(
                    "protocol", f"an operator of the program's own communicates, in a call at {self._place}"
                )
            right[:] = parts[0]
        except SubmissionFailure as failure:
            self.failure = self.failure or failure
            raise

    def objects(self, header: _Header, parts: Sequence[memoryview]) -> _Answer:
        """Carry out a collective of objects, whose bytes are never opened here."""
        name, given = header["name"], [bytes(part) for part in parts]
        if name not in OF_OBJECTS:
            raise self._failure("protocol", "a collective that does not exist")
        self._refuse_collective(name)
        comm = self._comm(header)
        if name in ("bcast", "allgather", "allreduce"):
            self.budget.carry(self.rank, comm.size * sum(map(len, given)))  # every rank gets them
        arguments: list[object] = [given if name in ("scatter", "alltoall") else given[0] if given else None]
        if name in REDUCED:
            number, of = whole_number(header.get("combine")), text(header.get("operator"), 40)
            arguments.append(_Operator(self, number, of, given))
        if header["root"] is not None:
            arguments.append(whole_number(header["root"]))
        found = self._call(getattr(comm, name), arguments)
        return {}, [one or b"" for one in (found if isinstance(found, list) else [found])]

    def combine_objects(self, number: int, left: bytes, right: bytes, own: list[bytes]) -> bytes:
        """Have the process, which waits in a call, combine two objects; `own`: it has given itself.

        A function of objects may call whatever it likes, as in mpi4py, which combines them itself.
        """
        news = [one for one in (left, right) if not any(one is mine for mine in own)]
        self._nested += 1
        if self._nested > _MOST_NESTED:
            raise self._failure("budget", f"{_MOST_NESTED} reductions inside each other, at {self._place}")
        self._write({"combine": number}, [left, right], news)
        while True:
            header, parts = self._read()
            if header.get("op") == "combined" and len(parts) == 1:
                self._nested -= 1
                own.append(bytes(parts[0]))
                return own[-1]
            if header.get("op") == "result":
                raise self._failure("protocol", f"it ended within a collective, after {self._place}")
            self._carry_out(header, parts)

    def _refuse_collective(self, name: str) -> None:
        if self.only_messages and name != "Barrier":
            raise self._failure(
                "forbidden",
                f"{self._place} calls {name} (or its lower-case spelling). The task is to build it from "
                "messages: send, recv, isend, irecv, sendrecv and their upper-case spellings are allowed",
            )

    def private(self, header: _Header, parts: Sequence[memoryview]) -> _Answer:
        """Begin a collective that is made of messages, among neighbors."""
        self._refuse_collective(text(header["name"], 20))
        comm = self._comm(header)
        if header["name"] not in OF_MESSAGES:
            raise self._failure("protocol", "a collective that does not exist")
        arguments = header["name"], whole_number(header["root"]), text(header.get("op_name"), 40)
        private, tag = self._call(comm._private, arguments)
        return {"comm": self._keep(self._comms, private), "tag": tag}, []

    def leave(self, header: _Header, parts: Sequence[memoryview]) -> _Answer:
        """End such a collective."""
        leave(text(header["name"], 20))
        return {}, []

    def make(self, header: _Header, parts: Sequence[memoryview]) -> _Answer:
        """Make or free a communicator."""
        name = header["name"]
        if name not in _MAKES:
            raise self._failure("protocol", "a communicator's method that does not exist")
        arguments = made_from(name, header["args"])
        if name == "Split":  # its colors and keys carry data
            self._refuse_collective(name)
        made = self._call(getattr(self._comm(header), name), arguments)
        if name == "Free":
            self._comms.pop(whole_number(header["comm"]), None)
        if made is None or made == mpi().COMM_NULL:
            return {"comm": None}, []
        return {"comm": self._keep(self._comms, made), "rank": made.rank, "size": made.size}, []

    def task(self, header: _Header, parts: Sequence[memoryview]) -> _Answer:
        """Do a task: its time passes, and its result is handed over."""
        machine = context.current()
        if self.work is None or machine is None:
            raise self._failure("protocol", "a task, but this run has no tasks")
        number = self.work.number_of(header.get("task"))
        self.tasks.append(number)
        machine.compute(self.work.seconds[number], None)
        found: list[object] = []
        return {"value": encode(self.work.results[number], found)}, found

    def machine(self, header: _Header, parts: Sequence[memoryview]) -> _Answer:
        """Phases and computation; the simulated clock is not sent: it would carry data."""
        machine = context.current()
        assert machine is not None
        if header["op"] == "begin":
            machine.begin_phase(text(header["name"], 200) or "phase")
        elif header["op"] == "end":
            machine.end_phase(text(header["name"], 200))
        else:
            seconds, flops = header["seconds"], header["flops"]
            amount = flops if seconds is None else seconds
            if not is_amount(amount):
                raise ValueError(f"seconds and operations must be at least 0 and less than {MOST_COMPUTED:g}")
            if self.charges:
                machine.compute(seconds, flops)
        return {}, []


class _Operator:
    """An operator of objects, as the simulated collective calls it: the rank's process applies it.

    `given`: What the process has given to the collective.
    """

    def __init__(self, proxy: RankProxy, number: int, name: str, given: list[bytes]) -> None:
        self._proxy, self._number, self._constant, self._own = proxy, number, name, list(given)

    def __call__(self, left: bytes, right: bytes) -> bytes:
        return self._proxy.combine_objects(self._number, left, right, self._own)


_SERVICES: dict[str, Callable[..., tuple[dict[str, object], list[object]]]] = {
    **dict.fromkeys(_POSTS, RankProxy.post),
    "recv": RankProxy.receive,
    "irecv": RankProxy.post_receive,
    "sendrecv": RankProxy.exchange,
    "probe": RankProxy.probe,
    "iprobe": RankProxy.probe,
    "requests": RankProxy.requests,
    "collective": RankProxy.collective,
    "objects": RankProxy.objects,
    "private": RankProxy.private,
    "leave": RankProxy.leave,
    "make": RankProxy.make,
    "task": RankProxy.task,
    **dict.fromkeys(_CHARGES, RankProxy.machine),
}
