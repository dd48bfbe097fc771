"""The ledger of a rank of a real run: calls, communicators, sizes of pickled objects."""

from __future__ import annotations

import contextlib
import hashlib
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import update_wrapper
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

import labkit
from labkit._kernels import CallPlaces, RankLog, noted_call
from labkit.comm.buffers import Simple, Vector, parse_simple, parse_vector
from labkit.comm.collective.calls import action_of, group_line
from labkit.comm.collective.native import BoundBuffer, Call
from labkit.comm.handles.base import BOTTOM
from labkit.comm.handles.datatypes import DATATYPES, Datatype
from labkit.comm.surface import Method, made
from labkit.errors import UnsupportedError
from labkit.trace.counters import EVENTS, Columns, is_counted, refused, summed_columns

if TYPE_CHECKING:
    from mpi4py.MPI import Comm

__all__ = [
    "Function",
    "Known",
    "Ledger",
    "Places",
    "RankSummary",
    "Sizes",
    "Undetermined",
    "guarded",
    "noted_methods",
]


#: tags of the messages that a collective of objects is made of, as the simulated communicators number them
_PRIVATE_TAG = 0x40000000

#: an even number is a communicator's own, the odd one after it is for messages of its collectives
_WORLD, _SELF, _FIRST = 0, 2, 4


class Undetermined(UnsupportedError):
    """A call whose part in the trace is not known."""

    code = "not-recordable"


@dataclass
class Known:
    """A communicator that the program uses.

    `number`: This rank's number of it.
    `key`: The same at all its ranks, and no other communicator's.
    `ranks`: Its ranks in the world.
    `rank`: This rank in it.
    """

    number: int
    key: str
    ranks: list[int]
    rank: int
    collectives: int = 0
    made: int = 0
    joined: int = 0
    is_declared: bool = False

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.ranks)

    def private_tag(self) -> int:
        """Return the tag of the messages of its next collective."""
        tag = self.collectives & 1 | _PRIVATE_TAG  # a neighbor's differs, and loops repeat
        self.collectives += 1
        return tag


def _nowhere() -> int:
    return -1


# The summary of a real rank: what its log has noted is summed up every so often, and forgotten.

#: calls, or borders of phases, that are kept until they are summed up
MOST_CALLS = 1024


class RankSummary:
    """The sums of what a rank's log notes.

    `log`: Of the rank; it notes times, and sums them up.
    `names`: The numbers of the calls' names, in their order.
    `most`: Calls that are kept until they are summed up; 0: the log keeps all, and they are summed up at the
        end.
    `counters`: Of the host, summed up likewise: see `labkit.trace.counters`.

    Notes
    -----
    A send that is taken back after its call was summed up counts all the same.
    """

    def __init__(
        self,
        log: RankLog,
        names: Mapping[str, int],
        most: int = MOST_CALLS,
        counters: Sequence[str] = (),
    ) -> None:
        self._log, self._names, self.counters = log, names, tuple(counters)
        self._states: list[int] = log.count([EVENTS[name][:2] for name in counters]) if counters else []
        log.sum_up(most)

    def columns(self, rank: int, places: Sequence[str]) -> Columns:
        """Return the sums as those of a rank: see `labkit.trace.counters.summed_columns`."""
        columns = summed_columns(self._log.summed_columns(), list(self._names), places, self.counters)
        for name, state in zip(self.counters, self._states, strict=True):
            if not is_counted(name, state):
                columns[name] = np.full(len(columns[name]), np.nan)
        columns["rank"][:] = rank
        return columns

    def said(self) -> list[str]:
        """Return as sentences which counters this host does not give, and why."""
        return refused(self.counters, self._states, self._log.counted_share()) if self.counters else []


# Call paths: the places of calls in the program, by code and line.

_PACKAGE = os.path.dirname(os.path.abspath(labkit.__file__))

_MPI = tuple(os.path.join(_PACKAGE, *room) + os.sep for room in (("trace", "recorder"), ("comm",)))

_MACHINES = tuple(os.path.join(_PACKAGE, room) + os.sep for room in ("real", "sim"))

#: functions of a path; of deeper ones the outermost are left out
_MOST = 8


class _Kinds(dict[str, int]):
    """By file: 0 the program's, 1 that of a call of MPI, 2 what calls the program."""

    def __missing__(self, file: str) -> int:
        is_machine = file.startswith((*_MACHINES, "<frozen runpy"))
        kind = self[file] = 1 if file.startswith(_MPI) else 2 * is_machine
        return kind


class Places:
    """The call paths of one rank, by number.

    `here`: Returns the number of the place in the program that made the present call.

    Examples
    --------
    >>> places = Places()
    >>> places.texts()
    []
    """

    def __init__(self) -> None:
        self._kinds = _Kinds()
        self._paths = _Paths(self._kinds)  # apart: what the kernel holds must not hold the kernel's
        #: for compiled callers
        self.numbers = CallPlaces(self._kinds.__getitem__, self._paths.number, _MOST)
        self.here: Callable[[], int] = self.numbers.here
        #: the same, in frames further out, for a call that stands in for another; -1: MPI has made that
        self.outside: Callable[[int], int] = self.numbers.outside

    def texts(self) -> list[str]:
        """Return the paths by number, as ``program > exchange, prog.py:12``."""
        return [_text(line, codes) for line, codes in self._paths.codes]


class _Paths:
    """The call paths that were seen, by line and code; `labkit._kernels.CallPlaces` asks once for each."""

    def __init__(self, kinds: _Kinds) -> None:
        self._numbers: dict[tuple[int, ...], int] = {}
        self.codes: list[tuple[int, list[CodeType]]] = []
        self._kinds = kinds

    def number(self, frame: FrameType) -> int:
        """Return the number of a place in the program."""
        kinds, line = self._kinds, frame.f_lineno
        codes: list[CodeType] = []
        above: FrameType = frame
        while kinds[above.f_code.co_filename] != 2 and len(codes) < _MOST:
            codes.append(above.f_code)
            if above.f_back is None:
                break
            above = above.f_back
        key = (line, *map(id, codes))  # they live: they are kept with their number
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.codes)
            self.codes.append((line, codes))
        return number


def _text(line: int, codes: list[CodeType]) -> str:
    if not codes:
        return ""
    names = " > ".join(code.co_name for code in reversed(codes))
    return f"{names}, {os.path.basename(codes[0].co_filename)}:{line}"


class Ledger:
    """The notes of one rank.

    `mpi`: ``mpi4py.MPI``, before anything of it is replaced.
    `flops_per_s`: What a second of computation counts for.
    `is_measuring`: Whether the thread's CPU time between calls is computation, in the lines.
    `has_lines`: Whether a time-independent trace is wanted: what that cannot say is then refused.
    `has_times`: Whether it is noted when each call began and ended.
    `is_summed`: Whether times are summed up by call path, and no call is kept.
    `counters`: Of the host, by call path, where there are times: see `labkit.trace.counters`.
    """

    def __init__(
        self,
        mpi: ModuleType,
        flops_per_s: float,
        is_measuring: bool,
        has_lines: bool = True,
        has_times: bool = False,
        is_summed: bool = False,
        counters: Sequence[str] = (),
    ) -> None:
        world = mpi.COMM_WORLD
        self.log = RankLog(world.rank, flops_per_s, is_measuring, has_lines, has_times)
        self.has_lines, self.has_times = has_lines, has_times
        self.size: int = world.size
        self.world_rank: int = world.rank
        self.any_source: int = mpi.ANY_SOURCE
        self.any_tag: int = mpi.ANY_TAG
        self.no_proc: int = mpi.PROC_NULL
        self.sum: Any = mpi.SUM
        self.dumped: list[int] = []
        self.loaded: list[int] = []
        #: said once each: what the trace lacks
        self.notes: dict[str, None] = {}
        self.polls = 0
        self.names: dict[str, int] = {}
        self.summary: RankSummary | None = None
        self._is_summed = is_summed
        if is_summed or counters:
            self.summary = RankSummary(self.log, self.names, MOST_CALLS if is_summed else 0, counters)
        self.places = Places()
        #: where the present call was made; no place where times are not noted
        self.here: Callable[[], int] = self.places.here if has_times else _nowhere
        #: by number of a call its blocks for the ranks of its communicator, where these differ
        self.blocks: dict[int, list[int]] = {}
        #: calls on windows, as `labkit.trace.recorder.windows.WindowCall` has them; None where none is kept
        self.windows: list[tuple[int, int, tuple[int, ...], bool]] | None = None if is_summed else []
        #: by number of a communicator of a topology the ranks of the world from which this one receives there
        self.sources: dict[int, list[int]] = {}
        self._world_group: object = world.Get_group()
        self._known: dict[int, Known] = {}
        self._keys: dict[int, str] = {}
        self._groups: dict[object, int] = {}
        everybody = list(range(self.size))
        self._known[world.handle] = Known(_WORLD, "world", everybody, world.rank)
        self._known[mpi.COMM_SELF.handle] = Known(_SELF, "self", [world.rank], 0)
        self.null: object = mpi.COMM_NULL

    # -- the border of a call -------------------------------------------------------------------------------

    def number(self, name: str) -> int:
        """Return the number of a call's name."""
        return self.names.setdefault(name, len(self.names))

    def enter(self, number: int) -> None:
        """Begin a call; what it calls in turn is not noted."""
        self.log.is_busy = True
        self.log.enter(number, self.here())

    def leave(self) -> None:
        """End a call."""
        self.log.is_busy = False
        self.log.leave()

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Note posts that are a collective's: for the lines only."""
        self.log.is_quiet = True
        try:
            yield
        finally:
            self.log.is_quiet = False

    def compiled(self, name: str, original: object, general: Any, status: object) -> Any:
        """Return a blocking send or receive of arrays that is noted without a frame of Python.

        `general` is the method for all other arguments, `status` that of receives without one.
        """
        made = noted_call(
            name,
            original,
            general,
            self.log,
            places=self.places.numbers if self.has_times else None,
            known=self._known,
            status=status,
            number=self.number(name),
            no_proc=self.no_proc,
            any_source=self.any_source,
            any_tag=self.any_tag,
        )
        return update_wrapper(made, general)

    def gave(self, number: int, blocks: list[int]) -> None:
        """Note the bytes of a collective call's blocks, where these differ; sums do not need them."""
        if not self._is_summed:
            self.blocks[number] = blocks

    def polled(self) -> None:
        """Note that the present call found nothing."""
        self.polls += 1
        self.log.polled()

    # -- communicators --------------------------------------------------------------------------------------

    def known(self, comm: Comm) -> Known:
        """Return what is known of a communicator.

        Raises Undetermined: It was made where no recorded call made it.
        """
        found = self._known.get(comm.handle)
        if found is None and not self.has_lines:
            ranks = self.world_ranks(comm.Get_group())
            self._register(comm, f"unrecorded/{ranks}", ranks)
            found = self._known[comm.handle]
        if found is None:
            raise Undetermined(
                "this communicator was not made by a call that labkit recorded (by a library, or before the "
                "program began), so its messages have no place in a trace; leave trace_ti out"
            )
        return found

    def made(self, parent: Known, comm: Comm) -> None:
        """Note a communicator that all ranks of another one made together; COMM_NULL for those outside."""
        parent.made += 1
        if comm != self.null:
            ranks = self.world_ranks(comm.Get_group())
            self._register(comm, f"{parent.key}/{parent.made}/{ranks}", ranks)

    def made_by_group(self, parent: Known, comm: Comm, tag: int) -> None:
        """Note a communicator that its members alone made."""
        ranks = self.world_ranks(comm.Get_group())
        key = (parent.key, tuple(ranks), tag)
        number = self._groups[key] = self._groups.get(key, 0) + 1
        self._register(comm, f"{parent.key}/group {tag}/{number}/{ranks}", ranks)

    def world_ranks(self, group: Any) -> list[int]:
        """Return the world ranks of a group's members."""
        mine = list(range(group.Get_size()))
        found: list[int] = type(group).Translate_ranks(group, mine, self._world_group)
        return found

    def opened(self, parent: Known) -> Known:
        """Note a window that all ranks of a communicator made together."""
        parent.made += 1
        return self._numbered(f"{parent.key}/{parent.made}/window", parent.ranks, parent.rank)

    def described(self, parent: Known) -> Known:
        """Note a persistent collective that all ranks of a communicator made together."""
        parent.made += 1
        return self._numbered(f"{parent.key}/{parent.made}/collective", parent.ranks, parent.rank)

    def _register(self, comm: Comm, key: str, ranks: list[int]) -> None:
        self._known[comm.handle] = self._numbered(key, ranks, comm.Get_rank())

    def _numbered(self, key: str, ranks: list[int], rank: int) -> Known:
        number = _FIRST + 2 * len(self._keys)
        digest = hashlib.sha256(key.encode()).hexdigest()[:32]
        self._keys[number] = digest
        return Known(number, digest, ranks, rank)

    def forget(self, handle: int) -> None:
        """Forget a communicator that was freed."""
        self._known.pop(handle, None)

    # -- calls ----------------------------------------------------------------------------------------------

    def world_peer(self, known: Known, rank: int) -> int:
        """Return the world's number of a rank; -1 for any source."""
        return -1 if rank == self.any_source else known.ranks[rank]

    def joined(self, known: Known, n_bytes: int, root: int | None = None) -> int:
        """Note, for the times, that the present call is the communicator's next collective; its number."""
        known.joined += 1
        world_root = -1 if root is None else known.ranks[root]
        number: int = self.log.joined(known.number, known.joined - 1, n_bytes, world_root, known.rank)
        return number

    def hears(self, known: Known, sources: Sequence[int]) -> None:
        """Note from whom the rank receives in a call to neighbors."""
        if known.number not in self.sources:
            own = [known.ranks[source] for source in sources if source != self.no_proc]
            self.sources[known.number] = own

    def sized(self, n_bytes: int) -> None:
        """Note how much the present call sends, where that is known only after it."""
        self.log.sized(n_bytes)

    def collective(self, known: Known, call: Call) -> None:
        """Note a collective call in the lines."""
        known.collectives += 1
        if not self.has_lines:
            return
        size, context = known.size, known.number
        if size == 1 and self.size > 1:
            return  # nothing moves
        if context and size == self.size and known.ranks == list(range(size)):
            context = 0  # a copy of the world: its collectives are the world's
        elif context and not known.is_declared:
            known.is_declared = True
            self.log.declare(group_line(context, known.ranks))
        self.log.collective(action_of(call, size, known.rank, context))

    def plain(
        self, known: Known, problem: str, element_bytes: int = 1, elements: int = 0, root: int = 0
    ) -> None:
        """Note a collective that moves one block, or equal ones."""
        buffer = BoundBuffer(None, element_bytes, elements)
        buffers = () if problem == "barrier" else (buffer, buffer)
        self.collective(known, Call(problem, problem, root, {}, element_bytes * elements, buffers=buffers))

    def tables(
        self, known: Known, problem: str, sent: Sequence[int], received: Sequence[int], root: int = 0
    ) -> None:
        """Note a vector collective of bytes."""
        first, second = BoundBuffer(None, 1, 0, list(sent)), BoundBuffer(None, 1, 0, list(received))
        self.collective(known, Call(problem, problem, root, {}, 0, buffers=(first, second)))

    def mark(self, line: str) -> None:
        """Note something that is no call, and what was computed before it."""
        self.log.pause()
        self.log.declare(line)
        self.log.resume()

    def missing(self, call: str, reason: str) -> Undetermined:
        """Return the error for a call that cannot be recorded."""
        return Undetermined(f"MPI.{call} cannot be recorded: {reason}; leave trace_ti out to run it")

    # -- the end --------------------------------------------------------------------------------------------

    def identities(self) -> dict[int, str]:
        """Return what the ranks of a communicator have in common, by this rank's numbers."""
        return dict(self._keys)

    def remarks(self) -> list[str]:
        """Return as sentences what the trace does not show."""
        polls = f"{self.polls} tests and probes found nothing" if self.polls else None
        return [*self.said(), *([polls] if polls else [])]

    def said(self) -> list[str]:
        """Return what is said once each."""
        if self.log.is_of_several:
            self.notes["several threads of a rank called MPI: the trace has their calls in one order"] = None
        return list(self.notes)

    def timeline(self) -> dict[str, object]:
        """Return the calls and the messages of this rank with their times, as arrays, and their names.

        Where they were summed up, the sums; with counters, their sums as well.
        """
        summed: dict[str, object] = {}
        if self.summary is not None:
            sums = self.summary.columns(self.world_rank, self.places.texts())
            summed = {"summary" if self._is_summed else "counted": sums, "uncounted": self.summary.said()}
        if self._is_summed:
            return {**summed, "notes": self.said()}
        return {
            **summed,
            "calls": self.log.call_columns(),
            "posts": self.log.post_columns(),
            "names": list(self.names),
            "places": self.places.texts(),
            "communicators": self.identities(),
            "notes": self.said(),
            "blocks": dict(self.blocks),
            "probes": self.log.probe_columns(),
            "sources": dict(self.sources),
            "windows": self.windows or [],
        }


# Lengths of the messages that a program hands to mpi4py.
#
# mpi4py's list forms are those that the simulated calls take, so the simulator's reading of them is used,
# with mpi4py's datatypes turned into the simulator's. A derived datatype counts what it sends, not what it
# spans.


_BY_NAME = {kind.name: kind for kind in DATATYPES.values()}

_NOTHING = np.empty(0, np.uint8)


class Sizes:
    """Reads messages for mpi4py's module.

    `mpi`: ``mpi4py.MPI``.
    """

    def __init__(self, mpi: ModuleType) -> None:
        self._datatype: Any = mpi.Datatype
        self._bottom: object = mpi.BOTTOM
        self._in_place: object = mpi.IN_PLACE

    def is_in_place(self, message: object) -> bool:
        """Whether the data lies in the other buffer."""
        return message is None or message is self._in_place

    def bytes(self, message: object) -> int:
        """Return the length of a message of one block."""
        if type(message) is np.ndarray:  # the most frequent one, at a tenth of the general way's cost
            return int(message.nbytes)
        return self.simple(message).bytes

    def simple(self, message: Any, blocks: int = 0, is_operand: bool = False) -> Simple:
        """Read a message of one block, or of equal blocks; what is combined keeps gaps, as in simulation."""
        kind = self._given(message)
        if kind is None or kind.is_predefined:
            return parse_simple(self._translated(message, kind), False, blocks, is_operand)
        count = message[1] if len(message) > 2 else None
        if isinstance(count, list | tuple):
            count = count[0]
        number = _spanned(message[0], kind) // max(blocks, 1) if count is None else operator.index(count)
        return Simple(_NOTHING, 0, number, _known(kind))

    def vector(self, message: Any, blocks: int) -> Vector:
        """Read a message of blocks of any sizes."""
        kind = self._given(message)
        if kind is None or kind.is_predefined:
            return parse_vector(self._translated(message, kind), False, blocks)
        counts = message[1] if len(message) > 2 else None
        if isinstance(counts, tuple):
            counts = counts[0]
        if counts is None:
            number = _spanned(message[0], kind)
            sizes = number // blocks + (np.arange(blocks) < number % blocks)
        else:
            sizes = np.broadcast_to(np.asarray(counts, np.int64), (blocks,)).copy()
        return Vector(_NOTHING, sizes, np.zeros(blocks, np.int64), _known(kind))

    def unequal(self, message: object) -> tuple[int, int] | None:
        """Return an element's bytes as sent and as counted where these differ (a value with its location)."""
        kind = self._given(message)
        if kind is None or not kind.is_predefined or kind.size == kind.extent:
            return None
        return int(kind.size), int(kind.extent)

    def _given(self, message: object) -> Any:
        """Return the datatype that a list form names, None where it names none."""
        if isinstance(message, list | tuple) and len(message) > 1 and isinstance(message[-1], self._datatype):
            return message[-1]
        return None

    def _translated(self, message: object, kind: object) -> object:
        """Return a message with what the simulator's reader knows."""
        if not isinstance(message, list | tuple):
            return message
        items = [BOTTOM if item is self._bottom else item for item in message]
        if kind is not None:
            items[-1] = _known(kind)
        return items


def _known(kind: Any) -> Datatype:
    """Return the simulator's datatype; one of the same number of bytes for those it has not."""
    name = str(kind.name)
    if kind.is_predefined and name in _BY_NAME:
        return _BY_NAME[name]
    return Datatype._make(None, name or "derived", f"V{kind.size}" if kind.size else "", "")


def _spanned(buffer: Any, kind: Any) -> int:
    """Count the elements that a buffer has room for."""
    length = 0 if buffer is None else memoryview(buffer).nbytes
    return length // int(kind.extent) if length else 0


# Methods in place of mpi4py's, which note the program's calls: one for each row of mpi4py's surface.

#: a method, or what stands for one
Function = Callable[..., Any]


def noted_methods(
    ledger: Ledger,
    own: dict[str, Any],
    rows: Iterable[Method],
    note: Callable[[Method, Function], Function | None],
) -> dict[str, Any]:
    """Return what stands for methods of a class."""
    methods: dict[str, object] = {}
    defaults = {"ANY_SOURCE": ledger.any_source, "ANY_TAG": ledger.any_tag, "SUM": ledger.sum}
    for row in rows:
        original = own.get(row.name)
        if original is None:
            continue
        noted = note(row, original)
        if noted is not None:
            space = {**defaults, "call": guarded(ledger, row.name, original, noted)}
            methods[row.name] = made(row, "call(self, {args})", space)
    return methods


def guarded(ledger: Ledger, name: str, original: Function, noted: Function) -> Function:
    """Return a call that is noted, unless it is one that mpi4py, or an operator, makes inside another."""
    number, log = ledger.number(name), ledger.log
    begin, here, end = log.enter, ledger.here, log.leave

    def call(self_: object, *arguments: object, **named: object) -> object:
        if log.is_busy:
            return original(self_, *arguments, **named)
        log.is_busy = True  # `Ledger.enter` and `leave`, here for their cost: two frames of Python a call
        begin(number, here())
        try:
            return noted(self_, *arguments, **named)
        finally:
            log.is_busy = False
            end()

    return call
