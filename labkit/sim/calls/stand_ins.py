"""Stand-ins for the methods while a traced run goes on: each notes its call and makes it."""

from __future__ import annotations

import contextlib
import functools
import inspect
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from labkit import _kernels
from labkit._kernels import HubSums
from labkit.comm.buffers import parse_simple, parse_vector, parse_vector_w
from labkit.comm.collective.makers import maker_of
from labkit.comm.communicator import Comm
from labkit.comm.files.file import File
from labkit.comm.handles.base import is_in_place
from labkit.comm.handles.constants import CONSTANTS
from labkit.comm.handles.operators import OPERATORS
from labkit.comm.handles.status import Message, Prequest, Request
from labkit.comm.intercomm import Intercomm
from labkit.comm.intracomm import Intracomm
from labkit.comm.pickling import Pickle
from labkit.comm.rma.window import Win
from labkit.comm.surface import FILE_CALLS, MAKERS, METHODS, NAMED, REQUESTS, WINDOW_CALLS, Method, made, over
from labkit.comm.topologies import Cartcomm, Distgraphcomm, Graphcomm, Topocomm
from labkit.schedule.problem import PROBLEMS
from labkit.sim.isolation.patches import Patches
from labkit.sim.simulation import Simulation, running
from labkit.trace.counters import Columns, summed_columns
from labkit.trace.recorder.collectives import OF_BLOCKS, PLAIN, sent_bytes
from labkit.trace.recorder.ledger import Places
from labkit.trace.recorder.timeline import join_calls
from labkit.trace.waiting.kinds import STARTS

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NOTING", "CallNotes", "CallSummary"]


# Persistent collectives of a simulated run: what a start begins, and which starts of the ranks are one.


#: from here down their numbers, among those of communicators
_FIRST = -(1 << 40)


class Persistent(NamedTuple):
    """A persistent collective of a rank.

    `name`: Of the collective, as in ``"Allreduce"``.
    `root`: In the communicator.
    `n_bytes`: What the rank gives.
    `number`: The same for all ranks that made it together; their n-th starts are one collective.
    """

    name: str
    comm: Intracomm
    root: int | None
    n_bytes: int
    number: int


class PersistentCollectives:
    """Those of all ranks."""

    def __init__(self) -> None:
        self._of: dict[object, Persistent] = {}
        self._made: dict[tuple[int, int], int] = {}
        self._numbers: dict[tuple[int, int], int] = {}

    def described(
        self, rank: int, request: Any, name: str, comm: Intracomm, root: int | None, n_bytes: int
    ) -> None:
        """Note one that a rank has made: all ranks make a communicator's in the same order."""
        context = int(comm._context)
        nth = self._made[rank, context] = self._made.get((rank, context), -1) + 1
        number = self._numbers.setdefault((context, nth), _FIRST - len(self._numbers))
        self._of[request._begin] = Persistent(name, comm, root, n_bytes, number)

    def of(self, request: object) -> Persistent | None:
        """Return what was noted of a request; None where it is no collective's."""
        return self._of.get(getattr(request, "_begin", None))


# The bytes that a rank gives to a collective that it calls.


def given_bytes(method: Method, comm: Intracomm, arguments: tuple[object, ...]) -> int:
    """Return the bytes that the rank gives; of objects they are counted when they are pickled."""
    if method.problem in PLAIN and type(arguments[0]) is np.ndarray:  # most calls, immediately
        size: int = arguments[0].nbytes // (comm.size if method.problem in OF_BLOCKS else 1)
        return size
    return _by_layout(method, comm, arguments)


def _by_layout(method: Method, comm: Intracomm, arguments: tuple[object, ...]) -> int:
    """Return the bytes that the rank gives; of objects they are counted when they are pickled."""
    if not (method.is_buffer and arguments):
        return 0
    given = arguments[1] if is_in_place(arguments[0]) else arguments[0]
    with contextlib.suppress(Exception):  # the call itself says what is wrong with it
        if method.kind == "neighbor":
            return _to_neighbors(method.base, given, len(comm.inoutedges[1]))
        if method.base == "Reduce_scatter":  # without counts the ranks would ask each other
            return parse_simple(given, False).bytes
        if method.problem == "alltoallv":  # p numbers are read for what is received, too, and do not matter
            return _of_table(method.base, given, comm.size)
        problem = PROBLEMS[method.problem]
        call = maker_of(method)(comm, problem, method.name, *arguments)
        if problem.layout == "table":  # its `bytes` are what the choice of the algorithm goes by
            call.bytes = 0
            call.buffers = call.buffers[::-1] if problem.name == "scatterv" else call.buffers
        return sent_bytes(call)
    return 0


def _to_neighbors(base: str, given: object, targets: int) -> int:
    if base.startswith("Neighbor_allgather"):
        return parse_simple(given, False).bytes * targets
    if base == "Neighbor_alltoall":
        return parse_simple(given, False).bytes
    return _of_table(base, given, targets)


def _of_table(base: str, given: object, targets: int) -> int:
    table = (parse_vector if base.endswith("v") else parse_vector_w)(given, False, targets)
    return int(table.counts.sum()) * table.element_bytes


#: classes of communicators, and what each has its methods from
_COMMUNICATORS: dict[type, type | None] = {
    Comm: None,
    Intracomm: Comm,
    Intercomm: Comm,
    Topocomm: Intracomm,
    **dict.fromkeys((Cartcomm, Graphcomm, Distgraphcomm), Topocomm),
}
#: calls of requests and messages that the table does not have
_ENDS, _SPLITS = ("Free", "Disconnect"), ("Split", "Split_type")  # a color and a key: 8 bytes
_OTHERS = {
    Prequest: ("Start", "Startall"),
    Message: ("Recv", "recv", "Irecv", "irecv"),
    Intracomm: ("Accept", "Connect", "Spawn", "Spawn_multiple"),
}


def _begin(name: str) -> int:
    """Note a call of the program's; -1 where it is MPI's own, or the run is not traced."""
    simulation = running()
    notes = None if simulation is None else simulation.call_notes
    if notes is None or simulation is None:
        return -1
    if simulation.context.left_out and simulation.context.is_left_out():
        return -1
    place = notes.place_outside(2)
    return -1 if place < 0 else notes.opened(name, place)


def _end(row: int, answer: object) -> Any:
    """Note that it is over, and return its answer."""
    if row >= 0 and (simulation := running()) is not None:
        simulation.call_notes.closed(row)
    return answer


def _looked(method: Method, row: int, answer: object) -> object:
    """Do as `_end`, for a test or a probe."""
    simulation = running()
    if row >= 0 and simulation is not None:
        is_there = answer if method.kind == "probe" else over(method, answer) is not None
        (simulation.call_notes.closed if is_there else simulation.call_notes.polled)(row)
    return answer


def _join(method: Method, row: int, comm: Intracomm, root: int | None, arguments: tuple[object, ...]) -> int:
    """Note a call as a collective."""
    if row >= 0 and (simulation := running()) is not None:
        simulation.call_notes.joined(row, comm, root, given_bytes(method, comm, arguments))
    return row


def _described(
    method: Method,
    row: int,
    comm: Intracomm,
    root: int | None,
    arguments: tuple[object, ...],
    request: object,
) -> object:
    """Note the making of a persistent collective, and return it."""
    simulation = running()
    if row >= 0 and simulation is not None:
        n_bytes = given_bytes(NAMED[method.base], comm, arguments[:-1])  # without the info
        notes = simulation.call_notes
        notes.persistent.described(notes.hub.rank, request, method.base, comm, root, n_bytes)
    return _end(row, request)


def _known(request: Prequest) -> Persistent | None:
    """Return what is noted of a persistent request; None where it is no collective's."""
    simulation = running()
    notes = None if simulation is None else simulation.call_notes
    return None if notes is None else notes.persistent.of(request)


def _started(row: int, known: Persistent | None) -> None:
    """Note that a call starts a persistent collective."""
    simulation = running()
    if row >= 0 and known is not None and simulation is not None:
        simulation.call_notes.joined(row, known.comm, known.root, known.n_bytes, known.number)


def _start(original: Callable[..., object]) -> Callable[..., None]:
    @functools.wraps(original)
    def start(self: Prequest) -> None:
        known = _known(self)
        row = _begin("Start" if known is None else f"{STARTS}{known.name})")
        _started(row, known)
        _end(row, original(self))

    return start


def _start_all(original: Callable[..., object]) -> object:
    """Several are started one after the other: as one call, unless collectives are among them."""

    @functools.wraps(original)
    def start_all(cls: type[Prequest], requests: Sequence[Prequest]) -> None:
        requests = list(requests)
        known = [_known(request) for request in requests]
        if not any(known):
            row = _begin("Startall")
            _end(row, original(requests))
            return
        for request, one in zip(requests, known, strict=True):
            row = _begin("Start" if one is None else f"{STARTS}{one.name})")
            _started(row, one)
            _end(row, original([request]))

    return classmethod(start_all)


def _expression(method: Method) -> str:
    call = "call({args})" if "requests" in method.arguments else "call(self, {args})"
    row = "begin(method.name)"
    if method.kind in ("collective", "neighbor"):
        arguments = "({args},)" if method.parameters else "()"
        joint = f"self, {'root' if 'root' in method.arguments else None}, {arguments}"
        if method.form == "persistent":
            return f"described(method, {row}, {joint}, {call})"
        row = f"join(method, {row}, {joint})"
    is_look = method.form == "nonblocking" and method.kind in ("probe", "one", "all", "any", "some")
    return f"looked(method, {row}, {call})" if is_look else f"end({row}, {call})"


_SPACE = {
    "begin": _begin,
    "end": _end,
    "looked": _looked,
    "join": _join,
    "described": _described,
    "SUM": OPERATORS["SUM"],
    "ANY_SOURCE": CONSTANTS["ANY_SOURCE"],
    "ANY_TAG": CONSTANTS["ANY_TAG"],
}


def _noted(owner: type, name: str, method: Method | None) -> Any:
    """Return what stands in a method's place."""
    original = getattr(owner, name)
    if owner is Prequest:
        return _start(original) if name == "Start" else _start_all(original)
    if method is not None:
        function = made(method, _expression(method), {**_SPACE, "call": original})
        return classmethod(function) if "requests" in method.arguments else function
    is_joint, n_bytes = _is_joint(owner, name), 8 * (name in _SPLITS)
    is_of_class = isinstance(inspect.getattr_static(owner, name), classmethod)

    @functools.wraps(original)
    def call(first: Any, *arguments: Any, **named: Any) -> Any:
        row, simulation = _begin(name), running()
        if is_joint and row >= 0 and simulation is not None:
            simulation.call_notes.joined(row, getattr(first, "_comm", first), None, n_bytes)
        return _end(row, original(*(() if is_of_class else (first,)), *arguments, **named))

    return classmethod(call) if is_of_class else call


def _is_joint(owner: type, name: str) -> bool:
    """Whether all ranks make the call together, as a collective."""
    if owner is Intercomm:  # two groups, each with its own root: every rank's call is its own
        return False
    if owner in (Win, File):
        return name in ("Fence", "Free", "Close")
    return MAKERS.get(name, name in _ENDS)


def _dumps(original: Callable[[Any, Any], bytes]) -> Callable[[Any, Any], bytes]:
    def dumps(self: object, obj: object) -> bytes:
        data, simulation = original(self, obj), running()
        if simulation is not None and simulation.call_notes is not None:
            simulation.call_notes.gave(len(data))
        return data

    return dumps


@cache
def _stand_ins() -> tuple[tuple[type, str, object], ...]:
    """Return what stands in for which methods; the same objects for all runs."""
    return (*((*what[:2], _noted(*what)) for what in _plan()), (Pickle, "dumps", _dumps(Pickle.dumps)))


@cache
def _plan() -> tuple[tuple[type, str, Method | None], ...]:
    """Return what is replaced: each class's own methods, with their rows of the table."""
    rows: dict[str, Method | None] = {row.name: row for row in METHODS} | dict.fromkeys((*MAKERS, *_ENDS))
    plan: list[tuple[type, str, Method | None]] = []
    for owner, above in _COMMUNICATORS.items():
        for name, row in rows.items():
            own = inspect.getattr_static(owner, name, None)
            if own is not None and (above is None or own is not inspect.getattr_static(above, name, None)):
                plan.append((owner, name, None if owner is Intercomm else row))
    plan += [(Request, row.name, row) for row in REQUESTS]
    plan += [(owner, name, None) for owner, names in _OTHERS.items() for name in names]
    plan += [(Win, name, None) for name in WINDOW_CALLS] + [(File, name, None) for name in FILE_CALLS]
    return tuple(plan)


#: in this context the calls of runs that are traced are noted
NOTING = Patches(_stand_ins)


# What the ranks of a run call: noted, and made a table, in a traced run; summed up in one with a summary.


#: polls that follow each other within this time are one call, as in the trace of a real run
_SPIN_S = 20e-6


class CallNotes:
    """What the ranks of one run have called."""

    def __init__(self, simulation: Simulation) -> None:
        self.hub, self._innermost = simulation.hub, simulation.context.innermost_phase
        self.places = Places()
        self.place_outside = self.places.outside
        self.names: dict[str, int] = {}
        self._phases: dict[str, int] = {}
        # by row
        self._rank, self._call, self._place, self._phase = array("i"), array("i"), array("i"), array("i")
        self._begin_s, self._end_s = array("d"), array("d")
        #: which call it was, of all; rows are used again
        self._order, self._opened, self._free = array("q"), 0, array("q")
        #: by rows of collectives: communicator, number in it, bytes, root and the rank's own number
        self._joined: dict[int, list[int]] = {}
        #: by rows of collectives: the algorithm, where the run chooses one
        self._took: dict[int, str] = {}
        self._sequences: dict[tuple[int, int], int] = {}
        #: by rank its last poll, that found nothing; the collective that it is in
        self._polls: dict[int, int] = {}
        self._inside: dict[int, int] = {}
        self.persistent = PersistentCollectives()

    def opened(self, name: str, place: int) -> int:
        """Note that the running rank begins a call; the row."""
        names = self.names
        number = names[name] if name in names else names.setdefault(name, len(names))
        inside = self._innermost()
        phase = self._phases.setdefault(inside, len(self._phases))
        rank, begin_s, self._opened = self.hub.rank, self.hub.now_ahead(), self._opened + 1
        if self._free:
            row = self._free.pop()
            self._rank[row], self._call[row], self._place[row], self._phase[row] = rank, number, place, phase
            self._begin_s[row], self._end_s[row], self._order[row] = begin_s, np.nan, self._opened
            return row
        self._rank.append(rank)
        self._call.append(number)
        self._place.append(place)
        self._phase.append(phase)
        self._begin_s.append(begin_s)
        self._end_s.append(np.nan)
        self._order.append(self._opened)
        return len(self._rank) - 1

    def closed(self, row: int) -> None:
        """Note that a call is over."""
        self._end_s[row] = self.hub.now_after()
        if self._inside or self._polls:
            rank = self._rank[row]
            self._inside.pop(rank, None)
            self._polls.pop(rank, None)

    def joined(
        self, row: int, comm: Intracomm, root: int | None, n_bytes: int, number: int | None = None
    ) -> None:
        """Note that a call is the communicator's next collective, or the next start of a persistent one."""
        rank, context, top = self._rank[row], int(comm._context), -1
        context = context if number is None else number
        if comm.size == 1:
            context = -2 - rank  # nobody else's
        sequence = self._sequences[rank, context] = self._sequences.get((rank, context), -1) + 1
        if root is not None and 0 <= root < comm.size:
            top = root if comm._context == 0 else comm._world_ranks()[root]
        self._joined[row] = [context, sequence, n_bytes, top, comm.rank]
        self._inside[rank] = row

    def took(self, algorithm: str) -> None:
        """Note the algorithm of the collective that the running rank is in, as collective/algorithm."""
        row = self._inside.get(self.hub.rank)
        if row is not None:
            self._took[row] = algorithm.partition("/")[2]

    def gave(self, n_bytes: int) -> None:
        """Note what the running rank gives to the collective that it is in."""
        row = self._inside.get(self.hub.rank)
        if row is not None:
            self._joined[row][2] += n_bytes

    def polled(self, row: int) -> None:
        """Note that a call found nothing: one with the poll before, if it follows closely."""
        rank, now = self._rank[row], self.hub.now_after()
        before, self._polls[rank], self._end_s[row] = self._polls.get(rank), row, now
        if before is None or self._call[before] != self._call[row]:
            return
        if self._begin_s[row] - self._end_s[before] <= _SPIN_S:
            self._end_s[before], self._polls[rank] = now, before
            self._rank[row] = -1
            self._free.append(row)

    def table(self, ends_s: list[float]) -> pd.DataFrame:
        """Return `Trace.calls`."""
        import pandas as pd

        rank, begin, end = np.array(self._rank), np.array(self._begin_s), np.array(self._end_s)
        order = np.lexsort((np.array(self._order), rank))
        order = order[rank[order] >= 0]
        joined = np.full((5, len(rank)), -1, np.int64)
        joined[2] = 0
        if self._joined:
            joined[:, list(self._joined)] = np.array(list(self._joined.values()), np.int64).T
        rank, begin, end, joined = rank[order], begin[order], end[order], joined[:, order]
        # A call that raised was over before the rank's next one began, or with its program.
        after = np.asarray(ends_s, np.float64)[rank]
        after[:-1] = np.where(rank[1:] == rank[:-1], begin[1:], after[:-1])
        lists = (self.names, self.places.texts(), self._phases)
        names, texts, phases = (np.array([*words, ""], object) for words in lists)
        context, sequence, n_bytes, root, position = joined
        called = names[np.array(self._call)[order]]
        joint = join_calls({"rank": rank, "context": context, "sequence": sequence})
        took = np.full(len(self._rank), "", object)
        took[list(self._took)] = list(self._took.values())
        alike = zip(context.tolist(), called.tolist(), n_bytes.tolist(), strict=True)
        return pd.DataFrame(
            {
                "rank": rank.astype(np.int64),
                "call": called,
                "bytes": n_bytes,
                "begin_s": begin,
                "end_s": np.where(np.isnan(end), after, end),
                "joint": joint,
                "root": root,
                "position": position,
                "place": texts[np.array(self._place)[order]],
                "phase": phases[np.array(self._phase)[order]],
                "algorithm": _spread(took[order].tolist(), joint.tolist(), list(alike)),
            }
        )


def _spread(took: list[str], joint: list[int], alike: list[object]) -> list[str]:
    """Give what one rank has noted to the others of its collective, and to calls that repeat it.

    The engine repeats a collective without asking again; calls that are alike and were once carried out by
    different algorithms (of another operator) are then left open.
    """
    of_joint = {number: name for number, name in zip(joint, took, strict=True) if name and number >= 0}
    known: dict[object, set[str]] = {}
    for key, name in zip(alike, took, strict=True):
        if name:
            known.setdefault(key, set()).add(name)
    repeated = {key: next(iter(names)) for key, names in known.items() if len(names) == 1}
    rows = zip(took, joint, alike, strict=True)
    return [name or of_joint.get(n, repeated.get(key, "") if n >= 0 else "") for name, n, key in rows]


class CallSummary:
    """Sums up what the ranks of one run call, in the place of `CallNotes`; no call is kept.

    `hub`: Of the run.
    """

    def __init__(self, hub: _kernels.Hub) -> None:
        self.hub = hub
        self.places = Places()
        self.persistent = PersistentCollectives()
        self.sums = sums = HubSums(hub)
        # without frames of Python in between: a run makes many calls
        self.place_outside = self.places.outside
        self.opened, self.closed, self.polled, self.gave = sums.opened, sums.closed, sums.polled, sums.gave

    def joined(
        self, rank: int, comm: Intracomm, root: int | None, n_bytes: int, number: int | None = None
    ) -> None:
        """Note that a call is a collective."""
        self.sums.joined(rank, n_bytes)

    def columns(self) -> Columns:
        """End the run and return the sums: see `labkit.trace.counters.summed_columns`."""
        columns = self.sums.columns()
        return summed_columns(columns, columns["calls"], self.places.texts())
