"""One checked run's knowledge of its messages: who sent what, buffers in use, what was wrong.

A buffer of a nonblocking call belongs to MPI until its Wait: it may not change if it is sent from, and
nothing else may use it if it is received into. Both ends of a message name the same kind of elements. Every
request is waited for, and every message is received.
"""

from __future__ import annotations

import functools
import inspect
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.comm.buffers import Simple, parse_simple
from labkit.comm.communicator import Comm
from labkit.comm.handles.base import is_in_place
from labkit.comm.handles.constants import CONSTANTS
from labkit.comm.handles.operators import OPERATORS
from labkit.comm.handles.packing import address_of
from labkit.comm.handles.status import Prequest, Request, Status
from labkit.comm.handles.typebody import TypeBody
from labkit.comm.intercomm import Intercomm
from labkit.comm.intracomm import Intracomm
from labkit.comm.place import Place, here
from labkit.comm.surface import METHODS, REQUESTS, Method, made
from labkit.sim.calls import NOTING
from labkit.sim.isolation.patches import Patches
from labkit.sim.simulation import running
from labkit.sim.where import place_of
from labkit.text.units import format_bytes, ranks_text

__all__ = ["CHECKING", "Checks", "PendingCall", "SentMessage", "elements_of", "region_of"]


#: faults of a kind that are reported in full; more are counted
_SHOWN = 20
_PROC_NULL = -2


@dataclass(frozen=True)
class SentMessage:
    """One message as its sender gave it."""

    kind: Elements
    name: str
    what: str  #: the call and its place
    owner: int  #: in the world


@dataclass
class PendingCall:
    """A nonblocking call that has not been waited for."""

    request: Any
    what: str
    regions: list[MemoryRegion]
    sums: list[int | None]  #: of buffers that are sent from, and of those of a receive
    receives: tuple[int, int, Elements, str] | None  #: context, rank, elements and name of a receive's type

    place: Place | None = None  #: of the call
    written: tuple[str, str, int] | None = None  #: the method and its parameter that it receives into
    found: list[int | None] = field(default_factory=list)  #: sums of a receive's, before it is waited for

    @classmethod
    def of(cls, request: object, what: str, regions: list[MemoryRegion], receives: Any = None) -> PendingCall:
        """Note what is in the buffers that are read, and where a message is received into."""
        is_watched = [receives is not None or not region.is_written for region in regions]
        sums = [region.sum() if is_it else None for region, is_it in zip(regions, is_watched, strict=True)]
        return cls(request, what, regions, sums, receives)

    def was_written_over(self) -> bool:
        """Whether an arrived message has overwritten what was written after the receive was posted.

        What had come before its Wait is the same afterwards: then nothing is said.
        """
        return any(
            region.is_written and None not in (posted, before) and posted != before != region.sum()
            for region, posted, before in zip(self.regions, self.sums, self.found, strict=False)
        )


class Checks:
    """What is known of one run's messages, and what was wrong with them."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.more = 0
        #: by communicator, sender, receiver and tag: what has been sent and not yet received
        self._sent: dict[tuple[int, int, int, int], deque[SentMessage]] = {}
        self._pending: dict[int, dict[int, PendingCall]] = {}
        #: persistent requests, by id: the call that made each, and its buffers
        self._persistent: dict[int, tuple[object, str, list[MemoryRegion]]] = {}
        #: a call whose messages are not followed has been made: types are compared no more
        self.is_blind = False
        #: ranks inside a call that is watched: what it calls in turn is not
        self.inside: set[int] = set()

    def tell(self, text: str) -> None:
        """Note that something is wrong, once."""
        if text in self.told:
            return
        if len(self.told) < _SHOWN:
            self.told.append(text)
        else:
            self.more += 1

    # --- messages ---------------------------------------------------------------------------------

    def sent(self, context: int, source: int, dest: int, tag: int, message: SentMessage) -> None:
        """Note a message on its way."""
        if dest != _PROC_NULL:
            self._sent.setdefault((context, source, dest, tag), deque()).append(message)

    def received(self, context: int, me: int, status: Any, kind: Elements, name: str, who: str) -> None:
        """Compare an arrived message with the type that its receiver expects."""
        source, tag = status.source, status.tag
        queue = self._sent.get((context, source, me, tag))
        if source == _PROC_NULL or not queue:
            return
        message = queue.popleft()
        if self.is_blind or agree(message.kind, kind):
            return
        self.tell(f"{who} takes {name}, but {message.what} gives {message.name}: other elements")

    def unreceived(self, context: int, owner: int, tag: int) -> str:
        """Return as text which call sent a message that is left over; empty where that is not known."""
        for (one, _, _, number), queue in self._sent.items():
            if (one, number) == (context, tag) and queue and queue[-1].owner == owner:
                return queue.pop().what
        return ""

    def waiting(self, owner: int, context: int) -> str:
        """Return as text which call posted a receive that nothing has reached; empty if not known."""
        for one in self._pending.get(owner, {}).values():
            if one.receives is not None and one.receives[0] == context:
                return one.what
        return ""

    # --- buffers ----------------------------------------------------------------------------------

    def use(self, rank: int, what: str, regions: Iterable[MemoryRegion]) -> None:
        """Compare buffers that a call is about to use with those of calls that have not been waited for."""
        for region in regions:
            for other in self._pending.get(rank, {}).values():
                if any(region.overlaps(its) for its in other.regions):
                    bytes_ = format_bytes(region.nbytes)
                    doing = "writes" if region.is_written else "reads"
                    self.tell(
                        f"{what} {doing} {bytes_} that {other.what} still uses: Wait for that one first"
                    )

    def begin(self, rank: int, pending: PendingCall) -> None:
        """Note a nonblocking call."""
        self._pending.setdefault(rank, {})[id(pending.request)] = pending

    def made(self, request: object, what: str, regions: list[MemoryRegion]) -> None:
        """Note what a persistent request will use whenever it is started."""
        self._persistent[id(request)] = (request, what, regions)

    def start(self, rank: int, request: object, where: str) -> None:
        """Note that a persistent request has been started."""
        if id(request) in self._persistent:
            _, what, regions = self._persistent[id(request)]
            self.begin(rank, PendingCall.of(request, f"{what}, started{where}", regions))

    def use_again(self, rank: int, request: object, where: str) -> None:
        """Compare the buffers of a persistent request that is about to be started."""
        if id(request) in self._persistent:
            _, what, regions = self._persistent[id(request)]
            self.use(rank, f"{what}, started{where},", regions)

    def look(self, rank: int, requests: Iterable[object], where: str, end: Place) -> None:
        """Report buffers that have changed while being sent from, or were read, before a wait.

        What lies where they receive is noted: `end` compares.
        """
        from labkit.comm.early_reads import early_read  # only checked runs search the program

        for request in requests:
            found = self._pending.get(rank, {}).get(id(request))
            if found is None:
                continue
            line = None
            if found.place is not None and found.written is not None:
                line = early_read(found.place, end, *found.written)
            if line is not None:
                self.tell(
                    f"{found.what}: its buffer was read at line {line}, before {where}; what is read may be "
                    "the old data. Read it after the Wait"
                )
            if found.receives is not None:
                found.found = [region.sum() if region.is_written else None for region in found.regions]
            for number, (region, before) in enumerate(zip(found.regions, found.sums, strict=True)):
                if not region.is_written and before is not None and region.sum() != before:
                    found.sums[number] = None
                    self.tell(
                        f"{found.what}: its buffer was changed before {where}; what arrives "
                        "may be the old data or the new. Change it after the Wait, or send a copy"
                    )

    def end(self, rank: int, request: object, status: object) -> None:
        """Note that a request is over."""
        found = self._pending.get(rank, {}).pop(id(request), None)
        if found is not None and found.was_written_over():
            self.tell(
                f"{found.what}: its buffer was written into before its Wait; what has come has overwritten "
                "that, or the other way round. Write into it after the Wait"
            )
        if found is not None and found.receives is not None and status is not None:
            context, me, kind, name = found.receives
            self.received(context, me, status, kind, name, found.what)

    # --- the end ----------------------------------------------------------------------------------

    def left(self) -> list[str]:
        """Return as sentences which requests were never waited for."""
        by_call: dict[str, list[int]] = {}
        for rank, pending in sorted(self._pending.items()):
            for call in dict.fromkeys(one.what.partition(": ")[2] for one in pending.values() if one.request):
                by_call.setdefault(call, []).append(rank)
        for call, ranks in by_call.items():
            self.tell(f"{ranks_text(ranks)}: {call}: its request was never waited for")
        return self.seen()

    def seen(self) -> list[str]:
        """Return what has been reported."""
        hidden = [f"... and {self.more} more"] if self.more else []
        return [f"check: {text}" for text in [*self.told, *hidden]]


# The memory of a checked call's buffers: the bytes that they take, exactly, and the elements in it.


#: types whose elements may be anything
_BYTES = frozenset({"BYTE", "PACKED", "CHAR", "SIGNED_CHAR", "UNSIGNED_CHAR", "INT8_T", "UINT8_T", "C_BOOL"})
#: runs of equal elements that are compared; a message of more is taken for anything from there on
_MOST_RUNS = 256
_Numbers = NDArray[np.int64]


@dataclass
class MemoryRegion:
    """Memory that a call uses.

    `message`: What the call was given; it keeps the memory where it is.
    `begins`, `ends` (numpy.ndarray, shape (runs,)): Addresses of its bytes, in ascending order: of a datatype
        with gaps, the gaps are left out.
    """

    message: Simple
    begins: _Numbers
    ends: _Numbers
    is_written: bool

    @property
    def nbytes(self) -> int:
        """How many there are."""
        return int((self.ends - self.begins).sum())

    def sum(self) -> int:
        """Return a checksum of what lies there now."""
        if self.message.home is not None:
            return zlib.crc32(self.message.home.gathered())
        message = self.message
        data: Any = message.memory[message.offset : message.offset + message.bytes]
        return zlib.crc32(data)

    def overlaps(self, other: MemoryRegion) -> bool:
        """Whether they have a byte in common, and one of them is written."""
        if not (self.is_written or other.is_written):
            return False
        # of each of our runs: the first of theirs that ends behind its beginning
        first = np.searchsorted(other.ends, self.begins, side="right")
        is_there = first < len(other.begins)
        return bool((other.begins[first[is_there]] < self.ends[is_there]).any())


#: kinds of elements in a row and how many of each, "object" for a pickled one, None for anything
Elements = tuple[tuple[str, int], ...] | str | None


def _simple_of(message: object) -> Simple | None:
    """Read a message of one block; None for anything else."""
    try:
        found = parse_simple(message, False)
    except Exception:  # the call itself says what is wrong with it
        return None
    return found if found.memory.dtype == np.uint8 and type(found.memory) is np.ndarray else None


def region_of(message: object, is_written: bool) -> list[MemoryRegion]:
    """Return the memory of a message of one block, as a list of one; nothing of others and of empty ones."""
    found = _simple_of(message)
    if found is None or found.bytes == 0:
        return []
    if found.home is not None:
        begins, ends = found.home.runs()
    else:
        begin = address_of(found.memory) + found.offset
        begins, ends = np.array([begin], np.int64), np.array([begin + found.bytes], np.int64)
    return [MemoryRegion(found, begins, ends, is_written)] if len(begins) else []


def elements_of(message: object) -> tuple[Elements, str]:
    """Return the kinds of a message's elements, and the name of their type."""
    found = _simple_of(message)
    if found is None:
        return None, "several blocks"
    body = found.datatype._body
    basics = body.basics()
    names = dict.fromkeys(str(kind.constant) for kind, _ in basics)
    name = str(body.constant or f"a derived datatype of {', '.join(names)}")
    if not basics or any(not kind.constant or kind.constant in _BYTES for kind, _ in basics):
        return None, name
    return _row(basics, found.count), name


def _row(basics: list[tuple[TypeBody, int]], count: int) -> tuple[tuple[str, int], ...]:
    """Return the runs of equal elements in `count` elements of a type, as far as they are compared."""
    if len(basics) == 1:
        return ((str(basics[0][0].code), basics[0][1] * count),)
    row: list[tuple[str, int]] = []
    for kind, times in (basics * min(count, _MOST_RUNS // len(basics) + 1))[:_MOST_RUNS]:
        if row and row[-1][0] == kind.code:
            row[-1] = (row[-1][0], row[-1][1] + times)
        else:
            row.append((str(kind.code), times))
    return tuple(row)


def agree(sent: Elements, taken: Elements) -> bool:
    """Whether a message's elements are what its receiver takes them for, as far as either one goes."""
    if sent is None or taken is None:
        return True
    if isinstance(sent, str) or isinstance(taken, str):
        return sent == taken
    mine, theirs = list(sent[::-1]), list(taken[::-1])
    while mine and theirs:
        (kind, count), (other, number) = mine.pop(), theirs.pop()
        if kind != other:
            return False
        both = min(count, number)
        mine += [(kind, count - both)] if count > both else []
        theirs += [(other, number - both)] if number > both else []
    return True


# Stand-ins for the methods while a checked run goes on: each reports its call to `Checks`.


_BUFFERS = ("read", "write")


def _named(method: Method, arguments: tuple[object, ...]) -> dict[str, Any]:
    return {one.name: value for one, value in zip(method.parameters, arguments, strict=True)}


def _regions(method: Method, comm: Intracomm, given: Mapping[str, object]) -> list[Any]:
    """Return the memory that a call uses, as far as its buffers are single blocks."""
    found: list[object] = []
    for one in method.parameters:
        value = given[one.name]
        if one.role not in _BUFFERS or is_in_place(value):
            continue
        if method.kind in ("collective", "neighbor") and isinstance(value, list | tuple) and len(value) > 2:
            continue  # with counts and displacements: only parts of it
        is_root = method.base == "Bcast" and given.get("root") == comm.rank
        found += region_of(value, one.role == "write" and not is_root)
    return found


def _watched(
    method: Method, call: Callable[..., object], comm: Intracomm, arguments: tuple[object, ...]
) -> Any:
    """Make a call of a communicator, and report it."""
    simulation = running()
    checks = None if simulation is None else simulation.checks
    if simulation is None or checks is None or simulation.hub.rank in checks.inside:
        return call(comm, *arguments)
    rank, given = simulation.hub.rank, _named(method, arguments)
    what = f"rank {rank}: {method.name}{_where()}"
    if (method.kind == "probe" and method.base[:1] in "mM") or method.form == "persistent":
        checks.is_blind = True
    if method.kind == "probe":
        return call(comm, *arguments)
    regions = _regions(method, comm, given)
    if method.form == "persistent":
        request = call(comm, *arguments)
        checks.made(request, what, regions)
        return request
    checks.use(rank, what, regions)
    if method.form == "blocking":
        _overlap_within(checks, what, regions)
    is_message = method.kind in ("send", "receive", "exchange") and bool(comm)
    context, me = (int(comm._context), comm.rank) if is_message else (0, 0)
    if method.kind in ("send", "exchange") and is_message:
        tag = given.get("sendtag", given.get("tag"))
        data = given.get("sendbuf", given.get("buf")) if method.is_buffer else None
        kind, name = elements_of(data) if method.is_buffer else ("object", "a pickled object")
        checks.sent(context, me, int(given["dest"]), int(tag or 0), SentMessage(kind, name, what, rank))
    takes = None
    if method.kind in ("receive", "exchange") and is_message:
        data = given.get("recvbuf", given.get("buf"))
        takes = (context, me, *(elements_of(data) if method.is_buffer else ("object", "a pickled object")))
    if "status" in given and takes is not None:
        given["status"] = Status() if given["status"] is None else given["status"]
    checks.inside.add(rank)
    try:
        answer = call(comm, *given.values())
    finally:
        checks.inside.discard(rank)
    if method.form == "nonblocking" and isinstance(answer, Request):
        pending = PendingCall.of(answer, what, regions, takes)
        pending.place, pending.written = here(), _written(method)
        checks.begin(rank, pending)
    elif takes is not None and "status" in given:
        checks.received(context, me, given["status"], takes[2], takes[3], what)
    return answer


def _written(method: Method) -> tuple[str, str, int] | None:
    """Return a method with the name and the place of the parameter that it receives into."""
    for position, one in enumerate(method.parameters):
        if method.is_buffer and one.role == "write" and method.base != "Bcast":
            return method.name, one.name, position
    return None


def _overlap_within(checks: Any, what: str, regions: list[Any]) -> None:
    for number, one in enumerate(regions):
        if any(one.overlaps(other) for other in regions[:number]):
            checks.tell(f"{what}: its buffers overlap; give another one, or IN_PLACE where MPI has it")


def _waited(method: Method, call: Callable[..., object], first: Any, arguments: tuple[object, ...]) -> object:
    """Wait for requests, or test them, and report which are over."""
    simulation = running()
    checks = None if simulation is None else simulation.checks
    if simulation is None or checks is None or simulation.hub.rank in checks.inside:
        return call(*(first + arguments))
    rank, given = simulation.hub.rank, _named(method, arguments)
    requests = [*first] if method.kind == "one" else list(given["requests"])
    checks.look(rank, requests, f"{method.name}{_where()}", here())
    name = "statuses" if "statuses" in given else "status"
    if given[name] is None:
        given[name] = [] if name == "statuses" else Status()
    checks.inside.add(rank)
    try:
        answer = call(*first, *given.values())
    finally:
        checks.inside.discard(rank)
    statuses = _by_index(method, answer, given[name])
    for index, request in enumerate(requests):
        if _is_complete(request):
            checks.end(rank, request, statuses.get(index))
    return answer


def _is_complete(request: object) -> bool:
    """Whether a request is over: null, or, of a persistent one, inactive."""
    return not request or (isinstance(request, Prequest) and request._is_over() is None)


def _by_index(method: Method, answer: Any, statuses: Any) -> dict[int, Any]:
    """Return the statuses of the requests that are over, by their places in the list."""
    if method.kind == "one":
        return {0: statuses}
    if method.kind == "all":
        return dict(enumerate(statuses))
    found = answer[0] if isinstance(answer, tuple) else answer
    if method.kind == "any":
        return {found: statuses}
    return dict(zip(found or (), statuses, strict=False))


def _where() -> str:
    place = place_of(sys._getframe())
    return "" if place is None else f" at {place.file}:{place.line}"


_SPACE = {
    "watched": _watched,
    "waited": _waited,
    "SUM": OPERATORS["SUM"],
    "ANY_SOURCE": CONSTANTS["ANY_SOURCE"],
    "ANY_TAG": CONSTANTS["ANY_TAG"],
}


def _stand_in(owner: type, method: Method) -> object:
    original = getattr(owner, method.name)
    arguments = "({args},)" if method.parameters else "()"
    if method in REQUESTS:
        first = "()" if "requests" in method.arguments else "(self,)"
        function = made(method, f"waited(method, call, {first}, {arguments})", {**_SPACE, "call": original})
        return classmethod(function) if "requests" in method.arguments else function
    return made(method, f"watched(method, call, self, {arguments})", {**_SPACE, "call": original})


def _guarded(owner: type, name: str) -> object:
    """Return a start of persistent requests: their buffers are watched, their messages are not followed."""
    original = getattr(owner, name)
    is_of_class = isinstance(inspect.getattr_static(owner, name), classmethod)

    @functools.wraps(original)
    def start(first: object, *arguments: object) -> object:
        simulation = running()
        checks = None if simulation is None else simulation.checks
        given = arguments if is_of_class else (first, *arguments)
        if checks is None or simulation is None or simulation.hub.rank in checks.inside:
            return original(*given)
        rank, where = simulation.hub.rank, _where()
        requests = list(given[0]) if is_of_class and isinstance(given[0], Iterable) else list(given)
        for request in requests:
            checks.use_again(rank, request, where)
        checks.inside.add(rank)
        try:
            original(*((requests,) if is_of_class else given))
        finally:
            checks.inside.discard(rank)
        for request in requests:
            checks.start(rank, request, where)
        return None

    return classmethod(start) if is_of_class else start


def _own() -> Iterator[tuple[type, Method]]:
    """Yield the classes' own methods: those that no class above them has, too."""
    for owner, above in ((Comm, None), (Intracomm, Comm), (Intercomm, Comm)):
        for row in METHODS:
            own = inspect.getattr_static(owner, row.name, None)
            if own is not None and own is not inspect.getattr_static(above, row.name, None):
                yield owner, row
    yield from ((Request, row) for row in REQUESTS)


def _stand_ins() -> list[tuple[type, str, object]]:
    """Return what stands in for which methods, around what notes their calls where that is there, too."""
    calls = [(owner, row.name, _stand_in(owner, row)) for owner, row in _own()]
    return calls + [(Prequest, name, _guarded(Prequest, name)) for name in ("Start", "Startall")]


#: in this context the calls of runs that are checked are watched
CHECKING = Patches(_stand_ins, upon=NOTING)
